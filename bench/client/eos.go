package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// eos: consume, transform, produce in a group with the offsets inside the transaction, at most -poll records
// each; then every output is counted. The clock runs from the creation of the member, joining included.
func eos(ctx context.Context, f figures) error {
	in, out, err := inputAndOutput(ctx)
	if err != nil {
		return err
	}
	requests.reset()
	start := time.Now()
	session, err := kgo.NewGroupTransactSession(clientOpts(
		kgo.TransactionalID(fresh("eos")), kgo.ConsumerGroup(fresh("eos")), kgo.ConsumeTopics(in),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(), kgo.DefaultProduceTopic(out), kgo.ProducerLinger(0))...)
	if err != nil {
		return err
	}
	defer session.CloseAllowingRebalance()
	var joined time.Duration
	var txns durations
	retried := 0
	for done := 0; done < *eosRecords; {
		fetches := session.PollRecords(ctx, *eosPoll)
		if errs := fetches.Errors(); len(errs) > 0 {
			if ctx.Err() == nil && kerr.IsRetriable(errs[0].Err) { // The client tries again by itself.
				retried++
				continue
			}
			return fmt.Errorf("poll after %d records: %w", done, errs[0].Err)
		}
		if fetches.NumRecords() == 0 {
			continue
		}
		if joined == 0 {
			joined = time.Since(start)
		}
		began := time.Now()
		committed, err := forward(ctx, session, fetches)
		if err != nil {
			return fmt.Errorf("transaction after %d records: %w", done, err)
		}
		if committed {
			done += fetches.NumRecords()
			txns = append(txns, time.Since(began))
		}
	}
	took := time.Since(start)
	f["records"], f["records_per_s"] = *eosRecords, perSecond(*eosRecords, took)
	f["records_per_s_after_join"] = perSecond(*eosRecords, took-joined)
	f["txns"], f["first_records_ms"], f["poll_retries"] = len(txns), ms(joined), retried
	f["requests_timed"] = requests.snapshot()
	txns.into(f, "txn")
	return exactlyOnce(ctx, out, f)
}

// inputAndOutput makes both topics and fills the input with the keys 0..k-1.
func inputAndOutput(ctx context.Context) (in, out string, err error) {
	if in, err = newTopic(ctx, *partitions); err != nil {
		return
	}
	if out, err = newTopic(ctx, *partitions); err != nil {
		return
	}
	producer, err := newClient(kgo.DefaultProduceTopic(in))
	if err != nil {
		return
	}
	defer producer.Close()
	records := make([]*kgo.Record, *eosRecords)
	for i := range records {
		records[i] = &kgo.Record{Key: []byte(strconv.Itoa(i)), Value: payload(100)}
	}
	if err = producer.ProduceSync(ctx, records...).FirstErr(); err != nil {
		err = fmt.Errorf("loading the input: %w", err)
	}
	return
}

// forward writes what was polled to the output, in one transaction.
func forward(ctx context.Context, session *kgo.GroupTransactSession, fetches kgo.Fetches) (bool, error) {
	if err := session.Begin(); err != nil {
		return false, err
	}
	first := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(r *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Key: r.Key, Value: r.Value}, first.Promise())
	})
	failed := first.Err()
	committed, err := session.End(ctx, failed == nil)
	return committed, errors.Join(failed, err)
}

// exactlyOnce reads the output to its end, read_committed, and counts keys that are missing or there twice.
func exactlyOnce(ctx context.Context, topic string, f figures) error {
	const patience = 4 // seconds without a record until missing ones are given up
	cl, err := newClient(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	times := map[string]int{}
	var fetchErr error
	// Once all keys are there, one quiet second more: a duplicate may follow.
	for idle := 0; idle < 1 || len(times) < *eosRecords && idle < patience; {
		second, cancel := context.WithTimeout(ctx, time.Second)
		fetches := cl.PollFetches(second)
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				fetchErr = e.Err
			}
		}
		if fetches.NumRecords() == 0 {
			idle++
			continue
		}
		idle = 0
		fetches.EachRecord(func(r *kgo.Record) { times[string(r.Key)]++ })
	}
	missing, duplicates := *eosRecords-len(times), -len(times)
	for n := range maps.Values(times) {
		duplicates += n
	}
	f["missing"], f["duplicates"] = missing, duplicates
	if missing != 0 || duplicates != 0 {
		return fmt.Errorf("not exactly once: of %d records %d missing, %d twice (last fetch error: %v)",
			*eosRecords, missing, duplicates, fetchErr)
	}
	return nil
}

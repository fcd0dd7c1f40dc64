package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnLatency: one transactional id, -n transactions of one 100-byte record, one after another.
func txnLatency(ctx context.Context, f figures) error {
	const warmups = 20 // producer id, metadata, connections
	topic, err := newTopic(ctx, 1)
	if err != nil {
		return err
	}
	cl, err := newClient(
		kgo.TransactionalID(fresh("lat")), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	value := payload(100)
	once := func() (time.Duration, error) { return transact(ctx, cl, []*kgo.Record{{Value: value}}) }
	for range warmups {
		if _, err := once(); err != nil {
			return err
		}
	}
	requests.reset()
	var timed txnTimes
	start := time.Now()
	if err := timed.repeat(*latencyN, start, once); err != nil {
		return err
	}
	timed.into(f, time.Since(start))
	return nil
}

// txnConcurrent: -c transactional ids at once, each -t transactions of ten records over three partitions.
func txnConcurrent(ctx context.Context, f figures) error {
	const recordsPerTxn, spread = 10, 3
	topic, err := newTopic(ctx, spread)
	if err != nil {
		return err
	}
	value := payload(100)
	once := func(cl *kgo.Client) (time.Duration, error) {
		records := make([]*kgo.Record, recordsPerTxn)
		for i := range records {
			records[i] = &kgo.Record{Topic: topic, Partition: int32(i % spread), Value: value}
		}
		return transact(ctx, cl, records)
	}
	cls := make([]*kgo.Client, *idsAtOnce)
	defer func() { closeAll(cls) }()
	err = parallel(len(cls), func(i int) (err error) {
		cls[i], err = newClient(kgo.TransactionalID(fresh("con")),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
		if err == nil {
			_, err = once(cls[i]) // warm-up
		}
		return err
	})
	if err != nil {
		return err
	}
	requests.reset()
	timed := make([]txnTimes, len(cls))
	start := time.Now()
	err = parallel(len(cls), func(i int) error {
		return timed[i].repeat(*txnsPerID, start, func() (time.Duration, error) { return once(cls[i]) })
	})
	if err != nil {
		return err
	}
	var all txnTimes
	for _, t := range timed {
		all.txns, all.commits = append(all.txns, t.txns...), append(all.commits, t.commits...)
	}
	f["ids"] = len(cls)
	all.into(f, time.Since(start))
	return nil
}

func closeAll(cls []*kgo.Client) {
	var all sync.WaitGroup
	for _, cl := range cls {
		if cl != nil {
			all.Go(cl.Close)
		}
	}
	all.Wait()
}

// txnTimes are the durations of whole transactions and of their commits alone.
type txnTimes struct{ txns, commits durations }

// repeat runs up to n transactions, and none that would begin later than -cap after start.
func (t *txnTimes) repeat(n int, start time.Time, once func() (time.Duration, error)) error {
	for range n {
		began := time.Now()
		if began.Sub(start) > *txnCap {
			return nil
		}
		commit, err := once()
		if err != nil {
			return fmt.Errorf("after %d transactions: %w", len(t.txns), err)
		}
		t.txns, t.commits = append(t.txns, time.Since(began)), append(t.commits, commit)
	}
	return nil
}

func (t *txnTimes) into(f figures, took time.Duration) {
	f["txns"], f["txn_per_s"] = len(t.txns), perSecond(len(t.txns), took)
	t.txns.into(f, "txn")
	t.commits.into(f, "commit")
}

// inits: InitProducerId for -ids fresh transactional ids, 64 in flight on each of four connections.
func inits(ctx context.Context, f figures) error {
	const connections, inFlight = 4, 64
	prefix := fresh("init")
	request := func(i int) *kmsg.InitProducerIDRequest {
		r := kmsg.NewPtrInitProducerIDRequest()
		r.TransactionalID = kmsg.StringPtr(fmt.Sprintf("%s-%d", prefix, i))
		r.TransactionTimeoutMillis = 60_000
		return r
	}
	brokers := make([]*kgo.Broker, connections)
	for i := range brokers {
		cl, err := newClient()
		if err != nil {
			return err
		}
		defer cl.Close()
		// Routed: this one finds the coordinator, and makes a broker create its state topic.
		answer, err := request(-1-i).RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(answer.ErrorCode)
		}
		if err != nil {
			return err
		}
		brokers[i] = cl.DiscoveredBrokers()[0]
	}
	requests.reset()
	var next, retried atomic.Int64
	took := make([]durations, connections*inFlight)
	start := time.Now()
	err := parallel(len(took), func(worker int) error {
		for i := int(next.Add(1)) - 1; i < *freshIDs; i = int(next.Add(1)) - 1 {
			last, err := initOne(ctx, brokers[worker%connections], request(i), &retried)
			if err != nil {
				return err
			}
			took[worker] = append(took[worker], last)
		}
		return nil
	})
	if err != nil {
		return err
	}
	f["ids"], f["inits_per_s"] = *freshIDs, perSecond(*freshIDs, time.Since(start))
	f["retried"] = retried.Load()
	var all durations
	for _, some := range took {
		all = append(all, some...)
	}
	all.into(f, "init")
	return nil
}

// initOne asks until the answer is final, and returns how long the last question took.
func initOne(
	ctx context.Context, broker *kgo.Broker, request *kmsg.InitProducerIDRequest, retried *atomic.Int64,
) (time.Duration, error) {
	for {
		began := time.Now()
		answer, err := broker.Request(ctx, request)
		if err != nil {
			return 0, err
		}
		err = kerr.ErrorForCode(answer.(*kmsg.InitProducerIDResponse).ErrorCode)
		if err == nil {
			return time.Since(began), nil
		}
		if !kerr.IsRetriable(err) || ctx.Err() != nil {
			return 0, err
		}
		retried.Add(1)
		time.Sleep(retryPause)
	}
}

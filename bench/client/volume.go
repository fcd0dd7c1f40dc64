package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produced is what the last produce of this process wrote, for consume to read.
var produced struct {
	topic string
	size  int
}

// produce: as many records as the client can push in -secs seconds, idempotent, acks=all.
func produce(ctx context.Context, f figures, size int) error {
	topic, err := newTopic(ctx, *partitions)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(topic)}
	if size < 1024 {
		opts = append(opts, kgo.ProducerLinger(0))
	}
	cl, err := newClient(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	value := payload(size)
	if err := cl.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
		return err
	}
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	start := time.Now()
	deadline := start.Add(time.Duration(*seconds) * time.Second)
	for time.Now().Before(deadline) && failed.Load() == nil {
		cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.CompareAndSwap(nil, &err)
				return
			}
			acked.Add(1)
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	took := time.Since(start)
	if e := failed.Load(); e != nil {
		return fmt.Errorf("after %d records: %w", acked.Load(), *e)
	}
	produced.topic, produced.size = topic, size
	f["topic"], f["records"], f["record_bytes"] = topic, acked.Load(), size
	f["records_per_s"] = perSecond(int(acked.Load()), took)
	f["mb_per_s"] = rounded(float64(acked.Load()) * float64(size) / 1e6 / took.Seconds())
	return nil
}

// consume: read the topic of the last produce from its start to the end that it has now.
func consume(ctx context.Context, f figures) error {
	if produced.topic == "" {
		return errors.New("nothing to consume: run produce or produce-small before")
	}
	want, err := length(ctx, produced.topic)
	if err != nil {
		return err
	}
	cl, err := newClient(
		kgo.ConsumeTopics(produced.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	var records, size int64
	start := time.Now()
	for records < want {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("after %d of %d records: %w", records, want, err)
		}
		fetches.EachRecord(func(r *kgo.Record) { records, size = records+1, size+int64(len(r.Value)) })
	}
	took := time.Since(start)
	f["records"], f["record_bytes"] = records, produced.size
	f["records_per_s"] = perSecond(int(records), took)
	f["mb_per_s"] = rounded(float64(size) / 1e6 / took.Seconds())
	return nil
}

// length is the number of offsets from the start of a topic to its end.
func length(ctx context.Context, topic string) (int64, error) {
	cl, err := newClient()
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, err
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	starts.Each(func(o kadm.ListedOffset) { n -= o.Offset })
	return n, errors.Join(starts.Error(), ends.Error())
}

// conns: -m clients connect and produce one record at once, then each one a second for -secs seconds.
func conns(ctx context.Context, f figures) error {
	topic, err := newTopic(ctx, *partitions)
	if err != nil {
		return err
	}
	value := payload(100)
	cls := make([]*kgo.Client, *clients)
	defer func() { closeAll(cls) }()
	firsts := make(durations, len(cls))
	start := time.Now()
	err = parallel(len(cls), func(i int) (err error) {
		cls[i], err = newClient(kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
		if err == nil {
			err = cls[i].ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr()
		}
		firsts[i] = time.Since(start)
		return err
	})
	if err != nil {
		return err
	}
	f["clients"], f["all_acked_ms"] = len(cls), ms(time.Since(start))
	f["rss_connected_mb"] = rssMB(*serverPID)
	firsts.into(f, "first_ack")

	acks := make([]durations, len(cls))
	steady := startMeter()
	err = parallel(len(cls), func(i int) error {
		time.Sleep(time.Second * time.Duration(i) / time.Duration(len(cls))) // spread over the second
		for range *seconds {
			began := time.Now()
			if err := cls[i].ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
				return err
			}
			took := time.Since(began)
			acks[i] = append(acks[i], took)
			time.Sleep(time.Second - took)
		}
		return nil
	})
	if err != nil {
		return err
	}
	spent := figures{}
	steady.into(spent)
	f["steady_server_cpu_s"], f["steady_s"] = spent["server_cpu_s"], spent["wall_s"]
	var all durations
	for _, some := range acks {
		all = append(all, some...)
	}
	all.into(f, "ack")
	return nil
}

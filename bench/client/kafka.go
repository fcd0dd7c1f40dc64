package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const retryPause = 20 * time.Millisecond

// newClient retries fast, and does not compress, so that a byte counts as a byte.
func newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(clientOpts(opts...)...)
}

func clientOpts(opts ...kgo.Opt) []kgo.Opt {
	all := []kgo.Opt{
		kgo.SeedBrokers(*bootstrap),
		kgo.RetryBackoffFn(func(int) time.Duration { return retryPause }),
		kgo.RequestRetries(1000),
		kgo.MetadataMinAge(retryPause),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.AllowAutoTopicCreation(),
		kgo.WithHooks(&requests),
	}
	if *verbose {
		all = append(all, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)))
	}
	return append(all, opts...)
}

// newTopic makes a topic with a random name and waits until every partition has a leader.
func newTopic(ctx context.Context, partitions int) (string, error) {
	cl, err := newClient()
	if err != nil {
		return "", err
	}
	defer cl.Close()
	topic := fresh("t")
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 15_000
	wanted := kmsg.NewCreateTopicsRequestTopic()
	wanted.Topic, wanted.NumPartitions, wanted.ReplicationFactor = topic, int32(partitions), 1
	create.Topics = append(create.Topics, wanted)
	created, err := cl.SeedBrokers()[0].Request(ctx, create) // There is one broker: it is the controller.
	if err != nil {
		return "", fmt.Errorf("CreateTopics: %w", err)
	}
	if err := kerr.ErrorForCode(created.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode); err != nil {
		return "", fmt.Errorf("CreateTopics: %w", err)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	described := kmsg.NewMetadataRequestTopic()
	described.Topic = &topic
	metadata.Topics = append(metadata.Topics, described)
	for ctx.Err() == nil {
		answer, err := metadata.RequestWith(ctx, cl)
		if err != nil {
			return "", fmt.Errorf("Metadata: %w", err)
		}
		if led(answer.Topics[0], partitions) {
			return topic, nil
		}
		time.Sleep(probePause)
	}
	return "", ctx.Err()
}

// led is true when every partition has a leader.
func led(topic kmsg.MetadataResponseTopic, partitions int) bool {
	if topic.ErrorCode != 0 || len(topic.Partitions) < partitions {
		return false
	}
	for _, p := range topic.Partitions {
		if p.ErrorCode != 0 || p.Leader < 0 {
			return false
		}
	}
	return true
}

// transact runs one transaction and returns how long its commit alone took.
func transact(ctx context.Context, cl *kgo.Client, records []*kgo.Record) (time.Duration, error) {
	if err := cl.BeginTransaction(); err != nil {
		return 0, err
	}
	if err := cl.ProduceSync(ctx, records...).FirstErr(); err != nil {
		cl.EndTransaction(ctx, kgo.TryAbort)
		return 0, err
	}
	began := time.Now()
	err := cl.EndTransaction(ctx, kgo.TryCommit)
	return time.Since(began), err
}

// fresh is a name that no other run uses.
func fresh(prefix string) string { return fmt.Sprintf("%s-%08x", prefix, rand.Uint32()) }

// payload cannot be compressed.
func payload(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// parallel calls f for 0..n-1 at once and returns one of the errors.
func parallel(n int, f func(int) error) error {
	var all sync.WaitGroup
	errs := make(chan error, n)
	for i := range n {
		all.Go(func() {
			if err := f(i); err != nil {
				errs <- err
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// requests counts what all clients have written, by API name.
var requests = requestCounter{byName: map[string]int{}}

type requestCounter struct {
	mu     sync.Mutex
	byName map[string]int
}

func (r *requestCounter) OnBrokerWrite(
	_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName[kmsg.NameForKey(key)]++
}

func (r *requestCounter) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byName = map[string]int{}
}

func (r *requestCounter) snapshot() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.byName)
}

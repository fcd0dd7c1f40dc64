package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// peer is what an ordinary application does with franz-go, default settings but for names and time-outs.
type peer struct {
	ctx       context.Context
	cluster   string
	bootstrap string
	opts      []kgo.Opt
}

func (p *peer) client(opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(slices.Concat(opts, p.opts, []kgo.Opt{kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...)})...)
	must(err)
	return client
}

func (p *peer) createTopic(topic string, partitions int32) {
	client := p.client()
	defer client.Close()
	_, err := kadm.NewClient(client).CreateTopic(p.ctx, partitions, 1, nil, topic)
	must(err)
}

func (p *peer) transactionalProducer(transactionalID string, opts ...kgo.Opt) *kgo.Client {
	byHand := kgo.RecordPartitioner(kgo.ManualPartitioner())
	return p.client(append(opts, kgo.TransactionalID(transactionalID), byHand)...)
}

// send produces, and waits until everything is acknowledged.
func (p *peer) send(producer *kgo.Client, topic string, partition int32, values ...string) error {
	records := make([]*kgo.Record, len(values))
	for n, value := range values {
		records[n] = &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	}
	return producer.ProduceSync(p.ctx, records...).FirstErr()
}

func (p *peer) write(topic string, partition int32, values ...string) {
	producer := p.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	must(p.send(producer, topic, partition, values...))
}

// commit does one transaction with the same values in every partition.
func (p *peer) commit(producer *kgo.Client, topic string, partitions int32, values ...string) {
	must(producer.BeginTransaction())
	for partition := range partitions {
		must(p.send(producer, topic, partition, values...))
	}
	must(producer.EndTransaction(p.ctx, kgo.TryCommit))
}

// read gives what a reader of partition 0 sees from its beginning up to last.
func (p *peer) read(topic string, isolation kgo.IsolationLevel, last string) (values []string) {
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer := p.client(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(isolation))
	defer consumer.Close()
	for !slices.Contains(values, last) {
		fetches := consumer.PollFetches(p.ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

func (p *peer) readInGroup(group, topic string, count int) (values []string) {
	consumer := p.client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	defer consumer.Close()
	for len(values) < count {
		fetches := consumer.PollFetches(p.ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values
}

// transform upper-cases count records from one topic to the other, offsets and all.
// Its first round is aborted, which sends the session back to where it was.
func (p *peer) transform(own, source, target string, count int) {
	session := p.session(own, own, source)
	defer session.Close()
	total := p.tally(count)
	total.round(session, target, kgo.TryAbort)
	total.transform(session, target)
}

func (p *peer) session(transactionalID, group, source string, opts ...kgo.Opt) *kgo.GroupTransactSession {
	session, err := kgo.NewGroupTransactSession(slices.Concat(opts, p.opts, []kgo.Opt{
		kgo.SeedBrokers(strings.Split(p.bootstrap, ",")...),
		kgo.TransactionalID(transactionalID),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		// How soon a member hears of a rebalance; three seconds unless told.
		kgo.HeartbeatInterval(200 * time.Millisecond),
	})...)
	must(err)
	return session
}

// onFirstAssignment calls back once, when a member of a group has got a partition.
func onFirstAssignment(callback func()) kgo.Opt {
	var once sync.Once
	return kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
		if len(assigned) > 0 {
			once.Do(callback)
		}
	})
}

// tally is how many records the sessions of a group have to transform, and how many they have.
type tally struct {
	ctx  context.Context
	left atomic.Int64
	done chan struct{}
}

func (p *peer) tally(count int) *tally {
	total := &tally{ctx: p.ctx, done: make(chan struct{})}
	total.left.Store(int64(count))
	return total
}

// transform goes on until all sessions together have done all records.
func (t *tally) transform(session *kgo.GroupTransactSession, target string) {
	for t.left.Load() > 0 {
		t.round(session, target, kgo.TryCommit)
	}
}

// round upper-cases what there is in one transaction. It gives up waiting when another session did the last record.
func (t *tally) round(session *kgo.GroupTransactSession, target string, outcome kgo.TransactionEndTry) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	go func() {
		select {
		case <-t.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	fetches := session.PollRecords(ctx, 5)
	if ctx.Err() != nil && t.ctx.Err() == nil {
		return
	}
	must(fetches.Err())
	must(session.Begin())
	fetches.EachRecord(func(record *kgo.Record) {
		value := strings.ToUpper(string(record.Value))
		session.Produce(t.ctx, &kgo.Record{Topic: target, Value: []byte(value)}, nil)
	})
	committed, err := session.End(t.ctx, outcome)
	must(err)
	if committed && t.left.Add(-int64(fetches.NumRecords())) <= 0 && fetches.NumRecords() > 0 {
		close(t.done)
	}
}

func (p *peer) committedOffsets(group, topic string) map[int32]int64 {
	client := p.client()
	defer client.Close()
	fetched, err := kadm.NewClient(client).FetchOffsets(p.ctx, group)
	must(err)
	offsets := map[int32]int64{}
	fetched.Each(func(each kadm.OffsetResponse) {
		must(each.Err)
		if each.Topic == topic {
			offsets[each.Partition] = each.At
		}
	})
	return offsets
}

// readAll gives what a reader of partition 0 sees from its beginning up to where it ends now.
func (p *peer) readAll(topic string) (values []string) {
	_, stable := p.ends(topic)
	start := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	consumer := p.client(kgo.ConsumePartitions(start), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer consumer.Close()
	for last := int64(-1); last < stable[0]-1; {
		fetches := consumer.PollFetches(p.ctx)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			last = record.Offset
			if !record.Attrs.IsControl() {
				values = append(values, string(record.Value))
			}
		})
	}
	return values
}

// ends gives the end of every partition's log, and the last stable offset.
func (p *peer) ends(topic string) (all, stable map[int32]int64) {
	client := p.client()
	defer client.Close()
	offsets := func(listed kadm.ListedOffsets, err error) map[int32]int64 {
		must(err)
		must(listed.Error())
		found := map[int32]int64{}
		listed.Each(func(each kadm.ListedOffset) { found[each.Partition] = each.Offset })
		return found
	}
	admin := kadm.NewClient(client)
	return offsets(admin.ListEndOffsets(p.ctx, topic)), offsets(admin.ListCommittedOffsets(p.ctx, topic))
}

// checkNothingIsOpen wants the last stable offset of every partition at the end: no transaction holds readers back.
func (p *peer) checkNothingIsOpen(topic string) {
	if all, stable := p.ends(topic); !maps.Equal(all, stable) || len(all) == 0 {
		panic(fmt.Sprintf("the logs end at %v, but are stable only up to %v", all, stable))
	}
}

// requests is what a client has written since it was told to forget.
type requests struct {
	lock sync.Mutex
	sent []kmsg.Key
}

// OnBrokerWrite is called by the client for every request.
func (r *requests) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.sent = append(r.sent, kmsg.Key(key))
}

func (r *requests) forget() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.sent = nil
}

// keys are the APIs of those that are wanted, each once however often it had to be asked.
func (r *requests) keys(wanted ...kmsg.Key) (found []kmsg.Key) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for _, key := range r.sent {
		if slices.Contains(wanted, key) {
			found = append(found, key)
		}
	}
	return slices.Compact(found)
}

// watch is a reader of committed records who is there all the time, from the beginning of the topic on.
type watch struct {
	ctx        context.Context
	cancel     context.CancelFunc
	arrived    chan *kgo.Record
	ended      chan struct{}
	partitions int
	values     map[int32][]string
}

func (p *peer) watch(topic string, partitions int32) *watch {
	ctx, cancel := context.WithCancel(p.ctx)
	w := &watch{ctx, cancel, make(chan *kgo.Record, 1000), make(chan struct{}), int(partitions), map[int32][]string{}}
	start := map[int32]kgo.Offset{}
	for partition := range partitions {
		start[partition] = kgo.NewOffset().AtStart()
	}
	consume := kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start})
	consumer := p.client(consume, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	go func() {
		defer close(w.ended)
		defer consumer.Close()
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(record *kgo.Record) { w.arrived <- record })
		}
	}()
	return w
}

// waitFor gives all values so far, once every partition has shown this one.
func (w *watch) waitFor(value string) map[int32][]string {
	for shown := 0; shown < w.partitions; {
		select {
		case record := <-w.arrived:
			w.values[record.Partition] = append(w.values[record.Partition], string(record.Value))
		case <-w.ctx.Done():
			panic(fmt.Sprintf("no %q in every partition, but %v", value, w.values))
		}
		shown = 0
		for _, seen := range w.values {
			if slices.Contains(seen, value) {
				shown++
			}
		}
	}
	return w.values
}

func (w *watch) close() {
	w.cancel()
	<-w.ended
}

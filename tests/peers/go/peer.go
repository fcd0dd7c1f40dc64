package main

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// peer is what an ordinary application does with franz-go, default settings but for names and time-outs.
type peer struct {
	ctx       context.Context
	bootstrap string
}

func (p *peer) client(opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(p.bootstrap))...)
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

func (p *peer) commit(producer *kgo.Client, topic string, values ...string) {
	must(producer.BeginTransaction())
	must(p.send(producer, topic, 0, values...))
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
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(p.bootstrap),
		kgo.TransactionalID(own),
		kgo.ConsumerGroup(own),
		kgo.ConsumeTopics(source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)
	must(err)
	defer session.Close()
	outcome := kgo.TryAbort
	for done := 0; done < count; outcome = kgo.TryCommit {
		fetches := session.PollRecords(p.ctx, 5)
		must(fetches.Err())
		must(session.Begin())
		fetches.EachRecord(func(record *kgo.Record) {
			value := strings.ToUpper(string(record.Value))
			session.Produce(p.ctx, &kgo.Record{Topic: target, Value: []byte(value)}, nil)
		})
		committed, err := session.End(p.ctx, outcome)
		must(err)
		if committed {
			done += fetches.NumRecords()
		}
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

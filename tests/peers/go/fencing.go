package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 3

func zombieIsFencedAtItsCommit(p *peer, own string) {
	p.createTopic(own, 1)
	zombie := p.transactionalProducer(own)
	defer zombie.Close()
	must(zombie.BeginTransaction())
	must(p.send(zombie, own, 0, "zombie"))

	heir := p.transactionalProducer(own)
	defer heir.Close()
	p.commit(heir, own, 1, "heir")
	raised(kerr.ProducerFenced, zombie.EndTransaction(p.ctx, kgo.TryCommit))

	same([]string{"heir"}, p.read(own, kgo.ReadCommitted(), "heir"))
	p.checkNothingIsOpen(own)
}

// The record's own error looks like that of a time-out, so the client tries to recover, each protocol in its way,
// and only then hears of the fence.
func zombieIsFencedAfterItsNextRecord(p *peer, own string) {
	p.createTopic(own, 1)
	zombie := p.transactionalProducer(own)
	defer zombie.Close()
	must(zombie.BeginTransaction())
	must(p.send(zombie, own, 0, "zombie"))

	heir := p.transactionalProducer(own)
	defer heir.Close()
	p.commit(heir, own, 1, "heir 1")
	raised(kerr.InvalidProducerEpoch, p.send(zombie, own, 0, "zombie"))
	if p.cluster == "tv2" && p.opts == nil {
		raised(kerr.ProducerFenced, zombie.EndTransaction(p.ctx, kgo.TryAbort))
	} else {
		must(zombie.EndTransaction(p.ctx, kgo.TryAbort))
		raised(kerr.ProducerFenced, zombie.BeginTransaction())
	}
	p.commit(heir, own, 1, "heir 2")

	same([]string{"heir 1", "heir 2"}, p.read(own, kgo.ReadCommitted(), "heir 2"))
	p.checkNothingIsOpen(own)
}

func takeoverShowsNoRecordOfTheZombie(p *peer, own string) {
	p.createTopic(own, partitions)
	seen := p.watch(own, partitions)
	defer seen.close()
	before := p.transactionalProducer(own + "-before")
	defer before.Close()
	p.commit(before, own, partitions, "before")
	seen.waitFor("before")
	zombie := p.transactionalProducer(own)
	defer zombie.Close()
	must(zombie.BeginTransaction())
	for partition := range int32(partitions) {
		must(p.send(zombie, own, partition, "zombie 1", "zombie 2"))
	}

	heir := p.transactionalProducer(own)
	defer heir.Close()
	p.commit(heir, own, partitions, "heir")
	raised(kerr.ProducerFenced, zombie.EndTransaction(p.ctx, kgo.TryCommit))
	p.commit(heir, own, partitions, "after")
	values := seen.waitFor("after")

	for partition := range int32(partitions) {
		same([]string{"before", "heir", "after"}, values[partition])
	}
	p.checkNothingIsOpen(own)
}

// KIP-447: a session whose partition went to another member while its transaction was open commits nothing.
func memberThatWasRebalancedOutCommitsNothing(p *peer, own string) {
	source, target := own+"-source", own+"-target"
	p.createTopic(source, 2)
	p.createTopic(target, 1)
	p.write(source, 0, numbered("a", 4)...)
	p.write(source, 1, numbered("b", 4)...)
	zombie := p.session(own+"-1", own, source)
	defer zombie.Close()
	must(zombie.Begin())
	for count := 0; count < 8; {
		fetches := zombie.PollRecords(p.ctx, 8)
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			zombie.Produce(p.ctx, &kgo.Record{Topic: target, Value: []byte("zombie")}, nil)
		})
		count += fetches.NumRecords()
	}
	must(zombie.Client().Flush(p.ctx))

	taken := make(chan struct{})
	heir := p.session(own+"-2", own, source, onFirstAssignment(func() { close(taken) }))
	defer heir.Close()
	select {
	case <-taken:
	case <-p.ctx.Done():
		panic("the second member never got a partition")
	}
	committed, err := zombie.End(p.ctx, kgo.TryCommit)
	must(err)
	if committed {
		panic("the transaction of a member that was rebalanced out was committed")
	}
	if offsets := p.committedOffsets(own, source); len(offsets) != 0 {
		panic(fmt.Sprintf("committed offsets %v", offsets))
	}

	var work sync.WaitGroup
	total := p.tally(8)
	for _, session := range []*kgo.GroupTransactSession{zombie, heir} {
		work.Go(func() { total.transform(session, target) })
	}
	work.Wait()
	same([]string{"A0", "A1", "A2", "A3", "B0", "B1", "B2", "B3"}, slices.Sorted(slices.Values(p.readAll(target))))
	if offsets := p.committedOffsets(own, source); !maps.Equal(offsets, map[int32]int64{0: 4, 1: 4}) {
		panic(fmt.Sprintf("committed offsets %v", offsets))
	}
	if strings.Contains(strings.Join(p.readAll(target), " "), "zombie") {
		panic("a record of the zombie was committed")
	}
}

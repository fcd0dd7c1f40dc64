package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

func consumesInAGroupWhatItProduced(p *peer, own string) {
	p.createTopic(own, 2)
	p.write(own, 0, numbered("a", 50)...)
	p.write(own, 1, numbered("b", 50)...)

	values := p.readInGroup(own, own, 100)

	same(numbered("a", 50), starting("a", values))
	same(numbered("b", 50), starting("b", values))
}

func readsACommittedTransaction(p *peer, own string) {
	p.createTopic(own, 1)
	producer := p.transactionalProducer(own)
	defer producer.Close()
	p.commit(producer, own, 1, "one", "two")

	same([]string{"one", "two"}, p.read(own, kgo.ReadCommitted(), "two"))
}

func readsAnAbortedTransactionOnlyUncommitted(p *peer, own string) {
	p.createTopic(own, 1)
	producer := p.transactionalProducer(own)
	defer producer.Close()
	must(producer.BeginTransaction())
	must(p.send(producer, own, 0, "lost"))
	must(producer.EndTransaction(p.ctx, kgo.TryAbort))
	p.commit(producer, own, 1, "kept")

	same([]string{"kept"}, p.read(own, kgo.ReadCommitted(), "kept"))
	same([]string{"lost", "kept"}, p.read(own, kgo.ReadUncommitted(), "kept"))
}

// KIP-98 and KIP-447: an aborted round leaves neither records nor offsets, so it is done again.
func transformsExactlyOnce(p *peer, own string) {
	source, target := own+"-source", own+"-target"
	p.createTopic(source, 2)
	p.createTopic(target, 1)
	p.write(source, 0, numbered("a", 12)...)
	p.write(source, 1, numbered("b", 8)...)

	p.transform(own, source, target, 20)

	p.write(target, 0, "end")
	expected := slices.Concat(numbered("A", 12), numbered("B", 8), []string{"end"})
	same(slices.Sorted(slices.Values(expected)),
		slices.Sorted(slices.Values(p.read(target, kgo.ReadCommitted(), "end"))))
	if offsets := p.committedOffsets(own, source); !maps.Equal(offsets, map[int32]int64{0: 12, 1: 8}) {
		panic(fmt.Sprintf("committed offsets %v", offsets))
	}
}

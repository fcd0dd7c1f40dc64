package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// KIP-890: every transaction takes an epoch, and its end hands out the new producer id.
func oneProducerGoesPastTheLastEpoch(p *peer, own string) {
	p.createTopic(own, 2)
	producer := p.transactionalProducer("late-franz-go")
	defer producer.Close()
	seen := identities{p.identityText(producer)}
	var kept []string
	for n := range 10 {
		if n%3 == 1 {
			must(producer.BeginTransaction())
			must(p.send(producer, own, 0, "lost"))
			must(p.send(producer, own, 1, "lost"))
			must(producer.EndTransaction(p.ctx, kgo.TryAbort))
		} else {
			kept = append(kept, fmt.Sprint("kept ", n))
			p.commit(producer, own, 2, kept[len(kept)-1])
		}
		seen = append(seen, p.identityText(producer))
	}

	seen.check([]int{32764, 32765, 32766}, []int{0, 1, 2, 3, 4, 5, 6, 7})
	same(kept, p.read(own, kgo.ReadCommitted(), "kept 9"))
	p.checkNothingIsOpen(own)
}

// Every instance leaves a transaction open, so each takeover takes two epochs: one to fence, one to begin.
// Fencing at 32766 already hands out the new producer id under transaction.version 2, with epoch 0.
func instancesGoPastTheLastEpoch(p *peer, own string) {
	p.createTopic(own, 1)
	var seen identities
	var kept []string
	var producers []*kgo.Client
	for n := range 5 {
		producer := p.transactionalProducer("late-franz-go-instances")
		defer producer.Close()
		producers = append(producers, producer)
		seen = append(seen, p.identityText(producer))
		kept = append(kept, fmt.Sprint("kept ", n))
		p.commit(producer, own, 1, kept[n])
		must(producer.BeginTransaction())
		must(p.send(producer, own, 0, "lost"))
	}
	for n, zombie := range producers[:4] {
		expected := kerr.ProducerFenced
		if n < 2 {
			expected = kerr.InvalidProducerIDMapping
		}
		raised(expected, zombie.EndTransaction(p.ctx, kgo.TryCommit))
	}
	must(producers[4].EndTransaction(p.ctx, kgo.TryAbort))

	if p.cluster == "late-tv2" {
		seen.check([]int{32764, 32766}, []int{1, 3, 5})
	} else {
		seen.check([]int{32764, 32766}, []int{0, 2, 4})
	}
	same(kept, p.read(own, kgo.ReadCommitted(), "kept 4"))
	p.checkNothingIsOpen(own)
}

// KIP-360: a time-out costs an epoch, which InitProducerId hands out to the one who timed out. One below the last
// epoch it cannot: the coordinator is left with an epoch that is worn out and not the one of the request.
func timeOutsGoPastTheLastEpoch(p *peer, own string) {
	const id = "late-franz-go-timed-out"
	p.createTopic(own, 1)
	first := p.transactionalProducer(id, kgo.TransactionTimeout(txnTimeoutShort))
	defer first.Close()
	seen := identities{p.identityText(first)}
	p.recoverFromATimeOut(first, own, "after 1")
	seen = append(seen, p.identityText(first))
	p.recoverFromATimeOut(first, own, "after 2")
	_, _, err := first.ProducerID(p.ctx)
	raised(kerr.UnknownServerError, err)

	second := p.transactionalProducer(id, kgo.TransactionTimeout(txnTimeoutShort))
	defer second.Close()
	seen = append(seen, p.identityText(second))
	p.recoverFromATimeOut(second, own, "after 3")
	seen = append(seen, p.identityText(second))
	p.commit(second, own, 1, "end")

	seen.check([]int{32764, 32765}, []int{0, 1})
	same([]string{"after 1", "after 2", "after 3", "end"}, p.read(own, kgo.ReadCommitted(), "end"))
	p.checkNothingIsOpen(own)
}

// With the last epoch the time-out itself has brought the new producer id, which InitProducerId hands out.
func timeOutOfTheLastEpochIsRecovered(p *peer, own string) {
	const id = "late-franz-go-last-epoch"
	p.createTopic(own, 1)
	var seen identities
	for range 2 {
		instance := p.transactionalProducer(id)
		p.identity(instance)
		instance.Close()
	}
	last := p.transactionalProducer(id, kgo.TransactionTimeout(txnTimeoutShort))
	defer last.Close()
	seen = append(seen, p.identityText(last))
	p.recoverFromATimeOut(last, own, "after")
	seen = append(seen, p.identityText(last))
	p.commit(last, own, 1, "end")

	seen.check([]int{32766}, []int{0})
	same([]string{"after", "end"}, p.read(own, kgo.ReadCommitted(), "end"))
	p.checkNothingIsOpen(own)
}

// Short, as there are three of them one after another.
const txnTimeoutShort = 6 * time.Second

// recoverFromATimeOut lets a transaction time out, writes a plain record, and aborts. On a machine that stands still
// for so long the first record may be too late already, which takes the same epochs.
func (p *peer) recoverFromATimeOut(producer *kgo.Client, topic, after string) {
	must(producer.BeginTransaction())
	began := time.Now()
	err := p.send(producer, topic, 0, "late")
	if err != nil && time.Since(began) > txnTimeoutShort {
		raised(kerr.InvalidProducerEpoch, err)
	} else {
		must(err)
	}
	p.write(topic, 0, after)
	p.read(topic, kgo.ReadCommitted(), after)
	raised(kerr.InvalidProducerEpoch, p.send(producer, topic, 0, "too late"))
	must(producer.EndTransaction(p.ctx, kgo.TryAbort))
}

// identities are producer ids with their epochs, as id:epoch.
type identities []string

func (p *peer) identityText(producer *kgo.Client) string {
	id, epoch := p.identity(producer)
	return fmt.Sprintf("%d:%d", id, epoch)
}

// check wants one producer id with the epochs before, and then a new one with the epochs after.
func (seen identities) check(before, after []int) {
	var old, taken, epoch int
	_, _ = fmt.Sscanf(seen[0], "%d:%d", &old, &epoch)
	_, _ = fmt.Sscanf(seen[len(seen)-1], "%d:%d", &taken, &epoch)
	var expected []string
	for _, epoch := range before {
		expected = append(expected, fmt.Sprintf("%d:%d", old, epoch))
	}
	for _, epoch := range after {
		expected = append(expected, fmt.Sprintf("%d:%d", taken, epoch))
	}
	same(expected, seen)
	if old == taken {
		panic("the producer id stayed the same")
	}
}

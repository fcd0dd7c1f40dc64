// Command peer runs every scenario with franz-go against the broker at os.Args[1].
// It prints one line of JSON for each: scenario, passed, trace.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const txnTimeout = 1500 * time.Millisecond

type scenario struct {
	name string
	run  func(p *peer, own string)
}

func main() {
	scenarios := []scenario{
		{"group_consumer", consumesInAGroupWhatItProduced},
		{"committed", readsACommittedTransaction},
		{"aborted", readsAnAbortedTransactionOnlyUncommitted},
		{"exactly_once", transformsExactlyOnce},
		{"zombie", zombieIsFenced},
		{"timed_out", producerRecoversFromATimeOut},
	}
	unique := make([]byte, 4)
	_, _ = rand.Read(unique)
	for _, each := range scenarios {
		own := fmt.Sprintf("go-%s-%s", each.name, hex.EncodeToString(unique))
		trace := traceOf(each, own)
		line, _ := json.Marshal(map[string]any{"passed": trace == "", "trace": trace})
		fmt.Printf("{\"scenario\":%q,%s\n", each.name, line[1:])
	}
}

func traceOf(each scenario, own string) (trace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer func() {
		if failure := recover(); failure != nil {
			trace = fmt.Sprintf("%v\n%s", failure, debug.Stack())
		}
	}()
	each.run(&peer{ctx: ctx, bootstrap: os.Args[1]}, own)
	return ""
}

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
	p.commit(producer, own, "one", "two")

	same([]string{"one", "two"}, p.read(own, kgo.ReadCommitted(), "two"))
}

func readsAnAbortedTransactionOnlyUncommitted(p *peer, own string) {
	p.createTopic(own, 1)
	producer := p.transactionalProducer(own)
	defer producer.Close()
	must(producer.BeginTransaction())
	must(p.send(producer, own, 0, "lost"))
	must(producer.EndTransaction(p.ctx, kgo.TryAbort))
	p.commit(producer, own, "kept")

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

func zombieIsFenced(p *peer, own string) {
	p.createTopic(own, 1)
	zombie := p.transactionalProducer(own)
	defer zombie.Close()
	must(zombie.BeginTransaction())
	must(p.send(zombie, own, 0, "zombie"))

	heir := p.transactionalProducer(own)
	defer heir.Close()
	p.commit(heir, own, "heir")
	raised(kerr.ProducerFenced, zombie.EndTransaction(p.ctx, kgo.TryCommit))

	same([]string{"heir"}, p.read(own, kgo.ReadCommitted(), "heir"))
}

// KIP-588 as far as it shipped, and KIP-890: the epoch is refused, the abort hands out the next one.
func producerRecoversFromATimeOut(p *peer, own string) {
	p.createTopic(own, 1)
	slow := p.transactionalProducer(own, kgo.TransactionTimeout(txnTimeout))
	defer slow.Close()
	must(slow.BeginTransaction())
	must(p.send(slow, own, 0, "late"))
	p.write(own, 0, "after")
	// A reader that gets past the open transaction has seen its abort.
	same([]string{"after"}, p.read(own, kgo.ReadCommitted(), "after"))

	raised(kerr.InvalidProducerEpoch, p.send(slow, own, 0, "too late"))
	raised(kerr.OperationNotAttempted, slow.EndTransaction(p.ctx, kgo.TryCommit))
	must(slow.EndTransaction(p.ctx, kgo.TryAbort))
	p.commit(slow, own, "next")

	same([]string{"after", "next"}, p.read(own, kgo.ReadCommitted(), "next"))
}

func numbered(prefix string, count int) []string {
	values := make([]string, count)
	for n := range values {
		values[n] = fmt.Sprintf("%s%d", prefix, n)
	}
	return values
}

func starting(prefix string, values []string) (found []string) {
	for _, value := range values {
		if strings.HasPrefix(value, prefix) {
			found = append(found, value)
		}
	}
	return found
}

func same(expected, actual []string) {
	if !slices.Equal(expected, actual) {
		panic(fmt.Sprintf("expected %v, not %v", expected, actual))
	}
}

func raised(expected, actual error) {
	if !errors.Is(actual, expected) {
		panic(fmt.Sprintf("expected the error %v, not %v", expected, actual))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Long enough for a record to be in time on a machine that is busy with everything else.
const txnTimeout = 8 * time.Second

// KIP-588 as far as it shipped, and KIP-890: the epoch is refused, the abort hands out the next one.
func abortRecoversFromATimeOut(p *peer, own string) {
	slow, sent := p.timedOut(own, own)
	defer slow.Close()
	id, epoch := p.identity(slow)

	raised(kerr.InvalidProducerEpoch, p.send(slow, own, 0, "too late"))
	raised(kerr.OperationNotAttempted, slow.EndTransaction(p.ctx, kgo.TryCommit))
	sent.forget()
	must(slow.EndTransaction(p.ctx, kgo.TryAbort))
	same([]kmsg.Key{kmsg.EndTxn}, sent.keys(kmsg.EndTxn, kmsg.InitProducerID))
	p.checkIdentity(slow, id, epoch+1)
	p.commit(slow, own, 1, "next")

	same([]string{"after", "next"}, p.read(own, kgo.ReadCommitted(), "next"))
	p.checkNothingIsOpen(own)
}

func commitIsFatalAfterATimeOut(p *peer, own string) {
	slow, _ := p.timedOut(own, own)
	defer slow.Close()

	// Kafka says INVALID_TXN_STATE up to 4.4, PRODUCER_FENCED after KAFKA-20785.
	raised(kerr.InvalidTxnState, slow.EndTransaction(p.ctx, kgo.TryCommit))
	must(slow.EndTransaction(p.ctx, kgo.TryAbort))
	raised(kerr.InvalidTxnState, slow.BeginTransaction())
	p.commitAnew(own, own, "next")

	same([]string{"after", "next"}, p.read(own, kgo.ReadCommitted(), "next"))
	p.checkNothingIsOpen(own)
}

// KIP-360 and KIP-588: without EndTxn, the id asks for its next epoch by the one that it has. The coordinator
// remembers that epoch under transaction.version 2, though the client does not use it.
func initProducerIDRecoversFromATimeOut(p *peer, own string) {
	slow, sent := p.timedOut(own, own)
	defer slow.Close()
	id, epoch := p.identity(slow)

	raised(kerr.InvalidProducerEpoch, p.send(slow, own, 0, "too late"))
	raised(kerr.OperationNotAttempted, slow.EndTransaction(p.ctx, kgo.TryCommit))
	sent.forget()
	must(slow.EndTransaction(p.ctx, kgo.TryAbort))
	p.checkIdentity(slow, id, epoch+1)
	same([]kmsg.Key{kmsg.InitProducerID}, sent.keys(kmsg.EndTxn, kmsg.InitProducerID))
	p.commit(slow, own, 1, "next")

	same([]string{"after", "next"}, p.read(own, kgo.ReadCommitted(), "next"))
	p.checkNothingIsOpen(own)
}

// Under transaction.version 1 the coordinator has forgotten the epoch: the id has fenced itself.
func timeOutIsFatal(p *peer, own string) {
	slow, _ := p.timedOut(own, own)
	defer slow.Close()

	raised(kerr.InvalidProducerEpoch, p.send(slow, own, 0, "too late"))
	raised(kerr.OperationNotAttempted, slow.EndTransaction(p.ctx, kgo.TryCommit))
	must(slow.EndTransaction(p.ctx, kgo.TryAbort))
	raised(kerr.ProducerFenced, slow.BeginTransaction())
	p.commitAnew(own, own, "next")

	same([]string{"after", "next"}, p.read(own, kgo.ReadCommitted(), "next"))
	p.checkNothingIsOpen(own)
}

// timedOut gives a producer whose transaction has timed out, and what it has sent.
func (p *peer) timedOut(transactionalID, topic string) (*kgo.Client, *requests) {
	p.createTopic(topic, 1)
	sent := new(requests)
	slow := p.transactionalProducer(transactionalID, kgo.TransactionTimeout(txnTimeout), kgo.WithHooks(sent))
	must(slow.BeginTransaction())
	must(p.send(slow, topic, 0, "late"))
	p.write(topic, 0, "after")
	// A reader that gets past the open transaction has seen its abort.
	same([]string{"after"}, p.read(topic, kgo.ReadCommitted(), "after"))
	return slow, sent
}

func (p *peer) commitAnew(transactionalID, topic, value string) {
	producer := p.transactionalProducer(transactionalID)
	defer producer.Close()
	p.commit(producer, topic, 1, value)
}

func (p *peer) identity(producer *kgo.Client) (int64, int16) {
	id, epoch, err := producer.ProducerID(p.ctx)
	must(err)
	return id, epoch
}

func (p *peer) checkIdentity(producer *kgo.Client, id int64, epoch int16) {
	actualID, actualEpoch := p.identity(producer)
	same([]int64{id, int64(epoch)}, []int64{actualID, int64(actualEpoch)})
}

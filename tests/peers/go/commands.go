package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// commandDeadline is how long a command may take.
const commandDeadline = 30 * time.Second

// commands are transactional producers that do what the lines of the standard input say: number, producer, verb and
// arguments, with tabs between. Each is answered with its number and "ok" and values, or "error" and what was returned.
// A producer does one thing after the other, and producers do not wait for each other.
type commands struct {
	lock      sync.Mutex
	producers map[string]*kgo.Client
	waiting   map[string]chan []string
}

func runCommands() {
	c := &commands{producers: map[string]*kgo.Client{}, waiting: map[string]chan []string{}}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Split(lines.Text(), "\t")
		queue := c.waiting[words[1]]
		if queue == nil {
			queue = make(chan []string, 100)
			c.waiting[words[1]] = queue
			go func() {
				for words := range queue {
					c.answer(words)
				}
			}()
		}
		queue <- words
	}
}

func (c *commands) answer(words []string) {
	values, err := c.carryOut(words)
	said := append([]string{words[0], "ok"}, values...)
	if err != nil {
		said = []string{words[0], "error", err.Error()}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	fmt.Println(strings.ReplaceAll(strings.Join(said, "\t"), "\n", " "))
}

func (c *commands) producer(name string) *kgo.Client {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.producers[name]
}

func (c *commands) carryOut(words []string) (values []string, err error) {
	// What must not fail panics in the rest of this program.
	defer func() {
		if failure := recover(); failure != nil {
			err = fmt.Errorf("%v", failure)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), commandDeadline)
	defer cancel()
	name, arguments := words[1], words[3:]
	switch producer := c.producer(name); words[2] {
	case "open":
		return nil, c.open(ctx, name, arguments[0], arguments[1], arguments[2])
	case "begin":
		return nil, producer.BeginTransaction()
	case "send":
		partition, _ := strconv.Atoi(arguments[1])
		record := &kgo.Record{Topic: arguments[0], Partition: int32(partition), Value: []byte(arguments[2])}
		return nil, producer.ProduceSync(ctx, record).FirstErr()
	case "commit":
		return nil, producer.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return nil, producer.EndTransaction(ctx, kgo.TryAbort)
	case "read":
		count, _ := strconv.Atoi(arguments[2])
		return readCommitted(ctx, arguments[0], arguments[1], count)
	case "follow":
		count, _ := strconv.Atoi(arguments[2])
		return followAsMember(ctx, name, arguments[0], arguments[1], count)
	case "relay":
		return nil, relay(ctx, name, arguments[0], arguments[1], arguments[2])
	case "close":
		producer.Close()
		return nil, nil
	}
	return nil, fmt.Errorf("there is no verb %s", words[2])
}

func (c *commands) open(ctx context.Context, name, bootstrap, id, timeout string) error {
	timeoutMs, err := strconv.Atoi(timeout)
	must(err)
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(name),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(time.Duration(timeoutMs)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		// How long a lost answer takes; ten seconds unless told.
		kgo.RequestTimeoutOverhead(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
	)
	must(err)
	c.lock.Lock()
	c.producers[name] = producer
	c.lock.Unlock()
	// It asks for an id when it is first needed; the other clients do at once.
	_, _, err = producer.ProducerID(ctx)
	return err
}

func readCommitted(ctx context.Context, bootstrap, topic string, count int) ([]string, error) {
	p := &peer{ctx: ctx, bootstrap: bootstrap}
	admin := p.client()
	defer admin.Close()
	details, err := kadm.NewClient(admin).ListTopics(ctx, topic)
	must(err)
	start := map[int32]kgo.Offset{}
	for partition := range details[topic].Partitions {
		start[partition] = kgo.NewOffset().AtStart()
	}
	consumer := p.client(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: start}), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	return poll(ctx, consumer, count)
}

// followAsMember reads as a member of a group whose heartbeats are quick.
func followAsMember(ctx context.Context, group, bootstrap, topic string, count int) ([]string, error) {
	p := &peer{ctx: ctx, bootstrap: bootstrap}
	consumer := p.client(
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.HeartbeatInterval(100*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	defer consumer.Close()
	return poll(ctx, consumer, count)
}

// relay reads a record as a member of a group, and commits its offset in a transaction.
func relay(ctx context.Context, group, bootstrap, topic, id string) error {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ClientID(group), kgo.TransactionalID(id),
		kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.RequireStableFetchOffsets(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	must(err)
	defer session.Close()
	for read := 0; read == 0; {
		fetches := session.PollFetches(ctx)
		must(fetches.Err())
		read = fetches.NumRecords()
	}
	must(session.Begin())
	committed, err := session.End(ctx, kgo.TryCommit)
	if err == nil && !committed {
		return errors.New("not committed")
	}
	return err
}

func poll(ctx context.Context, consumer *kgo.Client, count int) ([]string, error) {
	var values []string
	for len(values) < count {
		fetches := consumer.PollFetches(ctx)
		var hasLeft *kgo.ErrGroupSession // It joins again by itself.
		if err := fetches.Err(); err != nil && !errors.As(err, &hasLeft) {
			return nil, fmt.Errorf("nothing more after %v: %w", values, err)
		}
		fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	}
	return values, nil
}

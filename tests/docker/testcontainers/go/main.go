// Runs each Kafka module of testcontainers-go, unmodified, with the image in IMAGE; one line per module.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/modules/kafka"
	"github.com/testcontainers/testcontainers-go/modules/redpanda"
	"github.com/testcontainers/testcontainers-go/wait"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var image = os.Getenv("IMAGE")

func labels() testcontainers.CustomizeRequestOption {
	return testcontainers.WithLabels(map[string]string{"tc-matrix": os.Getenv("RUN")})
}

type module struct {
	name string
	// start gives the container and its bootstrap address.
	start func(context.Context) (testcontainers.Container, string, error)
}

var modules = []module{
	{"modules/kafka", func(ctx context.Context) (testcontainers.Container, string, error) {
		c, err := kafka.Run(ctx, image, labels())
		if err != nil {
			return unwrap(c), "", err
		}
		brokers, err := c.Brokers(ctx)
		return c, strings.Join(brokers, ","), err
	}},
	{"modules/kafka+WithClusterID", func(ctx context.Context) (testcontainers.Container, string, error) {
		c, err := kafka.Run(ctx, image, labels(), kafka.WithClusterID("test-cluster"))
		if err != nil {
			return unwrap(c), "", err
		}
		brokers, err := c.Brokers(ctx)
		return c, strings.Join(brokers, ","), err
	}},
	{"modules/redpanda", func(ctx context.Context) (testcontainers.Container, string, error) {
		c, err := redpanda.Run(ctx, image, labels())
		if err != nil {
			if c == nil {
				return nil, "", err
			}
			return c, "", err
		}
		seed, err := c.KafkaSeedBroker(ctx)
		return c, seed, err
	}},
	{"generic", func(ctx context.Context) (testcontainers.Container, string, error) {
		c, err := testcontainers.Run(ctx, image, labels(), testcontainers.WithExposedPorts("9092/tcp"),
			testcontainers.WithWaitStrategy(wait.ForListeningPort("9092/tcp")))
		if err != nil {
			if c == nil {
				return nil, "", err
			}
			return c, "", err
		}
		address, err := c.PortEndpoint(ctx, "9092/tcp", "")
		// The container is told by which address its clients come: a random port cannot be known before.
		if err == nil && os.Getenv("ADVERTISE") != "0" {
			code, out, fault := c.Exec(ctx, []string{"stuntbroker", "advertise", address})
			if fault != nil || code != 0 {
				text := ""
				if out != nil {
					b, _ := io.ReadAll(out)
					lines := strings.Split(strings.TrimSpace(string(b)), "\n")
					text = lines[len(lines)-1]
				}
				fmt.Fprintf(os.Stderr, "note: stuntbroker advertise: exit %d %v: %s\n", code, fault, text)
			}
		}
		return c, address, err
	}},
}

func unwrap(c *kafka.KafkaContainer) testcontainers.Container {
	if c == nil {
		return nil
	}
	return c
}

// transact commits one transaction (after one that is aborted) and reads it back with read_committed.
func transact(ctx context.Context, bootstrap string) error {
	seeds := kgo.SeedBrokers(strings.Split(bootstrap, ",")...)
	topic := "tc-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	ctx, cancel := context.WithTimeout(ctx, 25*time.Second)
	defer cancel()
	producer, err := kgo.NewClient(seeds, kgo.TransactionalID("tx-"+topic), kgo.DefaultProduceTopic(topic), kgo.RecordDeliveryTimeout(15*time.Second))
	if err != nil {
		return err
	}
	defer producer.Close()
	if _, err := kadm.NewClient(producer).CreateTopic(ctx, 1, 1, nil, topic); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	for _, one := range []struct {
		value string
		end   kgo.TransactionEndTry
	}{{"aborted", kgo.TryAbort}, {"committed", kgo.TryCommit}} {
		if err := producer.BeginTransaction(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		if err := producer.ProduceSync(ctx, kgo.StringRecord(one.value)).FirstErr(); err != nil {
			return fmt.Errorf("produce: %w", err)
		}
		if err := producer.EndTransaction(ctx, one.end); err != nil {
			return fmt.Errorf("end: %w", err)
		}
	}
	consumer, err := kgo.NewClient(seeds, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(500*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return err
	}
	defer consumer.Close()
	var values []string
	for len(values) == 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("fetch: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	if len(values) != 1 || values[0] != "committed" {
		return fmt.Errorf("read %v instead of [committed]", values)
	}
	return nil
}

func run(m module, timeout time.Duration) (up time.Duration, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	begin := time.Now()
	c, bootstrap, err := m.start(ctx)
	up = time.Since(begin)
	if c != nil {
		defer func() {
			late, cancel := context.WithTimeout(context.Background(), 15*time.Second)
			defer cancel()
			if logs, fault := c.Logs(late); fault == nil {
				b, _ := io.ReadAll(logs)
				name := regexp.MustCompile(`[^A-Za-z0-9.]+`).ReplaceAllString(m.name, "_")
				_ = os.WriteFile(filepath.Join(os.Getenv("LOGS"), "go-"+name+".log"), b, 0o644)
			}
			// The default is a SIGTERM and 10 s of patience: TERMINATE=default measures whether the image minds the signal.
			if os.Getenv("TERMINATE") == "default" {
				_ = c.Terminate(late)
			} else {
				_ = c.Terminate(late, testcontainers.StopTimeout(0))
			}
		}()
	}
	if err != nil {
		return up, err
	}
	return up, transact(ctx, bootstrap)
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

func main() {
	if os.Getenv("LOG") == "" {
		log.SetDefault(quiet{})
	}
	seconds, _ := strconv.Atoi(os.Getenv("MODULE_TIMEOUT"))
	if seconds == 0 {
		seconds = 60
	}
	failed := 0
	for _, m := range modules {
		wanted := len(os.Args) == 1
		for _, part := range os.Args[1:] {
			wanted = wanted || strings.Contains(m.name, part)
		}
		if !wanted {
			continue
		}
		begin := time.Now()
		type outcome struct {
			up  time.Duration
			err error
		}
		done := make(chan outcome, 1)
		go func() { up, err := run(m, time.Duration(seconds)*time.Second); done <- outcome{up, err} }()
		var o outcome
		select {
		case o = <-done:
		case <-time.After(time.Duration(seconds+20) * time.Second):
			o.err = errors.New("does not end")
		}
		took := time.Since(begin).Seconds()
		if o.err == nil {
			fmt.Printf("PASS go %s (%.1f s, up after %.1f s)\n", m.name, took, o.up.Seconds())
		} else {
			failed++
			text := strings.Join(strings.Fields(o.err.Error()), " ")
			fmt.Printf("FAIL go %s: %.600s (%.1f s)\n", m.name, text, took)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

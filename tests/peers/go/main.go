// Command peer runs every scenario with franz-go against its clusters: each argument is name=host:port.
// It prints one line of JSON for each: scenario, which is the cluster's name and its own, passed, trace.
// Without arguments it does what the lines of its standard input say.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Most of a scenario is waiting.
const atOnce = 6

var (
	one     = []string{"tv2"}
	both    = []string{"tv2", "tv1"}
	late    = []string{"late-tv2"}
	bothOld = []string{"late-tv2", "late-tv1"}
	// What a client does whose newest versions are those of Kafka 3.8: the transactions of KIP-98.
	oldVersions = []kgo.Opt{kgo.MaxVersions(kversion.V3_8_0())}
)

// Clusters whose names begin so fail by a plan: what must work all the same is tried there.
const plan = "plan-"

var underPlans = []string{"committed", "aborted", "exactly_once"}

type scenario struct {
	name     string
	clusters []string
	opts     []kgo.Opt
	run      func(p *peer, own string)
}

func main() {
	if len(os.Args) == 1 {
		runCommands()
		return
	}
	scenarios := []scenario{
		// First because it takes longest.
		{"late_timed_out", late, oldVersions, timeOutsGoPastTheLastEpoch},
		{"group_consumer", one, nil, consumesInAGroupWhatItProduced},
		{"committed", both, nil, readsACommittedTransaction},
		{"aborted", both, nil, readsAnAbortedTransactionOnlyUncommitted},
		{"exactly_once", both, nil, transformsExactlyOnce},
		{"exactly_once_old", one, oldVersions, transformsExactlyOnce},
		{"zombie_commit", both, nil, zombieIsFencedAtItsCommit},
		{"zombie_commit_old", one, oldVersions, zombieIsFencedAtItsCommit},
		{"zombie_record", both, nil, zombieIsFencedAfterItsNextRecord},
		{"zombie_record_old", one, oldVersions, zombieIsFencedAfterItsNextRecord},
		{"takeover", both, nil, takeoverShowsNoRecordOfTheZombie},
		{"takeover_old", one, oldVersions, takeoverShowsNoRecordOfTheZombie},
		{"rebalanced_out", both, nil, memberThatWasRebalancedOutCommitsNothing},
		{"timed_out", one, nil, abortRecoversFromATimeOut},
		{"timed_out_commit", one, nil, commitIsFatalAfterATimeOut},
		{"timed_out_old", one, oldVersions, initProducerIDRecoversFromATimeOut},
		{"timed_out_tv1", []string{"tv1"}, nil, timeOutIsFatal},
		{"late_commits", late, nil, oneProducerGoesPastTheLastEpoch},
		{"late_instances", bothOld, oldVersions, instancesGoPastTheLastEpoch},
		{"late_timed_out_last", late, oldVersions, timeOutOfTheLastEpochIsRecovered},
	}
	unique := make([]byte, 4)
	_, _ = rand.Read(unique)
	var running sync.WaitGroup
	var printing sync.Mutex
	slots := make(chan struct{}, atOnce)
	for _, each := range scenarios {
		for _, argument := range os.Args[1:] {
			cluster, bootstrap, _ := strings.Cut(argument, "=")
			isUnderPlan := strings.HasPrefix(cluster, plan) && slices.Contains(underPlans, each.name)
			if !isUnderPlan && !slices.Contains(each.clusters, cluster) {
				continue
			}
			running.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				own := fmt.Sprintf("go-%s-%s", each.name, hex.EncodeToString(unique))
				trace := traceOf(each, cluster, bootstrap, own)
				line, _ := json.Marshal(map[string]any{"passed": trace == "", "trace": trace})
				printing.Lock()
				defer printing.Unlock()
				fmt.Printf("{\"scenario\":%q,%s\n", cluster+" "+each.name, line[1:])
			})
		}
	}
	running.Wait()
}

func traceOf(each scenario, cluster, bootstrap, own string) (trace string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	defer func() {
		if failure := recover(); failure != nil {
			trace = fmt.Sprintf("%v\n%s", failure, debug.Stack())
		}
	}()
	each.run(&peer{ctx: ctx, cluster: cluster, bootstrap: bootstrap, opts: each.opts}, own)
	return ""
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

func same[T comparable](expected, actual []T) {
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

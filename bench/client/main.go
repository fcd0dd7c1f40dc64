// client measures a server that speaks the Kafka protocol. One JSON line per workload on stdout.
//
//	client -cmd "server command" -bootstrap 127.0.0.1:9092 [flags] ready[,WORKLOAD...]
//	client -bootstrap 127.0.0.1:9092 [-pid SERVER] [flags] WORKLOAD[,WORKLOAD...]
//
// With -cmd the server is spawned, timed until it is ready and until its first committed transaction, used
// for all workloads, and terminated. A workload that fails has the field `error`, and the exit status is 1.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

var (
	bootstrap  = flag.String("bootstrap", "127.0.0.1:9092", "address of the server")
	command    = flag.String("cmd", "", "server command to spawn and, at the end, to terminate")
	serverPID  = flag.Int("pid", 0, "process id of a server that runs already, for its memory and CPU")
	label      = flag.String("label", "", "name of the system, copied to the output")
	timeout    = flag.Duration("timeout", 2*time.Minute, "limit of one workload")
	latencyN   = flag.Int("n", 2000, "txn-latency: transactions")
	idsAtOnce  = flag.Int("c", 32, "txn-concurrent: transactional ids at once")
	txnsPerID  = flag.Int("t", 50, "txn-concurrent: transactions per id")
	txnCap     = flag.Duration("cap", 10*time.Second, "txn-latency, txn-concurrent: stop after this long")
	eosRecords = flag.Int("k", 50_000, "eos: input records")
	eosPoll    = flag.Int("poll", 500, "eos: records per transaction, at most")
	seconds    = flag.Int("secs", 5, "produce, conns: seconds")
	partitions = flag.Int("partitions", 3, "produce, consume, eos, conns: partitions of a topic")
	clients    = flag.Int("m", 500, "conns: clients")
	freshIDs   = flag.Int("ids", 20_000, "inits: fresh transactional ids")
	verbose    = flag.Bool("v", false, "log of the Kafka client on stderr")
)

// figures is the JSON line of one workload.
type figures map[string]any

var workloads = map[string]func(context.Context, figures) error{
	"txn-latency":    txnLatency,
	"txn-concurrent": txnConcurrent,
	"inits":          inits,
	"eos":            eos,
	"produce":        func(ctx context.Context, f figures) error { return produce(ctx, f, 1024) },
	"produce-small":  func(ctx context.Context, f figures) error { return produce(ctx, f, 100) },
	"consume":        consume,
	"conns":          conns,
}

func main() {
	flag.Parse()
	names := strings.Split(flag.Arg(0), ",")
	for _, name := range names {
		if workloads[name] == nil && (name != "ready" || *command == "") {
			fmt.Fprintf(os.Stderr, "client: no workload %q (ready needs -cmd)\n", name)
			os.Exit(2)
		}
	}
	var ok bool
	if *command != "" {
		server, err := spawn()
		if err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			os.Exit(1)
		}
		ok = ready(server) && runAll(server.alive, names)
		emit(server.stop())
	} else {
		ok = runAll(context.Background(), names)
	}
	if !ok {
		os.Exit(1)
	}
}

// runAll runs the workloads in order. One that fails does not keep the others from running.
func runAll(alive context.Context, names []string) bool {
	ok := true
	passes := map[string]int{}
	for _, name := range names {
		if name != "ready" {
			passes[name]++
			ok = run(alive, name, passes[name]) && ok
		}
	}
	return ok
}

// run runs one workload and adds what the server, this client and the rest of the machine spent meanwhile.
func run(alive context.Context, name string, pass int) bool {
	f := figures{"workload": name, "pass": pass, "system": *label}
	ctx, cancel := context.WithTimeout(alive, *timeout)
	defer cancel()
	requests.reset()
	rss, spent := rssMB(*serverPID), startMeter()
	err := workloads[name](ctx, f)
	if err != nil {
		f["error"] = err.Error()
		if ctx.Err() != nil {
			f["error"] = fmt.Sprintf("%v (%v)", err, context.Cause(ctx))
		}
	}
	spent.into(f)
	if *serverPID != 0 {
		f["rss_before_mb"], f["rss_after_mb"] = rss, rssMB(*serverPID)
	}
	f["requests"] = requests.snapshot()
	emit(f)
	return err == nil
}

func emit(f figures) {
	line, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

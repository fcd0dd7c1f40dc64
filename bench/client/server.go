package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	probePause = 5 * time.Millisecond   // between two questions whether the server is ready
	settleTime = 500 * time.Millisecond // from the first commit to the first workload: what a start leaves for later is not measured
	stopLimit  = 20 * time.Second       // from SIGTERM to SIGKILL
)

// server is the process that -cmd started.
type server struct {
	process *exec.Cmd
	meter   meter           // running since the spawn
	alive   context.Context // until the process has ended
}

// spawn starts -cmd. The server dies with this client, however that ends.
func spawn() (*server, error) {
	alive, ended := context.WithCancelCause(context.Background())
	s := &server{process: exec.Command("sh", "-c", "exec "+*command), alive: alive}
	s.process.Stdout, s.process.Stderr = os.Stderr, os.Stderr
	s.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	s.meter = startMeter()
	go func() {
		runtime.LockOSThread() // Pdeathsig is sent when the thread that forked ends, so it waits here.
		err := s.process.Start()
		started <- err
		if err == nil {
			s.process.Wait()
			ended(fmt.Errorf("the server has ended: %v", s.process.ProcessState))
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	*serverPID = s.process.Process.Pid
	return s, nil
}

// ready reports how long the server took to answer and to commit its first transaction, and lets it settle.
func ready(s *server) bool {
	f := figures{"workload": "ready", "system": *label, "cmd": *command}
	defer emit(f)
	ctx, cancel := context.WithTimeout(s.alive, *timeout)
	defer cancel()
	for probe() != nil {
		if ctx.Err() != nil {
			f["error"] = fmt.Sprintf("not ready: %v", context.Cause(ctx))
			return false
		}
		time.Sleep(probePause)
	}
	f["ready_ms"] = s.meter.elapsedMS()
	if err := firstCommit(ctx); err != nil {
		f["error"] = err.Error()
		return false
	}
	f["first_commit_ms"] = s.meter.elapsedMS()
	f["rss_ready_mb"] = rssMB(*serverPID)
	s.meter.into(f)
	time.Sleep(settleTime)
	return true
}

// stop terminates the server and reports what it held at the end and how long it took to go.
func (s *server) stop() figures {
	f := figures{"workload": "stop", "system": *label, "rss_end_mb": rssMB(*serverPID)}
	began := time.Now()
	s.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.alive.Done():
	case <-time.After(stopLimit):
		f["error"] = fmt.Sprintf("still there %v after SIGTERM: killed", stopLimit)
		s.process.Process.Kill()
		<-s.alive.Done()
	}
	f["stop_ms"] = ms(time.Since(began))
	return f
}

// probe asks for ApiVersions v0 and Metadata v1 on a fresh connection, without any retry.
func probe() error {
	conn, err := net.DialTimeout("tcp", *bootstrap, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	if err := ask(conn, kmsg.NewPtrApiVersionsRequest(), 0, kmsg.NewPtrApiVersionsResponse()); err != nil {
		return err
	}
	metadata := kmsg.NewPtrMetadataResponse()
	if err := ask(conn, kmsg.NewPtrMetadataRequest(), 1, metadata); err != nil {
		return err
	}
	if len(metadata.Brokers) == 0 {
		return errors.New("no broker in the metadata")
	}
	return nil
}

// ask sends one request of a version without tagged header fields, and reads its response.
func ask(conn net.Conn, request kmsg.Request, version int16, response kmsg.Response) error {
	const correlation, correlationSize = 1, 4
	request.SetVersion(version)
	response.SetVersion(version)
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench"))
	if _, err := conn.Write(format.AppendRequest(nil, request, correlation)); err != nil {
		return err
	}
	size := make([]byte, 4)
	if _, err := io.ReadFull(conn, size); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size))
	if _, err := io.ReadFull(conn, frame); err != nil {
		return err
	}
	if len(frame) < correlationSize {
		return errors.New("a response without a correlation id")
	}
	return response.ReadFrom(frame[correlationSize:])
}

// firstCommit makes a topic and commits one transaction. All of it is tried again until it works.
func firstCommit(ctx context.Context) error {
	attempt := func() error {
		topic, err := newTopic(ctx, 1)
		if err != nil {
			return err
		}
		cl, err := newClient(
			kgo.TransactionalID(fresh("first")), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
		if err != nil {
			return err
		}
		defer cl.Close()
		_, err = transact(ctx, cl, []*kgo.Record{{Value: payload(100)}})
		return err
	}
	for {
		err := attempt()
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(probePause)
	}
}

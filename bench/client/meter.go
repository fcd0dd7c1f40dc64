package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// meter tells what was spent since it was started: time, and CPU of the server, of this client and of others.
type meter struct {
	start                   time.Time
	machine, server, client float64 // CPU seconds so far
}

func startMeter() meter {
	return meter{time.Now(), machineCPU(), processCPU(*serverPID), clientCPU()}
}

func (m meter) elapsedMS() float64 { return ms(time.Since(m.start)) }

// into adds wall_s, server_cpu_s, client_cpu_s and others_cores: the cores that the rest of the machine kept
// busy, which is the noise in the other figures.
func (m meter) into(f figures) {
	wall := time.Since(m.start).Seconds()
	server, client := processCPU(*serverPID)-m.server, clientCPU()-m.client
	f["wall_s"], f["client_cpu_s"] = rounded(wall), rounded(client)
	if *serverPID != 0 {
		f["server_cpu_s"] = math.Round(server*1e6) / 1e6
	}
	f["others_cores"] = rounded(max(0, (machineCPU()-m.machine-server-client)/wall))
}

// processCPU reads the CPU clock of a process, ended threads included: exact, where /proc counts in 10 ms.
func processCPU(pid int) float64 {
	if pid == 0 {
		return 0
	}
	const scheduled = 2 // CPUCLOCK_SCHED; the kernel wants the complement of the pid above these three bits.
	clock := ^pid<<3 | scheduled
	var t syscall.Timespec
	if _, _, failed := syscall.Syscall(
		syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&t)), 0); failed != 0 {
		return 0 // The server is gone; the workload says so itself.
	}
	return float64(t.Nano()) / 1e9
}

func clientCPU() float64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

// machineCPU sums /proc/stat: user, nice, system, irq, softirq, steal.
func machineCPU() float64 {
	const ticksPerSecond = 100
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	var ticks int
	for _, at := range []int{1, 2, 3, 6, 7, 8} {
		if at < len(fields) {
			n, _ := strconv.Atoi(fields[at])
			ticks += n
		}
	}
	return float64(ticks) / ticksPerSecond
}

// rssMB is the resident memory of a process, in 10^6 bytes; 0 without a process.
func rssMB(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return rounded(float64(pages) * float64(os.Getpagesize()) / 1e6)
}

type durations []time.Duration

// into adds NAME_p50_ms, NAME_p99_ms and NAME_max_ms.
func (d durations) into(f figures, name string) {
	if len(d) == 0 {
		return
	}
	slices.Sort(d)
	f[name+"_p50_ms"] = ms(d[len(d)/2])
	f[name+"_p99_ms"] = ms(d[len(d)*99/100])
	f[name+"_max_ms"] = ms(d[len(d)-1])
}

func rounded(x float64) float64                { return math.Round(x*1000) / 1000 }
func ms(d time.Duration) float64               { return rounded(float64(d) / 1e6) }
func perSecond(n int, d time.Duration) float64 { return rounded(float64(n) / d.Seconds()) }

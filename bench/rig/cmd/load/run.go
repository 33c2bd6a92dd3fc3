package main

import (
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"headgate.example/rig/internal/stats"
)

// run warms the target up, measures, and reports.
func run(opt *options) *report {
	if opt.warmup > 0 {
		warm := *opt
		warm.answer.Latency, warm.answer.Delay = 0, 0
		warm.answer.Chunks = min(warm.answer.Chunks, 20)
		warm.concurrency = min(opt.concurrency, 16)
		warm.rate, warm.ramp, warm.requests, warm.duration = 0, 0, 0, opt.warmup
		m := newMetrics()
		drive(&warm, m)
		if m.ok.Load() == 0 {
			log.Printf("nothing succeeded in the warm-up: %v", m.errorCounts())
		}
	}
	m := newMetrics()
	watch := startWatch(opt.pids, opt.known)
	begin := time.Now()
	drive(opt, m)
	elapsed := time.Since(begin)
	return newReport(opt, m, watch.stop(), elapsed)
}

// drive runs one phase: all its requests, until every answer has ended.
func drive(opt *options, m *metrics) {
	var next func() (intended time.Time, ok bool)
	if opt.rate > 0 {
		next = openLoop(opt)
	} else {
		next = closedLoop(opt)
	}
	var wg sync.WaitGroup
	for i := range opt.concurrency {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if opt.ramp > 0 {
				time.Sleep(opt.ramp * time.Duration(i) / time.Duration(opt.concurrency))
			}
			c := newClient(opt, m, i)
			defer c.close()
			for {
				intended, ok := next()
				if !ok {
					return
				}
				c.do(intended)
			}
		}()
	}
	wg.Wait()
}

// closedLoop lets every connection start its next request at once.
func closedLoop(opt *options) func() (time.Time, bool) {
	var started atomic.Int64
	deadline := time.Now().Add(opt.duration)
	return func() (time.Time, bool) {
		now := time.Now()
		if opt.requests > 0 && started.Add(1) > int64(opt.requests) || opt.duration > 0 && now.After(deadline) {
			return now, false
		}
		return now, true
	}
}

// openLoop hands out start times at a fixed rate, however slow the answers
// are. It uses a timerfd: the runtime's own timers round up to a millisecond.
func openLoop(opt *options) func() (time.Time, bool) {
	interval := time.Duration(float64(time.Second) / opt.rate)
	total := opt.requests
	if n := int(opt.duration / interval); total == 0 || opt.duration > 0 && n < total {
		total = n
	}
	due := make(chan time.Time, total)
	timer, err := newTicker(interval)
	if err != nil {
		log.Fatalf("timerfd: %v", err)
	}
	begin := time.Now()
	go func() {
		defer timer.Close()
		defer close(due)
		var expirations [8]byte
		for sent := 0; sent < total; {
			if _, err := timer.Read(expirations[:]); err != nil {
				log.Fatalf("timerfd: %v", err)
			}
			for n := *(*uint64)(unsafe.Pointer(&expirations)); n > 0 && sent < total; n-- {
				sent++
				due <- begin.Add(interval * time.Duration(sent))
			}
		}
	}()
	return func() (time.Time, bool) {
		t, ok := <-due
		return t, ok
	}
}

// newTicker returns a periodic timerfd as a file that the runtime polls.
func newTicker(interval time.Duration) (*os.File, error) {
	const clockMonotonic, nonblock, cloexec = 1, syscall.O_NONBLOCK, syscall.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, nonblock|cloexec, 0)
	if errno != 0 {
		return nil, errno
	}
	ts := syscall.NsecToTimespec(int64(interval))
	setting := [2]syscall.Timespec{ts, ts} // interval, first expiry
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0); errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, "timerfd"), nil
}

// metrics is what all connections record together.
type metrics struct {
	latency, lag, ttft, gap, transit stats.Hist
	ok, stale                        atomic.Int64
	chunks, bytesIn, bytesOut        atomic.Int64
	mu                               sync.Mutex
	errors                           map[string]int
	examples                         map[string]string
}

func newMetrics() *metrics {
	return &metrics{errors: map[string]int{}, examples: map[string]string{}}
}

func (m *metrics) fail(kind, example string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[kind]++
	if m.errors[kind] == 1 {
		m.examples[kind] = example
	}
}

func (m *metrics) errorCounts() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := ""
	for kind, n := range m.errors {
		text += fmt.Sprintf("%s ×%d: %s; ", kind, n, m.examples[kind])
	}
	return text
}

// watch reads the gateway's processes while a phase runs.
type watch struct {
	pids, known    []int
	begin          stats.Tree
	knownCPU, self time.Duration
	machine        stats.Machine
	at             time.Time
	peak           atomic.Int64
	done, ended    chan struct{}
}

// usage is what a watch saw.
type usage struct {
	begin, end                  stats.Tree
	peak                        int64
	self, known, other, softirq time.Duration
	steal                       time.Duration
}

func startWatch(pids, known []int) *watch {
	w := &watch{pids: pids, known: known, done: make(chan struct{}), ended: make(chan struct{})}
	w.machine = stats.ReadMachine()
	w.begin = stats.ReadTrees(pids)
	w.knownCPU = stats.ReadTrees(known).CPU
	w.self = selfCPU()
	w.peak.Store(w.begin.RSS)
	go func() {
		defer close(w.ended)
		if len(pids) == 0 {
			return
		}
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-w.done:
				return
			case <-tick.C:
				w.peak.Store(max(w.peak.Load(), stats.ReadTrees(pids).RSS))
			}
		}
	}()
	return w
}

func (w *watch) stop() usage {
	close(w.done)
	<-w.ended
	u := usage{begin: w.begin, end: stats.ReadTrees(w.pids)}
	machine := stats.ReadMachine()
	u.peak = max(w.peak.Load(), u.end.RSS)
	u.self = selfCPU() - w.self
	u.known = stats.ReadTrees(w.known).CPU - w.knownCPU
	u.other = machine.Tasks - w.machine.Tasks - u.self - u.known - (u.end.CPU - u.begin.CPU)
	u.softirq = machine.Softirq - w.machine.Softirq
	u.steal = machine.Steal - w.machine.Steal
	return u
}

func selfCPU() time.Duration {
	var ru syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/test/strace"
)

// tree lists a process and all that descend from it.
func tree(pid int) []int {
	all := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, _ := os.ReadFile(list) // a thread may have ended
		for child := range strings.FieldsSeq(string(raw)) {
			n, _ := strconv.Atoi(child)
			all = append(all, tree(n)...)
		}
	}
	return all
}

// cpu returns the processor time of processes.
func cpu(pids []int) (used time.Duration) {
	for _, pid := range pids {
		var t unix.Timespec
		if unix.ClockGettime(int32(^pid<<3|2), &t) == nil { // the clock that clock_getcpuclockid(3) names
			used += time.Duration(t.Nano())
		}
	}
	return used
}

// settle waits until the target's processes rest. The mediator hands receipts to the node half a second after its
// answers, and signs its log each second.
func (t target) settle(ctx context.Context) {
	const window = 1100 * time.Millisecond
	for range 10 {
		if before := cpu(t.pids); !t.later || !sleep(ctx, window) || cpu(t.pids)-before < window/50 {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// dev starts mediator dev, perhaps under another program, and waits until it is ready.
func (b *stand) dev(ctx context.Context, under []string, args ...string) (pid int, err error) {
	p, err := b.run(slices.Concat(under, []string{"bin/mediator", "dev"}, args)...)
	if err != nil {
		return 0, err
	}
	return p.Process.Pid, wait(ctx, time.Millisecond, func() error {
		raw, err := os.ReadFile(p.Stdout.(*os.File).Name())
		if err == nil && !bytes.Contains(raw, []byte("ready in ")) {
			err = fmt.Errorf("mediator dev does not get ready: %s", raw)
		}
		return err
	})
}

// pss returns the memory of processes in MiB, with their part of what they share.
func pss(pids []int) (mib float64) {
	for _, pid := range pids {
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		for line := range strings.Lines(string(raw)) {
			if kib, ok := strings.CutPrefix(line, "Pss:"); ok {
				n, _ := strconv.Atoi(strings.Fields(kib)[0])
				mib += float64(n) / 1024
			}
		}
	}
	return mib
}

// resting is what mediator dev costs as it comes, without a call.
type resting struct {
	ready time.Duration // from its start
	cpu   float64       // percent of a processor
	calls float64       // system calls a second
	pss   float64       // MiB
}

// atRest starts mediator dev some times, and measures the last one at rest.
func (b *stand) atRest(ctx context.Context, s sizes) (r resting, err error) {
	var ready []time.Duration
	for i := range s.starts {
		began := time.Now()
		dev, err := b.dev(ctx, nil, "--ports", "auto", "--dir", filepath.Join(b.dir, fmt.Sprint("dev", i)))
		if err != nil {
			return r, err
		}
		ready = append(ready, time.Since(began))
		if i == s.starts-1 {
			sleep(ctx, s.rest/3)
			pids := tree(dev)
			before := cpu(pids)
			sleep(ctx, s.rest)
			r.cpu = 100 * (cpu(pids) - before).Seconds() / s.rest.Seconds()
			r.pss = pss(pids)
			tables, err := strace.Count(ctx, pids, func() { sleep(ctx, s.rest) })
			if err != nil {
				return r, err
			}
			for _, calls := range tables {
				for _, n := range calls {
					r.calls += float64(n) / s.rest.Seconds()
				}
			}
		}
		b.stopLast()
	}
	slices.Sort(ready)
	r.ready = ready[len(ready)/2]
	return r, ctx.Err()
}

// syncs counts the fsyncs of a post at 16 connections, without and with the transparency log.
func (b *stand) syncs(ctx context.Context, o options) (counts [2]float64, err error) {
	for i, l := range []layer{{name: "traced receipts"}, {name: "traced log", log: true}} {
		trace := filepath.Join(b.dir, l.name+".strace")
		// With seccomp-bpf strace stops only the calls that it counts, so the posts keep their pace.
		l.under = []string{"strace", "-f", "--seccomp-bpf", "-qq", "-e", "trace=fsync,fdatasync", "-e", "signal=none", "-o",
			trace}
		t, err := b.startMediator(ctx, l)
		if err != nil {
			return counts, err
		}
		before, _ := os.ReadFile(trace)
		s, err := closed(t.post, 16)(ctx, t, 2*o.duration)
		if err != nil {
			return counts, err
		}
		after, _ := os.ReadFile(trace)
		counts[i] = float64(bytes.Count(after[len(before):], []byte("sync("))) / float64(s.calls)
		b.stopLast()
	}
	return counts, nil
}

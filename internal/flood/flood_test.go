package flood_test

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/flood"
)

func TestQuota(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reports []int
		q := flood.NewQuota(3, func(n int) { reports = append(reports, n) })
		pass := func(times int) (passed int) {
			for range times {
				if q.Pass() {
					passed++
				}
			}
			return passed
		}
		if n := pass(3); n != 3 {
			t.Errorf("%d of 3 passed", n)
		}
		time.Sleep(flood.Window - 1)
		if n := pass(5); n != 0 {
			t.Errorf("%d passed beyond the quota", n)
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if n := pass(3); n != 3 {
			t.Errorf("%d of 3 passed in the next window", n)
		}
		time.Sleep(flood.Window + 1)
		synctest.Wait()
		if !slices.Equal(reports, []int{5}) {
			t.Errorf("reported %v, want 5 once, and nothing of the window in which all passed", reports)
		}
	})
}

func TestQuotaTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := make(chan int, 1)
		q := flood.NewQuota(10, func(n int) { reported <- n })
		passed := make(chan bool, 1000)
		for range cap(passed) {
			go func() { passed <- q.Pass() }()
		}
		n := 0
		for range cap(passed) {
			if <-passed {
				n++
			}
		}
		if left := <-reported; n != 10 || left != 990 {
			t.Errorf("%d passed and %d were left out", n, left)
		}
	})
}

// TestLogger: the first lines of each kind are written, the rest is counted.
func TestLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		var hooked atomic.Int64 // several windows end at once
		log := flood.Logger(zap.New(core, zap.Hooks(func(zapcore.Entry) error {
			hooked.Add(1)
			return nil
		})).With(zap.String("process", "p")))
		for i := range 1000 {
			log.Warn("refused", zap.String("code", "a"), zap.Int("i", i))
			log.With(zap.Int("more", i)).Warn("refused", zap.String("code", "b"))
			log.Warn("refused", zap.String("reason", "r"), zap.String("source", "s"))
			log.Info("known")
			log.Debug("not asked for")
		}
		if n, h := logs.Len(), int(hooked.Load()); n != 4*flood.Lines || h != n {
			t.Errorf("%d lines, %d of them through the hooks; want %d", n, h, 4*flood.Lines)
		}
		if first := logs.TakeAll()[0]; first.ContextMap()["process"] != "p" || first.ContextMap()["i"] != int64(0) {
			t.Errorf("the first line is %+v", first)
		}
		time.Sleep(flood.Window + 1)
		synctest.Wait()
		var said []string
		for _, line := range logs.TakeAll() {
			f := line.ContextMap()
			said = append(said, fmt.Sprint(line.Level, f["line"], f["code"], f["reason"], f["source"], f["lines"]))
		}
		slices.Sort(said)
		if want := []string{"infoknown990", "warnrefuseda990", "warnrefusedb990",
			"warnrefusedrs990"}; !slices.Equal(said, want) {
			t.Errorf("the end of the window says %q", said)
		}
		log.Info("known")
		if n := logs.Len(); n != 1 {
			t.Errorf("%d lines in the next window", n)
		}
	})
}

func TestLoggerKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		log := flood.Logger(zap.New(core))
		for i := range 100_000 {
			log.Info("line", zap.String("source", fmt.Sprint(i)))
		}
		if n := logs.Len(); n != 256+flood.Lines {
			t.Errorf("%d lines", n)
		}
	})
}

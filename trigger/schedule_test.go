package trigger_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/trigger"
)

// run runs the service until the returned function is called.
func (k *kit) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func (k *kit) fireTimes(t *testing.T) []string {
	t.Helper()
	var times []string
	for _, e := range slices.Backward(must(k.List(t.Context(), 1000))(t)) {
		times = append(times, e.EvidenceID)
	}
	return times
}

func wantTimes(t *testing.T, k *kit, want ...string) {
	t.Helper()
	if got := k.fireTimes(t); !slices.Equal(got, want) {
		t.Errorf("fired at %v, want %v", got, want)
	}
}

// A bubble's clock starts at midnight, 1 January 2000, UTC.

func TestScheduleFires(t *testing.T) {
	for _, c := range []struct {
		spec string
		wait time.Duration
		want []string
	}{
		{"*/20 * * * *", 50 * time.Minute, []string{"2000-01-01T00:20:00Z", "2000-01-01T00:40:00Z"}},
		{"@hourly", 90 * time.Minute, []string{"2000-01-01T01:00:00Z"}},
		{"30 2 * * *", 3 * time.Hour, []string{"2000-01-01T02:30:00Z"}},
		{"@every 45s", 2 * time.Minute, []string{"2000-01-01T00:00:45Z", "2000-01-01T00:01:30Z"}},
	} {
		t.Run(c.spec, func(t *testing.T) {
			inBubble(t, func(t *testing.T, k *kit) {
				stop := k.run(t)
				time.Sleep(c.wait)
				stop()
				wantTimes(t, k, c.want...)
			}, sourced(must(trigger.NewSchedule("s", c.spec, map[string]any{"task": "report"}))(t)))
		})
	}
}

// TestScheduleAfterAWrongClock: a clock that is a day ahead for some minutes costs only the times in these.
func TestScheduleAfterAWrongClock(t *testing.T) {
	var ahead atomic.Int64
	inBubble(t, func(t *testing.T, k *kit) {
		stop := k.run(t)
		time.Sleep(5 * time.Minute)
		ahead.Store(int64(24 * time.Hour))
		time.Sleep(5 * time.Minute)
		ahead.Store(0)
		time.Sleep(35 * time.Minute)
		stop()
		wantTimes(t, k, "2000-01-01T00:20:00Z", "2000-01-01T00:40:00Z")
	}, sourced(must(trigger.NewSchedule("s", "*/20 * * * *", nil))(t)), func(o *trigger.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
}

func TestScheduleEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := bubble(t, func(o *trigger.Options) {
			o.Sources = []trigger.Source{
				must(trigger.NewSchedule("nightly", "15 2 * * *", map[string]any{"task": "report"}))(t)}
			o.Origin = issuer(t, evidence.TriggerOriginProofKind(), memoryKey(t, "o"), "source-verifier",
				"trigger-mediator", time.Now)
			o.Receipt = issuer(t, evidence.TriggerReceiptKind(), memoryKey(t, "r"), "trigger-mediator", "runtime",
				time.Now)
		})
		defer k.Close()
		stop := k.run(t)
		defer stop()
		time.Sleep(2*time.Hour + 20*time.Minute)
		e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t)
		if string(e.Payload) != `{"task":"report"}` || e.Source != "nightly" || e.EvidenceID != "2000-01-01T02:15:00Z" {
			t.Errorf("claimed %+v", e)
		}
		k.wantEvidence(t, e,
			map[string]string{"schedule": "nightly", "cron": "15 2 * * *", "fireTime": e.EvidenceID})
		got := k.pay(t, e.ID, "create_post")
		c := must(evidence.UnverifiedClaims(evidence.TriggerOriginProofKind(), got.OriginProof))(t)
		if c.Kind != evidence.TriggerScheduled || c.VerificationMethod != evidence.MethodSchedulerLock {
			t.Errorf("the origin proof says %+v", c)
		}
	})
}

// TestTwoSchedulers runs two schedulers of one name on one store, and restarts their processes.
func TestTwoSchedulers(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 4)
			for _, spec := range []string{"*/10 * * * *", "*/10 * * * *", "@every 10m"} {
				go func() { done <- schedule(t, "s", spec).Run(ctx, k.Service) }()
				time.Sleep(time.Second) // they do not start together
			}
			time.Sleep(10*time.Minute + 30*time.Second)
			cancel()
			for range 3 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			k.restart(t)
		}
		wantTimes(t, k, "2000-01-01T00:10:00Z", "2000-01-01T00:20:00Z")
	}, func(o *trigger.Options) { o.Sources = nil })
}

func TestMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		stop := k.run(t)
		time.Sleep(90 * time.Minute)
		stop()
		time.Sleep(5 * time.Hour)
		stop = k.run(t)
		time.Sleep(time.Hour)
		stop()
		wantTimes(t, k, "2000-01-01T01:00:00Z", "2000-01-01T07:00:00Z")
	}, sourced(schedule(t, "hourly", "@hourly")))
}

func TestMachineSlept(t *testing.T) {
	for _, c := range []struct {
		name  string
		slept time.Duration
		want  []string
	}{
		{"long", 6 * time.Hour, []string{"2000-01-01T07:00:00Z"}},
		{"two minutes late", 31 * time.Minute, []string{"2000-01-01T01:00:00Z", "2000-01-01T02:00:00Z"}},
		{"too late", 31*time.Minute + 1, []string{"2000-01-01T02:00:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKit(t, sourced(schedule(t, "hourly", "@hourly")))
				defer k.Close()
				var slept atomic.Int64
				k.options.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
				k.restart(t)
				stop := k.run(t)
				time.Sleep(30*time.Minute + 30*time.Second) // it reads the clock every minute
				slept.Store(int64(c.slept))
				time.Sleep(time.Hour)
				stop()
				wantTimes(t, k, c.want...)
			})
		})
	}
}

// TestScheduleThatIsNotKept checks that the log names fire times without an event, except at the end of the service.
func TestScheduleThatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		option, logs := logged()
		s := schedule(t, "s", "*/10 * * * *")
		k := bubble(t, option, sourced(s))
		defer func() { k.Close() }()
		ctx, end := context.WithTimeout(t.Context(), 20*time.Minute)
		defer end()
		first := time.Now().Add(10 * time.Minute)
		k.options.Now = func() time.Time {
			if time.Now().Equal(first) {
				end()
			}
			return time.Now()
		}
		k.restart(t)
		time.Sleep(30 * time.Second) // so that nothing else reads the clock at a fire time
		if err := k.Run(ctx); err != nil {
			t.Error(err)
		}
		wantLog(t, logs)

		k.options.Now = time.Now
		k.restart(t)
		stop := k.run(t)
		time.Sleep(11 * time.Minute)
		wantLog(t, logs)
		db := k.sql(t, "ALTER TABLE seen RENAME TO gone")
		time.Sleep(10 * time.Minute)
		wantLog(t, logs, "a scheduled event was not kept: no such table")
		stop()
		db.Close()
		wantTimes(t, k, "2000-01-01T00:20:00Z")
	})
}

// TestScheduleThatEnds uses 2096, the last 29 February for eight years, which is farther than cron expressions look.
func TestScheduleThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := schedule(t, "s", "0 0 29 2 *")
		if next := trigger.Next(s, time.Date(2096, 2, 29, 0, 0, 0, 0, time.UTC)); !next.IsZero() {
			t.Fatalf("after the last time comes %s", next)
		}
		option, logs := logged()
		k := bubble(t, option, func(o *trigger.Options) {
			o.Sources = []trigger.Source{s}
			ahead := time.Until(time.Date(2096, 2, 28, 23, 55, 0, 0, time.UTC))
			o.Now = func() time.Time { return time.Now().Add(ahead) }
		})
		defer k.Close()
		stop := k.run(t)
		time.Sleep(10 * time.Minute)
		stop()
		wantTimes(t, k, "2096-02-29T00:00:00Z")
		wantLog(t, logs, "the schedule does not come true any more")
	})
}

func TestScheduleNotMade(t *testing.T) {
	for _, c := range []struct {
		name, spec string
		payload    any
	}{
		{name: "nothing", spec: ""},
		{name: "four fields", spec: "* * * *"},
		{name: "six fields", spec: "* * * * * *"},
		{name: "minute 60", spec: "60 * * * *"},
		{name: "30 February", spec: "0 0 30 2 *"},
		{name: "a zone of its own", spec: "TZ=Europe/Berlin 0 0 * * *"},
		{name: "a zone of cron's own", spec: "CRON_TZ=Europe/Berlin 0 0 * * *"},
		{name: "a zone that panics in the parser", spec: "TZ=0"},
		{name: "endless", spec: "0 0 * * *" + strings.Repeat(" ", 248)},
		{name: "a payload that is no JSON", spec: "@hourly", payload: make(chan int)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := trigger.NewSchedule("s", c.spec, c.payload); err == nil {
				t.Error("no error")
			}
		})
	}
	schedule(t, "s", "0 0 * * *"+strings.Repeat(" ", 247))
}

package trigger_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/trigger"
)

func TestClaimTakesTheOldestThatCanBeAReason(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		k.deliver(t, fromGitHub("workflow_dispatch", "d", `{}`))
		must(k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodSelfReported, "agent", nil))(t)
		old := k.release(t)
		time.Sleep(trigger.DefaultMaxAge)
		first, second := k.release(t), k.release(t)
		for _, want := range []string{first, second} {
			if e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t); e.ID != want ||
				len(e.Payload) == 0 {
				t.Errorf("claimed %+v, want %s", e, want)
			}
		}
		if e := k.event(t, old); e.State != trigger.Expired {
			t.Errorf("the old event is %s", e.State)
		}
		at := time.Now()
		_, err := k.Claim(t.Context(), trigger.Claim{EventID: "evt_none", Runtime: runtime, Wait: time.Minute})
		if wantCode(t, err, "not_found"); time.Since(at) != 0 {
			t.Error("a claim waited for an event that is not there")
		}
		server := trigger.NewServer(k.Service)
		for _, c := range []struct {
			millis int64
			waits  time.Duration
		}{{0, 0}, {-1, 0}, {-9223372036855, 0}, {1500, 1500 * time.Millisecond}, {9223372036855, time.Minute}} {
			at, w := time.Now(), httptest.NewRecorder()
			server.ServeHTTP(w,
				httptest.NewRequest(http.MethodPost, "/v1/events/claim",
					strings.NewReader(fmt.Sprintf(`{"eventId":"","runtime":"r","waitMillis":%d}`, c.millis))))
			wantCode(t, problem.Read(w.Result()), "event_none")
			if waited := time.Since(at); waited != c.waits {
				t.Errorf("a claim that asked to wait for %d ms waited for %s", c.millis, waited)
			}
		}
	})
}

// TestClaimsThatFindNothing checks that they need no write, and so are answered while something else writes.
func TestClaimsThatFindNothing(t *testing.T) {
	k := newKit(t)
	id := k.claimed(t)
	db := k.sql(t)
	db.SetMaxOpenConns(1)
	must(db.Exec("BEGIN IMMEDIATE"))(t) // ends with its connection
	for want, claim := range map[string]trigger.Claim{
		"event_none":   {Runtime: runtime},
		"not_found":    {Runtime: runtime, EventID: "evt_none"},
		"event_closed": {Runtime: runtime, EventID: id},
	} {
		wantCode(t, second(k.Claim(t.Context(), claim)), want)
	}
}

func TestClaimRefused(t *testing.T) {
	k := newKit(t)
	for _, c := range []struct {
		name, code string
		claim      trigger.Claim
	}{
		{"no runtime", "query_malformed", trigger.Claim{}},
		{"a runtime with a line break", "query_malformed", trigger.Claim{Runtime: "a\nb"}},
		{"unknown", "not_found", trigger.Claim{EventID: "evt_none", Runtime: runtime}},
		{"human", "human_involved",
			trigger.Claim{EventID: k.deliver(t, fromGitHub("workflow_dispatch", "d", `{}`)).EventID, Runtime: runtime}},
		{"reported", "trigger_unverified",
			trigger.Claim{EventID: must(k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodManual, "cli",
				nil))(t),
				Runtime: runtime}},
		{"claimed", "event_closed", trigger.Claim{EventID: k.claimed(t), Runtime: runtime}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantCode(t, second(k.Claim(t.Context(), c.claim)), c.code)
		})
	}
	id := k.release(t)
	k.clock.advance(trigger.DefaultMaxAge)
	wantCode(t, second(k.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime})), "event_closed")
}

func bubble(t *testing.T, change ...func(*trigger.Options)) *kit {
	t.Helper()
	return newKit(t, append([]func(*trigger.Options){func(o *trigger.Options) { o.Now = time.Now }}, change...)...)
}

func inBubble(t *testing.T, do func(t *testing.T, k *kit), change ...func(*trigger.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := bubble(t, change...)
		defer func() { k.Close() }() // perhaps of another service, after a restart
		do(t, k)
	})
}

func TestClaimWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		type result struct {
			event trigger.Event
			err   error
		}
		results := make(chan result, 2)
		for range 2 {
			go func() {
				e, err := k.Claim(context.Background(), trigger.Claim{Runtime: runtime, Wait: 30 * time.Second})
				results <- result{e, err}
			}()
		}
		time.Sleep(10 * time.Second)
		id := k.release(t)
		if r := <-results; r.err != nil || r.event.ID != id {
			t.Errorf("the event went to %+v", r)
		}
		at := time.Now()
		r := <-results
		wantCode(t, r.err, "event_none")
		if waited := time.Since(at); waited != 20*time.Second {
			t.Errorf("the second claim waited %s more, want 20s", waited)
		}
	})
}

func TestClaimWaitsNoLongerThanTheServiceOrItsCaller(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		at := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantCode(t, second(k.Claim(ctx, trigger.Claim{Runtime: runtime, Wait: time.Hour})), "event_none")
		if time.Since(at) != time.Second {
			t.Errorf("the claim outlived its caller by %s", time.Since(at)-time.Second)
		}
		_, err := k.Claim(t.Context(), trigger.Claim{Runtime: runtime, Wait: 1000 * time.Hour})
		wantCode(t, err, "event_none")
		if time.Since(at) != time.Second+time.Minute {
			t.Errorf("the claim waited %s, longer than a minute", time.Since(at))
		}

		running, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(running) }()
		time.AfterFunc(time.Second, stop)
		at = time.Now()
		wantCode(t, second(k.Claim(t.Context(), trigger.Claim{Runtime: runtime, Wait: time.Hour})), "event_none")
		if time.Since(at) != time.Second {
			t.Errorf("the claim outlived the service by %s", time.Since(at)-time.Second)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestReleaseAndDone(t *testing.T) {
	k := newKit(t)
	const other = "worker-2"
	id := k.release(t)
	wantCode(t, second(k.Release(t.Context(), id, runtime)), "event_closed")
	wantCode(t, second(k.Done(t.Context(), "evt_none", runtime)), "not_found")
	k.claim(t, id)
	wantCode(t, second(k.Release(t.Context(), id, other)), "event_closed")
	wantCode(t, second(k.Done(t.Context(), id, other)), "event_closed")
	if e := must(k.Release(t.Context(), id, runtime))(t); e.State != trigger.Received || e.ClaimedBy != "" {
		t.Errorf("released: %+v", e)
	}
	if e := must(k.Claim(t.Context(), trigger.Claim{Runtime: other}))(t); e.ID != id {
		t.Errorf("after its release %s was not given again, but %s", id, e.ID)
	}
	k.pay(t, id, "create_post")
	wantCode(t, second(k.Release(t.Context(), id, other)), "event_closed")
	for range 2 { // repeating it changes nothing
		if e := must(k.Done(t.Context(), id, other))(t); e.State != trigger.Done {
			t.Errorf("done: %+v", e)
		}
	}
	wantCode(t, second(k.Release(t.Context(), id, other)), "event_closed")
	wantCode(t, second(k.Claim(t.Context(), trigger.Claim{EventID: id, Runtime: runtime})), "event_closed")

	old := k.claimed(t)
	k.clock.advance(trigger.DefaultMaxAge)
	for _, finish := range []func(context.Context, string, string) (trigger.Event, error){k.Release, k.Done} {
		if e := must(finish(t.Context(), old, runtime))(t); e.State != trigger.Expired || e.ClaimedBy != runtime {
			t.Errorf("of a session that has outlived its event: %+v", e)
		}
	}
	if e := k.event(t, id); e.State != trigger.Done {
		t.Errorf("done, and old by now: %+v", e)
	}
}

func TestReleaseWakes(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		id := k.claimed(t)
		time.AfterFunc(time.Second, func() { _, _ = k.Release(context.Background(), id, runtime) })
		e := must(k.Claim(t.Context(), trigger.Claim{Runtime: "worker-2", Wait: time.Minute}))(t)
		if e.ID != id {
			t.Errorf("claimed %s, want %s", e.ID, id)
		}
	})
}

func TestKeptForever(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		id := k.release(t)
		time.Sleep(20 * 365 * 24 * time.Hour)
		stop := k.run(t)
		time.Sleep(2 * time.Minute)
		stop()
		if e := k.event(t, id); e.State != trigger.Expired {
			t.Errorf("the event is %+v", e)
		}
	}, func(o *trigger.Options) { o.Retention = time.Duration(math.MaxInt64) })
}

// TestSweep follows an event until only its single-use keys are left.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := bubble(t, func(o *trigger.Options) { o.MaxAge, o.Retention, o.Log = time.Minute, time.Hour, zap.NewNop() })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		sent := fromGitHub("push", "once", `{"ref":"main"}`)
		id := k.claim(t, k.deliver(t, sent).EventID)
		k.pay(t, id, "create_post")
		time.Sleep(30 * time.Minute)
		if e := k.event(t, id); e.State != trigger.Expired || e.ClaimedBy != runtime {
			t.Errorf("the event is %+v", e)
		}
		time.Sleep(time.Hour)
		wantCode(t, second(k.Get(t.Context(), id)), "not_found")
		wantCode(t, k.ask(t, id), "not_found")
		var left int
		if err := k.sql(t).QueryRow("SELECT (SELECT count(*) FROM uses) + (SELECT count(*) FROM spent)").Scan(&left); err !=
			nil || left != 0 {
			t.Errorf("%d rows are left of it: %v", left, err)
		}
		if a := k.deliver(t, sent); !a.Duplicate || a.EventID != id {
			t.Errorf("the delivery was answered with %+v", a)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		k.Close()
	})
}

func TestClaimRace(t *testing.T) {
	k := newKit(t)
	for range 4 {
		k.release(t)
	}
	var group sync.WaitGroup
	claims := make(chan string, 32)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // none of them waits
	defer cancel()
	for range 32 {
		group.Go(func() {
			e, err := k.Claim(ctx, trigger.Claim{Runtime: runtime})
			if err == nil {
				claims <- e.ID
			} else if code := problem.DetailsOf(err).Code; code != "event_none" {
				t.Errorf("refused with %s: %v", code, err)
			}
		})
	}
	group.Wait()
	close(claims)
	ids := map[string]int{}
	for id := range claims {
		ids[id]++
	}
	if len(ids) != 4 || !slices.Equal(slices.Collect(maps.Values(ids)), []int{1, 1, 1, 1}) {
		t.Errorf("claimed %v", ids)
	}
}

func TestClaimByCallerThatHasLeft(t *testing.T) {
	k := newKit(t)
	id := k.release(t)
	gone := func() bool { // called on any goroutine
		e, err := k.Get(context.Background(), id)
		return err == nil && e.State == trigger.Claimed
	}
	wantCode(t, second(k.Claim(leaver{context.Background(), gone}, trigger.Claim{Runtime: runtime})), "event_none")
	if e := k.event(t, id); e.State != trigger.Received {
		t.Errorf("the event is %s", e.State)
	}
}

type leaver struct {
	context.Context
	gone func() bool
}

func (l leaver) Err() error {
	if l.gone() {
		return context.Canceled
	}
	return l.Context.Err()
}

func TestClaimByCallerThatLeaves(t *testing.T) {
	k := newKit(t)
	for range 100 {
		id := k.release(t)
		ctx, leave := context.WithCancel(t.Context())
		go leave()
		_, err := k.Claim(ctx, trigger.Claim{EventID: id, Runtime: runtime})
		leave()
		want := trigger.Claimed
		if err != nil {
			want = trigger.Received
		}
		if e := k.event(t, id); e.State != want {
			t.Fatalf("after %v the event is %s", err, e.State)
		}
	}
}

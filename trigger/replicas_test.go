package trigger_test

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/trigger"
)

// replicas are two services on one database.
func replicas(t *testing.T) [2]*kit {
	t.Helper()
	return replicasOn(t, pgtest.Start(t).Database(t))
}

func replicasOn(t *testing.T, dsn string) [2]*kit {
	option := func(o *trigger.Options) { o.DSN, o.Secret = dsn, strings.Repeat("s", 32) }
	return [2]*kit{newKit(t, option), newKit(t, option)}
}

// race does one thing sixteen times at once at two replicas, and returns how often it succeeded. Others may only fail
// because they came late.
func race(t *testing.T, at [2]*kit, do func(k *kit) error) (won int) {
	t.Helper()
	results := make(chan error)
	for i := range 16 {
		go func() { results <- do(at[i%2]) }()
	}
	for range 16 {
		switch err := <-results; {
		case err == nil:
			won++
		case problem.DetailsOf(err).Code != "event_closed" && problem.DetailsOf(err).Code != "event_none":
			t.Error(err)
		}
	}
	return won
}

// TestReplicas checks that one delivery at two services makes one event, which opens one session and pays for one post.
func TestReplicas(t *testing.T) {
	at := replicas(t)
	race(t, at, func(k *kit) error {
		k.deliver(t, fromGitHub("release", "delivery", `{"action":"published"}`))
		return nil
	})
	if events := must(at[1].List(t.Context(), 10))(t); len(events) != 1 {
		t.Fatalf("one delivery made %d events", len(events))
	}
	var id sync.Map
	claims := race(t, at, func(k *kit) error {
		e, err := k.Claim(t.Context(), trigger.Claim{Runtime: runtime})
		if err == nil {
			id.Store("id", e.ID)
		}
		return err
	})
	event, _ := id.Load("id")
	if claims != 1 {
		t.Fatalf("%d claims got the event", claims)
	}
	if n := race(t, at, func(k *kit) error { return k.ask(t, event.(string)) }); n != 1 {
		t.Errorf("an event with a budget of one post paid for %d", n)
	}
	if n := race(t, at, func(k *kit) error { return second(k.Release(t.Context(), event.(string), runtime)) }); n != 0 {
		t.Errorf("an event that had paid was given back %d times", n)
	}
}

// TestReplicaHears lets a claim at one service wait for an event that the other takes.
func TestReplicaHears(t *testing.T) {
	at := replicas(t)
	defer at[0].run(t)()
	got := make(chan error, 1)
	go func() {
		got <- second(at[0].Claim(t.Context(), trigger.Claim{Runtime: runtime, Wait: time.Minute}))
	}()
	id := at[1].release(t)
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if e := at[1].event(t, id); e.State != trigger.Claimed {
		t.Errorf("the other service says %s", e.State)
	}
}

// TestForgedEvents: somebody else writes the database.
func TestForgedEvents(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	at := replicasOn(t, dsn)
	at[0].release(t)
	at[0].clock.advance(time.Hour)
	at[1].clock.advance(time.Hour)
	at[0].deliver(t, fromGitHub("release", "delivery", `{"action":"published"}`))
	db, err := sql.Open("pgx", dsn)
	check.Must(t, err)
	defer db.Close()
	var id string
	check.Must(t, db.QueryRow(`SELECT id FROM actionproof_events.events ORDER BY seq DESC LIMIT 1`).Scan(&id))
	for forged, change := range map[string]string{
		"evt_forged": `replace(event, id, 'evt_forged'), payload`, "evt_copied": `event, payload`,
		"evt_alone": `'{"id":"evt_alone"}', payload`, "evt_short": `'', payload`,
	} {
		_, err = db.Exec(`INSERT INTO actionproof_events.events (id, source, evidence, state, claimable, expires, event,
			payload) SELECT $1, source, $1, state, 1, expires, `+change+`
			FROM actionproof_events.events WHERE id = $2`, forged, id)
		check.Must(t, err)
		if _, err = at[1].Claim(t.Context(), trigger.Claim{EventID: forged, Runtime: "runtime"}); err == nil {
			t.Errorf("the event %s opens a session", forged)
		}
	}
	// The genuine one comes after the forged ones, and after one whose column does not say that it is over.
	_, err = db.Exec(`UPDATE actionproof_events.events SET expires = expires + 7200000`)
	check.Must(t, err)
	_, err = db.Exec(`UPDATE actionproof_events.events SET seq = DEFAULT WHERE id = $1`, id)
	check.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only a claim that never ends takes so long
	defer cancel()
	must(at[1].Claim(ctx, trigger.Claim{Runtime: "runtime"}))(t)
	for _, payload := range []string{"'other'", "''", "NULL"} {
		_, err = db.Exec(`UPDATE actionproof_events.events SET state = 'received', payload = `+payload+` WHERE id = $1`, id)
		check.Must(t, err)
		_, err = at[1].Claim(t.Context(), trigger.Claim{EventID: id, Runtime: "runtime"})
		check.WantCode(t, err, "trigger_unverified")
	}
}

// TestManyPaymentsOfOneEvent: an agent whose posts or refunds wait for their event's lock leaves others the database.
func TestManyPaymentsOfOneEvent(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	k := newKit(t, func(o *trigger.Options) { o.DSN, o.Secret = dsn, strings.Repeat("s", 32) })
	hostile := k.claimed(t)
	db := must(sql.Open("pgx", dsn))(t)
	defer db.Close()
	for name, ask := range map[string]func() error{
		"posts":   func() error { return k.ask(t, hostile) },
		"refunds": func() error { return k.Unsent(t.Context(), hostile, runtime, "create_post", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			k.deliver(t, fromGitHub("release", name, `{"action":"published","another":"`+name+`"}`))
			other := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t).ID
			lock := must(db.Begin())(t)
			must(lock.Exec(`SELECT FROM actionproof_events.events WHERE id = $1 FOR UPDATE`, hostile))(t)
			ended := make(chan error)
			for range 64 {
				go func() { ended <- ask() }()
			}
			time.Sleep(500 * time.Millisecond) // a slow machine may find nothing
			paid := make(chan error)
			go func() { paid <- k.ask(t, other) }()
			select {
			case err := <-paid:
				check.Must(t, err)
			case err := <-ended:
				t.Errorf("a post of the other event waits until one of the hostile agent's ends with %v", err)
				go func() { <-paid }()
				go func() { ended <- nil }()
			}
			check.Must(t, lock.Rollback())
			for range 64 {
				<-ended
			}
		})
	}
}

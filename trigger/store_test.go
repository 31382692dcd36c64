package trigger_test

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/trigger"
)

func TestAStoreThatFails(t *testing.T) {
	k := newKit(t)
	id := k.claimed(t)
	k.sql(t, "ALTER TABLE uses RENAME TO gone; ALTER TABLE seen RENAME TO gone_too")
	for what, ask := range map[string]func() error{
		"evidence":  func() error { _, err := k.Evidence(t.Context(), id, binding("create_post")); return err },
		"a release": func() error { _, err := k.Release(t.Context(), id, runtime); return err },
		"a report": func() error {
			_, err := k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodManual, "cli", nil)
			return err
		},
	} {
		if err := ask(); problem.DetailsOf(err).Code != "ledger_unavailable" || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: got %v", what, err)
		}
	}
	k.sql(t, "ALTER TABLE events RENAME TO gone_as_well")
	if _, err := k.Claim(t.Context(), trigger.Claim{Runtime: runtime}); problem.DetailsOf(err).Code !=
		"ledger_unavailable" {
		t.Errorf("a claim: %v", err)
	}
}

// TestAnotherVersion checks that the refusal of another version's file says what a new file would forget.
func TestAnotherVersion(t *testing.T) {
	k := newKit(t)
	k.sql(t, "PRAGMA user_version = 99")
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := trigger.New(t.Context(), k.options)
	wantCode(t, err, "ledger_unavailable")
	if !strings.Contains(err.Error(), "A new file would forget which deliveries were seen") {
		t.Errorf("got %v", err)
	}
}

// TestSeenThatFails checks that nothing is taken if its keys cannot be read or kept.
func TestSeenThatFails(t *testing.T) {
	for name, statements := range map[string]string{
		"read": `ALTER TABLE seen RENAME TO kept;
			CREATE VIEW seen AS SELECT 'github' AS source, 'id:once' AS key, NULL AS event;
			CREATE TRIGGER t INSTEAD OF INSERT ON seen BEGIN INSERT INTO kept VALUES (new.source, new.key, new.event); END`,
		"written": `CREATE TRIGGER t BEFORE INSERT ON seen BEGIN SELECT RAISE(ABORT, 'full'); END`,
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			k.sql(t, statements)
			for _, event := range []string{"push", "star"} {
				if a := k.deliver(t, fromGitHub(event, "once", `{"ref":"main"}`)); a.Code != "ledger_unavailable" ||
					a.EventID != "" {
					t.Errorf("%s was answered with %+v", event, a)
				}
			}
			wantTimes(t, k)
		})
	}
}

func TestAnEventThatCannotBeRead(t *testing.T) {
	for _, broken := range []string{
		"UPDATE events SET event = '{'",
		`ALTER TABLE events RENAME TO kept;
			CREATE VIEW events AS SELECT seq, id, state, claimed_by, payload,
				CASE seq WHEN 1 THEN json('{') ELSE event END AS event FROM kept`,
	} {
		k := newKit(t)
		id := k.release(t)
		k.release(t)
		k.sql(t, broken)
		wantCode(t, second(k.Get(t.Context(), id)), "ledger_unavailable")
		events, err := k.List(t.Context(), 10)
		if wantCode(t, err, "ledger_unavailable"); len(events) != 0 && strings.HasPrefix(broken, "UPDATE") {
			t.Errorf("listed %+v", events)
		}
	}
}

// TestAnEventThatCannotBeWritten uses a time beyond the year 9999, which has no form in JSON.
func TestAnEventThatCannotBeWritten(t *testing.T) {
	k := newKit(t, func(o *trigger.Options) {
		o.Now = func() time.Time { return time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC) }
	})
	if _, err := k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodManual, "cli", nil); err == nil {
		t.Error("an event without a form was kept")
	}
	wantTimes(t, k)
}

func logged() (func(*trigger.Options), *observer.ObservedLogs) {
	core, logs := observer.New(zapcore.InfoLevel)
	return func(o *trigger.Options) { o.Log = zap.New(core) }, logs
}

// wantLog checks and clears the warnings and errors in the log, each by its message and a piece of its error.
func wantLog(t testing.TB, logs *observer.ObservedLogs, want ...string) {
	t.Helper()
	var got []string
	for _, line := range logs.TakeAll() {
		if line.Level == zapcore.InfoLevel {
			continue
		}
		said := line.Message
		if err, ok := line.ContextMap()["error"].(string); ok {
			said += ": " + err
		}
		got = append(got, said)
	}
	if !slices.EqualFunc(got, want, func(said, want string) bool {
		message, piece, _ := strings.Cut(want, ": ")
		return strings.HasPrefix(said, message) && strings.Contains(said, piece)
	}) {
		t.Errorf("the log says %q, want %q", got, want)
	}
}

// TestNothingToGiveBack lets signing fail, and giving back too: the event loses a post.
func TestNothingToGiveBack(t *testing.T) {
	for _, c := range []struct {
		does string
		says []string
	}{{"RAISE(IGNORE)", nil},
		{"RAISE(ABORT, 'stays')", []string{"an event has paid for a post that could not be signed: stays"}}} {
		option, logs := logged()
		k := newKit(t, option, func(o *trigger.Options) {
			o.Receipt = issuer(t, evidence.TriggerReceiptKind(), brokenKey{}, "trigger-mediator", "runtime", o.Now)
		})
		id := k.claimed(t)
		k.sql(t, "CREATE TRIGGER t BEFORE DELETE ON uses BEGIN SELECT "+c.does+"; END")
		for _, code := range []string{"custody_unavailable", "event_closed"} {
			wantCode(t, second(k.Evidence(t.Context(), id, binding("create_post"))), code)
		}
		wantLog(t, logs, c.says...)
	}
}

// TestSweepThatFails checks that an event is forgotten completely or not at all.
func TestSweepThatFails(t *testing.T) {
	const notSwept = "old events were not swept: "
	for _, c := range []struct {
		statement string
		left      int
		says      []string
	}{
		{"SELECT 1", 0, nil},
		{"CREATE TRIGGER t BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'no update'); END", 1,
			[]string{notSwept + "no update"}},
		{"CREATE TRIGGER t BEFORE DELETE ON spent BEGIN SELECT RAISE(ABORT, 'no delete'); END", 1,
			[]string{notSwept + "no delete"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			option, logs := logged()
			k := bubble(t, option)
			defer k.Close()
			k.pay(t, k.claimed(t), "create_post")
			db := k.sql(t, c.statement)
			time.Sleep(trigger.DefaultMaxAge + trigger.DefaultRetention)
			stop := k.run(t)
			time.Sleep(time.Second)
			stop()
			wantLog(t, logs, c.says...)
			if n := len(must(k.List(t.Context(), 10))(t)); n != c.left {
				t.Errorf("after %s there are %d events", c.statement, n)
			}
			db.Close()
		})
	}
}

type failing struct{ err error }

func (failing) Name() string                                  { return "failing" }
func (f failing) Run(context.Context, *trigger.Service) error { return f.err }

func TestEndedAtOnce(t *testing.T) {
	option, logs := logged()
	k := newKit(t, option)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := k.Run(ctx); err != nil {
		t.Error(err)
	}
	wantLog(t, logs)
}

func TestASourceThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T, k *kit) {
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		if err := k.Run(ctx); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the service ended with %v", err)
		}
	}, sourced(failing{io.ErrUnexpectedEOF}))
}

// TestReady: the service is ready as long as it can store something.
func TestReady(t *testing.T) {
	dir := t.TempDir()
	fill, empty := check.SmallDisk(t, dir, "1m")
	k := newKit(t, func(o *trigger.Options) { o.Path = filepath.Join(dir, "events.db") })
	report := func() error {
		return second(k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodManual, "cli", nil))
	}
	check.Must(t, report(), k.Ready(t.Context()))
	fill()
	var err error
	for n := 0; err == nil && n < 1000; n++ { // the write-ahead log may have room
		err = report()
	}
	check.WantCode(t, err, "ledger_unavailable", "full")
	check.WantCode(t, k.Ready(t.Context()), "ledger_unavailable", "full")
	empty()
	check.Must(t, report(), k.Ready(t.Context()))
}

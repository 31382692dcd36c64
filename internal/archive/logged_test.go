package archive_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

// logged is a world whose ledger logs.
type logged struct {
	*world
	store   *sqlite.Ledger
	options translog.Options
	log     *translog.Log
	minutes int
	away    time.Duration // the ledger, after each post
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	w := &logged{world: newWorld(t, false)}
	w.open()
	return w
}

// open begins a log, with the same key each time.
func (w *logged) open() {
	w.t.Helper()
	var err error
	w.store, err = sqlite.Open(w.t.Context(), filepath.Join(w.t.TempDir(), "ledger.db"),
		sqlite.Options{Now: w.Clock.Now, Logged: func() {}})
	must(w.t, err)
	w.t.Cleanup(func() { w.store.Close() })
	w.options, err = ledgertest.LogOptions()
	must(w.t, err)
	w.options.Now = w.Clock.Now
	w.log, err = translog.New(w.t.Context(), w.store, w.options)
	must(w.t, err)
}

// play makes a heartbeat each minute and a post every ten, and publishes the log.
func (w *logged) play(minutes int) (records []ledger.Record) {
	w.t.Helper()
	for range minutes {
		beat := leaf.New(leaf.Heartbeat, w.Clock.Now(), leaf.Document{}).Leaf(fmt.Sprint(w.Clock.Now().Unix()))
		must(w.t, w.store.AddLeaves(w.t.Context(), beat))
		w.Clock.Advance(time.Second)
		if w.minutes++; w.minutes%10 == 5 {
			records = append(records, w.made())
		}
		w.Clock.Advance(59 * time.Second)
	}
	must(w.t, w.log.Publish(w.t.Context()))
	return records
}

// made makes a post.
func (w *logged) made() ledger.Record {
	w.t.Helper()
	r := w.Post(w.t)
	r.ID, r.State, r.Host = fmt.Sprintf("post_at_%d", w.minutes), ledger.StateForwarding, "api.example:443"
	w.Clock.Advance(time.Second)
	must(w.t, w.store.Begin(w.t.Context(), r))
	w.Clock.Advance(time.Second)
	r.State, r.Status, r.Finished = ledger.StateForwarded, 201, w.Clock.Now()
	w.Clock.Advance(w.away)
	must(w.t, w.store.Finish(w.t.Context(), r))
	r, err := w.store.Get(w.t.Context(), r.ID)
	must(w.t, err)
	return r
}

func (w *logged) export(records ...ledger.Record) []string {
	w.t.Helper()
	var to bytes.Buffer
	made, err := archive.Export(w.t.Context(), &to, archive.Archive{w.read()}, list(records...), nil,
		archive.ProofsIn(w.store))
	if err != nil || made.Unproven != nil {
		w.t.Fatalf("%+v, %v", made, err)
	}
	lines := strings.SplitAfter(to.String(), "\n")
	return lines[:len(lines)-1]
}

func serve(t *testing.T, handler http.Handler) torchwood.TileReader {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return translog.Fetch(server.Client(), server.URL)
}

// compare compares an export with a log, unless from is nil. It returns also the code of an export that is refused.
func compare(t *testing.T, lines []string, p *translog.Policy, from torchwood.TileReader, since,
	until time.Time) (*archive.LogJudge, string) {
	t.Helper()
	j := archive.NewLogJudge(p)
	r, err := archive.NewReader(bufio.NewReader(strings.NewReader(strings.Join(lines, ""))))
	must(t, err)
	for record, err := range r.Records() {
		if err != nil {
			return j, codeOf(err)
		}
		proofs, err := r.Proofs(t.Context(), record.ID)
		must(t, err)
		j.Add(record, proofs)
	}
	if from != nil {
		_, err = j.Against(t.Context(), from, since, until)
		must(t, err)
	}
	return j, ""
}

func said(doubts []archive.Doubt) (all []string) {
	for _, d := range doubts {
		all = append(all, strings.TrimSpace(d.ID+" "+d.Code+" "+d.Detail))
	}
	return all
}

// edit is an export whose records, each with its proofs, can be changed.
type edit struct {
	before, end []string
	records     [][]string // a record's line, and those of its proofs
}

func (w *logged) edit(records []ledger.Record) *edit {
	lines := w.export(records...)
	at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"record":`) })
	e := &edit{before: lines[:at], end: lines[len(lines)-1:]}
	for part := range slices.Chunk(lines[at:len(lines)-1], 3) {
		e.records = append(e.records, part)
	}
	return e
}

func (e *edit) lines() []string {
	end := fmt.Sprintf(`{"end":{"records":%d}}`+"\n", len(e.records))
	return slices.Concat(e.before, slices.Concat(e.records...), []string{end})
}

// change changes the record i. Its proofs stay.
func (e *edit) change(t *testing.T, i int, do func(r *ledger.Record)) {
	t.Helper()
	var line struct{ Record ledger.Record }
	must(t, json.Unmarshal([]byte(e.records[i][0]), &line))
	do(&line.Record)
	raw, err := json.Marshal(map[string]any{"record": line.Record})
	must(t, err)
	e.records[i][0] = string(raw) + "\n"
}

func named(line, as string) string { // another kind of line
	_, value, _ := strings.Cut(line, ":")
	return `{"` + as + `":` + value
}

// TestAgainstLog changes an export, as everybody can through whose hands it goes. The log shows each change.
func TestAgainstLog(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	records := w.play(70)
	from := serve(t, translog.Handler(w.store))
	for name, tt := range map[string]struct {
		change   func(e *edit)
		refused  []string // beginnings
		notKnown []string
		held     int
		result   archive.CompleteResult
		missing  int // of the period, or else outside it
	}{
		"untouched": {func(*edit) {}, nil, nil, 7, archive.CompleteNoneMissing, 0},
		"a post taken": {func(e *edit) { e.records = slices.Delete(e.records, 2, 3) }, nil, nil, 6,
			archive.CompleteMissing, 1},
		"the first taken": {func(e *edit) { e.records = e.records[1:] }, nil, nil, 6,
			archive.CompleteNoneMissing, 1}, // the period that is named begins after it
		"the last taken": {func(e *edit) { e.records = e.records[:6] }, nil, nil, 6, archive.CompleteNoneMissing, 1},
		"a host changed": {func(e *edit) { e.change(t, 2, func(r *ledger.Record) { r.Host = "other.example:443" }) },
			[]string{"post_at_25 record_mismatch"}, nil, 6, archive.CompleteMissing, 1},
		"an outcome changed": {func(e *edit) { e.change(t, 2, func(r *ledger.Record) { r.Status = 500 }) },
			[]string{"post_at_25 record_mismatch"}, nil, 6, archive.CompleteMissing, 1},
		"a post backdated": {func(e *edit) {
			e.change(t, 2, func(r *ledger.Record) {
				r.Started, r.Finished = r.Started.Add(-3*time.Hour), r.Finished.Add(-3*time.Hour)
			})
		}, []string{"post_at_25 record_mismatch the record is backdated"}, nil, 6, archive.CompleteMissing, 1},
		"two swapped": {func(e *edit) { e.records[2][0], e.records[3][0] = e.records[3][0], e.records[2][0] },
			[]string{"post_at_35 record_mismatch", "post_at_25 record_mismatch"}, nil, 5, archive.CompleteMissing, 2},
		"two with one proof": {func(e *edit) { e.records[3] = slices.Concat(e.records[3][:1], e.records[2][1:]) },
			[]string{"post_at_35 record_mismatch"}, nil, 6, archive.CompleteMissing, 1},
		"one twice": {func(e *edit) { e.records = append(e.records, e.records[2]) },
			[]string{"post_at_25 record_mismatch there is another record"}, nil, 7, archive.CompleteNoneMissing, 0},
		"without its outcome's proof": {func(e *edit) { e.records[2] = e.records[2][:2] }, nil,
			[]string{"post_at_25  there is no proof that the log holds its outcome"}, 6, archive.CompleteNoneMissing, 0},
		"without its intent's proof": {func(e *edit) { e.records[2] = slices.Delete(e.records[2], 1, 2) }, nil,
			[]string{"post_at_25  there is no proof"}, 6, archive.CompleteMissing, 1},
		"an intent for the outcome": {func(e *edit) { e.records[2][2] = named(e.records[2][1], "outcomeProof") },
			[]string{"post_at_25 record_mismatch the proof of its outcome is one of the kind intent"}, nil, 6,
			archive.CompleteMissing, 1},
		"an outcome hidden": {func(e *edit) {
			e.change(t, 2, func(r *ledger.Record) { r.State, r.Status, r.Finished = ledger.StateForwarding, 0, time.Time{} })
		}, nil, []string{"post_at_25  the log holds an outcome"}, 6, archive.CompleteNoneMissing, 0},
		"a post called refused": {func(e *edit) {
			e.change(t, 2, func(r *ledger.Record) { r.State = ledger.StateRefused })
		}, []string{"post_at_25 record_mismatch the record says that nothing was sent"}, nil, 6, archive.CompleteMissing, 1},
		"a post called refused without proofs": {func(e *edit) {
			e.change(t, 2, func(r *ledger.Record) { r.State = ledger.StateRefused })
			e.records[2] = e.records[2][:1]
		}, []string{"post_at_25 record_mismatch the record says that nothing was sent"}, nil, 6, archive.CompleteMissing, 1},
		"a post invented": {func(e *edit) {
			e.records = append(e.records, slices.Clone(e.records[2][:1]))
			e.change(t, 7, func(r *ledger.Record) { r.ID = "post_invented" })
		}, []string{"post_invented record_mismatch the log ran at its time"}, nil, 7, archive.CompleteNoneMissing, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := w.edit(records)
			tt.change(e)
			j, code := compare(t, e.lines(), w.options.Policy, from, time.Time{}, time.Time{})
			refused, notKnown := said(j.Untampered.Refused), said(j.Untampered.NotKnown)
			prefixed := func(said, want []string) bool { return slices.EqualFunc(said, want, strings.HasPrefix) }
			if code != "" || !prefixed(refused, tt.refused) || j.Untampered.Held != tt.held ||
				len(notKnown) != len(tt.notKnown) || len(said(j.Untampered.NotKnown)) != j.Untampered.NotKnownCount {
				t.Errorf("%q, held %d, refused %q, not known %q", code, j.Untampered.Held, refused, notKnown)
			}
			for i, want := range tt.notKnown {
				if !strings.HasPrefix(notKnown[i], strings.ReplaceAll(want, "  ", " ")) &&
					!strings.HasPrefix(notKnown[i], want) {
					t.Errorf("not known %q", notKnown)
				}
			}
			if c := j.Complete; c.Result != tt.result || int(c.MissingCount+c.Outside) != tt.missing || len(c.Gaps) > 0 ||
				c.Witnesses != nil || len(j.Witnessed.By) > 0 {
				t.Errorf("complete: %+v", c)
			}
		})
	}
	// The period that the verifier demands shows also what is missing at its ends.
	e := w.edit(records)
	e.records = e.records[1:6]
	first, last := records[0].Started.Add(-time.Minute), records[6].Started.Add(time.Minute)
	j, _ := compare(t, e.lines(), w.options.Policy, from, first, last)
	if c := j.Complete; c.MissingCount != 2 || c.Result != archive.CompleteMissing {
		t.Errorf("of the whole period: %+v", c)
	}
	j, _ = compare(t, e.lines(), w.options.Policy, from, time.Time{}, time.Time{})
	if c := j.Complete; c.Posts != 5 || c.From.Before(records[0].Started) || c.Until.After(records[6].Started) {
		t.Errorf("without the ends: %+v", c)
	}
}

// TestOutcomeStoredLate: an outcome waits for a ledger that is away, however long. The log says when the post began.
func TestOutcomeStoredLate(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	w.away = 3 * time.Hour
	j, code := compare(t, w.edit(w.play(10)).lines(), w.options.Policy, serve(t, translog.Handler(w.store)), time.Time{},
		time.Time{})
	if code != "" || j.Untampered.Held != 1 || j.Complete.Result != archive.CompleteNoneMissing {
		t.Errorf("%q, %+v", code, j.Logged)
	}
}

// TestWhoseLog compares proofs by policies that do not vouch for them.
func TestWhoseLog(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	e := w.edit(w.play(10))
	j, _ := compare(t, e.lines(), nil, nil, time.Time{}, time.Time{})
	if u := j.Untampered; u.NotKnownCount != 1 || u.Held != 0 || u.Log != "" || len(j.Witnessed.By) > 0 ||
		j.Complete.Result != archive.CompleteNotKnown {
		t.Errorf("without a policy: %+v", j)
	}
	e.change(t, 0, func(r *ledger.Record) { r.Host = "other.example:443" })
	if j, _ := compare(t, e.lines(), nil, nil, time.Time{}, time.Time{}); j.Untampered.RefusedCount != 1 {
		t.Errorf("another record without a policy: %+v", j.Untampered)
	}
	public := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)).Public().(ed25519.PublicKey)
	other, err := translog.NewKey("log.example/test", public, nil)
	must(t, err)
	j, _ = compare(t, w.edit(w.play(10)).lines(), translog.Unwitnessed(other), nil, time.Time{}, time.Time{})
	if r := said(j.Untampered.Refused); len(r) != 1 || !strings.Contains(r[0], "log_unwitnessed") {
		t.Errorf("by another log's key: %q", r)
	}
}

// TestForkedLog shows the verifier another log than the one of the proofs.
func TestForkedLog(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	w.play(20)
	early, err := serve(t, translog.Handler(w.store)).ReadEndpoint(t.Context(), "checkpoint")
	must(t, err)
	records := w.play(20)
	e, honest := w.edit(records), translog.Handler(w.store)
	older := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/checkpoint" {
			_, _ = rw.Write(early)
			return
		}
		honest.ServeHTTP(rw, r)
	})
	rebuilt := &logged{world: w.world, minutes: 5}
	rebuilt.open()
	rebuilt.play(60)
	for name, from := range map[string]http.Handler{"older": older, "rebuilt": translog.Handler(rebuilt.store)} {
		j, _ := compare(t, e.lines(), w.options.Policy, serve(t, from), time.Time{}, time.Time{})
		all := strings.Join(said(j.Untampered.Refused), "\n")
		if !strings.Contains(all, "log_contradicted forked at entry ") || !strings.Contains(all, "missing at entry ") ||
			!strings.Contains(all, "the intent of post_at_25") || j.Complete.Result != archive.CompleteRefused {
			t.Errorf("%s: %+v, %s", name, j.Complete, all)
		}
	}
	// The other way round: what the verifier has seen of the log earlier.
	j := archive.NewLogJudge(w.options.Policy)
	must(t, j.Seen("kept", early))
	_, err = j.Against(t.Context(), serve(t, honest), time.Time{}, time.Time{})
	if err != nil || j.Untampered.RefusedCount > 0 {
		t.Errorf("%+v, %v", j.Untampered, err)
	}
}

// TestLoggedAgain: an operator with all keys logs a post a second time, as if it had been another one.
func TestLoggedAgain(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	changed := w.play(20)[0]
	changed.Status = 500
	text := changed
	text.Artifacts = nil
	raw, err := json.Marshal(text)
	must(t, err)
	intent, err := leaf.OfIntent(changed, w.Clock.Now())
	must(t, err)
	outcome, err := leaf.OfOutcome(changed, string(raw), w.Clock.Now())
	must(t, err)
	must(t, w.store.AddLeaves(t.Context(), intent.Leaf("again"), outcome.Leaf("again")))
	must(t, w.log.Publish(t.Context()))
	proofs, err := archive.ProofsIn(w.store)(t.Context(), "again")
	must(t, err)
	j := archive.NewLogJudge(w.options.Policy)
	if result, d := j.Add(changed, proofs); result != archive.LogHeld {
		t.Fatalf("%s, %+v", result, d)
	}
	_, err = j.Against(t.Context(), serve(t, translog.Handler(w.store)), time.Time{}, time.Time{})
	must(t, err)
	if r := said(j.Untampered.Refused); len(r) != 1 || !strings.Contains(r[0], "2 intents and 2 outcomes") ||
		j.Untampered.Held != 0 {
		t.Errorf("%+v", j.Untampered)
	}
}

// TestExportOfABrokenLog: the records go out without proofs, and why is said.
func TestExportOfABrokenLog(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	records := w.play(20)
	broken := errors.New("the log cannot be read")
	var to bytes.Buffer
	made, err := archive.Export(t.Context(), &to, archive.Archive{w.read()}, list(records...), nil,
		func(context.Context, string) (archive.Proofs, error) { return archive.Proofs{}, broken })
	if err != nil || made.Records != 2 || made.Proven != 0 || !errors.Is(made.Unproven, broken) ||
		strings.Contains(to.String(), `{"intentProof"`) {
		t.Errorf("%+v, %v", made, err)
	}
	j, code := compare(t, strings.SplitAfter(to.String(), "\n"), w.options.Policy, nil, time.Time{}, time.Time{})
	if u := j.Untampered; code != "" || u.NotKnownCount != 2 || u.Held != 0 {
		t.Errorf("%q, %+v", code, u)
	}
}

// TestMalformedProofs: the lines of proofs are strict.
func TestMalformedProofs(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	records := w.play(20)
	for name, change := range map[string]func(part []string) []string{
		"twice":             func(p []string) []string { return []string{p[0], p[1], p[1], p[2]} },
		"in another order":  func(p []string) []string { return []string{p[0], p[2], p[1]} },
		"before the record": func(p []string) []string { return []string{p[1], p[0], p[2]} },
		"empty":             func(p []string) []string { return []string{p[0], `{"intentProof":""}` + "\n", p[2]} },
		"no text":           func(p []string) []string { return []string{p[0], `{"intentProof":{}}` + "\n", p[2]} },
		"cut off": func(p []string) []string {
			return []string{p[0], strings.Replace(p[1], `\nindex `, "", 1), p[2]}
		},
		"too long": func(p []string) []string {
			return []string{p[0], strings.TrimSuffix(p[1], "\"}\n") + strings.Repeat("x", translog.MaxProof) + "\"}\n", p[2]}
		},
	} {
		e := w.edit(records)
		e.records[1] = change(e.records[1])
		if _, code := compare(t, e.lines(), w.options.Policy, nil, time.Time{}, time.Time{}); code != "evidence_malformed" {
			t.Errorf("%s: %q", name, code)
		}
	}
}

// cosigner is a witness with a clock of its own (c2sp.org/tlog-cosignature).
type cosigner struct {
	note.Verifier
	key ed25519.PrivateKey
	at  time.Time
}

func (c cosigner) Sign(text []byte) ([]byte, error) {
	message := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", c.at.Unix(), text)
	return append(binary.BigEndian.AppendUint64(nil, uint64(c.at.Unix())), ed25519.Sign(c.key, message)...), nil
}

// witnessed has the log cosigned by a witness whose clock says at, and returns a policy that demands it.
func (w *logged) witnessed(at time.Time) *translog.Policy {
	w.t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte("W"), ed25519.SeedSize))
	s, err := torchwood.NewCosignatureSigner("witness.example/w", private)
	must(w.t, err)
	_, c, err := w.store.TreeHead(w.t.Context())
	must(w.t, err)
	v, err := note.NewVerifier(w.options.Key.String())
	must(w.t, err)
	n, err := note.Open([]byte(c.Signed.Note), note.VerifierList(v))
	must(w.t, err)
	both, err := note.Sign(n, cosigner{s.Verifier(), private, at})
	must(w.t, err)
	must(w.t, w.store.PutCheckpoints(w.t.Context(), ledger.Checkpoints{
		Accepted: ledger.Checkpoint{Size: c.Signed.Size, Note: string(both)}}))
	p, err := translog.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness w %s\nquorum w\n", w.options.Key, s.Verifier()))
	must(w.t, err)
	return p
}

func TestWitnessedRecords(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	records := w.play(20)
	at := w.Clock.Now().Truncate(time.Second)
	p := w.witnessed(at)
	later := w.made() // no checkpoint has it yet
	e := w.edit(records)
	e.records = append(e.records, w.edit(records).records[0])
	e.records[2] = e.records[2][:1]
	e.change(t, 2, func(r *ledger.Record) { *r = later })
	j, _ := compare(t, e.lines(), p, serve(t, translog.Handler(w.store)), time.Time{}, time.Time{})
	if u := j.Untampered; u.Held != 2 || u.Posts != 3 || u.NotKnownCount != 1 || u.RefusedCount > 0 {
		t.Errorf("%+v", u)
	}
	want := []archive.WitnessedBy{{Witness: "w", Posts: 2, Latest: at.UTC()}}
	if j.Witnessed.Posts != 2 || !slices.Equal(j.Witnessed.By, want) {
		t.Errorf("%+v", j.Witnessed)
	}
	if c := j.Complete; c.Result != archive.CompleteNoneMissing || len(c.Witnesses) != 1 ||
		!c.Witnesses[0].Time.Equal(at) {
		t.Errorf("%+v", c)
	}
	// The log takes a cosignature of a clock that is two minutes behind.
	now := w.play(5)
	p = w.witnessed(now[0].Finished.Add(-118 * time.Second))
	j, _ = compare(t, w.edit(now).lines(), p, nil, time.Time{}, time.Time{})
	if u := j.Untampered; u.RefusedCount > 0 || u.Held != 1 {
		t.Errorf("%+v", u)
	}
	// The log's own key alone does not satisfy that policy, and an entry that is later than its witness is a lie.
	w.play(10)
	p = w.witnessed(w.Clock.Now().Add(-24 * time.Hour))
	j, _ = compare(t, w.edit(records).lines(), p, nil, time.Time{}, time.Time{})
	if r := said(j.Untampered.Refused); len(r) != 2 || !strings.Contains(r[0], "the witness w saw it at") {
		t.Errorf("%q", r)
	}
	w.play(10)
	must(t, w.store.PutCheckpoints(t.Context(), ledger.Checkpoints{Accepted: signed(t, w.store)}))
	j, _ = compare(t, w.edit(records).lines(), p, nil, time.Time{}, time.Time{})
	if r := said(j.Untampered.Refused); len(r) != 2 || !strings.Contains(r[0], "log_unwitnessed") ||
		len(j.Witnessed.By) > 0 {
		t.Errorf("%q, %+v", r, j.Witnessed)
	}
}

func signed(t *testing.T, store *sqlite.Ledger) ledger.Checkpoint {
	t.Helper()
	_, c, err := store.TreeHead(t.Context())
	must(t, err)
	return c.Signed
}

// TestLogThatStops: nobody knows what was posted while the log did not run.
func TestLogThatStops(t *testing.T) {
	t.Parallel()
	w := newLogged(t)
	records := w.play(10)
	w.Clock.Advance(time.Hour)
	unlogged := w.Post(t)
	unlogged.ID = "post_unlogged"
	w.Clock.Advance(time.Hour)
	records = append(records, w.play(20)...)
	e := w.edit(records)
	e.records = append(e.records, slices.Clone(e.records[0][:1]))
	e.change(t, len(e.records)-1, func(r *ledger.Record) { *r = unlogged })
	j, _ := compare(t, e.lines(), w.options.Policy, serve(t, translog.Handler(w.store)), time.Time{}, time.Time{})
	if u, c := j.Untampered, j.Complete; u.RefusedCount > 0 || u.NotKnownCount != 1 ||
		c.Result != archive.CompleteNoneMissing || len(c.Gaps) != 1 || !strings.Contains(c.Gaps[0].Detail, "2h") {
		t.Errorf("%+v, %+v", u, c)
	}
}

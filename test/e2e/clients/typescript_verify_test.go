package clients

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/logtest"
	"github.com/actionproof/mediator/translog"
)

var alterations = flag.Int("alterations", 12, "each how many alterations of a line one is tried; 1 tries all")

// exported is an export of posts in every state, of two sessions, with receipts and proofs that a witness has seen.
type exported struct {
	lines []string
	trust []string // flags
	log   string   // the policy
	dir   string
	files int
}

func newExported(t *testing.T) *exported {
	t.Helper()
	dir, k := t.TempDir(), gatetest.New(t, gatetest.Autonomous)
	f := k.Files(t, dir)
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "ledger.db"),
		sqlite.Options{Now: k.Clock.Now, Logged: func() {}})
	check.Must(t, err)
	defer store.Close()
	o, err := ledgertest.LogOptions()
	check.Must(t, err)
	witness := logtest.NewWitness(t, "W")
	policy := fmt.Sprintf("log %s\nwitness w %s %s\nquorum w\n", o.Key, witness.Key, witness.Serve(t))
	o.Policy, err = translog.ParsePolicy([]byte(policy))
	check.Must(t, err)
	o.Client = http.DefaultClient
	log, err := translog.New(t.Context(), store, o)
	check.Must(t, err)
	var records []ledger.Record
	sessions := make(map[string]*gatetest.Session)
	post := func(s *gatetest.Session, session string, state ledger.State, receipt bool) {
		k.Clock.Advance(2 * time.Second)
		r := k.PostOf(t, gatetest.Claim(evidence.PurposeAgentSession, "interactions", s.Head(), "sessionId", session))
		r.ID, r.Session, r.Host, r.Rule = fmt.Sprintf("post_%s_%s", session, state), session, "api.example:443", "posts"
		r.Finished, r.State = time.Time{}, ledger.StateForwarding
		if state == ledger.StateRefused {
			r.State, r.Finished, r.Code, r.CapabilityID = state, r.Started, "policy_denied", ""
			r.Artifacts = slices.DeleteFunc(r.Artifacts, func(a ledger.Artifact) bool {
				return slices.Contains([]string{"policyDecision", "grant", "capability", "requestProof"}, a.Name)
			})
			check.Must(t, store.Add(t.Context(), r))
		} else {
			check.Must(t, store.Begin(t.Context(), r))
			k.Clock.Advance(1234 * time.Microsecond)
			r.State, r.Finished = state, k.Clock.Now()
			if state == ledger.StateForwarded {
				r.Status, r.BytesIn, r.Steps = 201, 17, []ledger.Step{{Name: "session", Micros: 5}}
			}
			check.Must(t, store.Finish(t.Context(), r))
		}
		if receipt {
			s.PostOf(t, r, nil)
		}
		records = append(records, r)
	}
	for _, name := range []string{"ses_1", "ses_2"} {
		s := k.Session(t, name)
		s.Event, sessions[name] = "evt_1", s
		s.Call(t, nil)
		for _, state := range []ledger.State{ledger.StateForwarded, ledger.StateRefused, ledger.StateFailed,
			ledger.StateIndeterminate} {
			post(s, name, state, state != ledger.StateRefused)
		}
		s.Call(t, nil)
	}
	for i, token := range []string{k.Reputation(t, k.Agent(t), 30, 81.5), k.Lost(t, k.Agent(t))} {
		r := k.PostOf(t, gatetest.Claim(evidence.PurposePolicyDecision, "reputationHash", evidence.HashToken(token)))
		r.ID, r.Host, r.Rule, r.State = fmt.Sprint("post_rated_", i), "api.example:443", "posts", ledger.StateForwarding
		r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "reputation", Token: token})
		check.Must(t, store.Begin(t.Context(), r))
		r.Finished, r.State, r.Status = k.Clock.Now(), ledger.StateForwarded, 201
		if i == 1 { // the ledger was away
			k.Clock.Advance(3 * time.Hour)
		}
		check.Must(t, store.Finish(t.Context(), r))
		records = append(records, r)
	}
	k.WriteBundle(t, f.Bundle, k.Certificates[evidence.PurposeInteraction], k.Certificates[evidence.PurposeAppraiser])
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { log.Run(ctx); close(done) }()
	if !kit.Eventually(func() bool {
		_, err := translog.Prove(t.Context(), store, "outcome "+records[len(records)-1].ID)
		return err == nil
	}) {
		t.Error("the witness has not seen the log")
	}
	stop()
	<-done
	own, err := archive.Read(config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}, f.Manifest)
	check.Must(t, err)
	for i, r := range records {
		records[i], err = store.Get(t.Context(), r.ID)
		check.Must(t, err)
	}
	var text bytes.Buffer
	receipts := func(ctx context.Context, id string, from int64, limit int) ([]string, error) {
		return archive.ReceiptsOf(sessions[id].Receipts)(ctx, id, from, limit)
	}
	_, err = archive.Export(t.Context(), &text, archive.Archive{own}, inOrder(records), receipts,
		archive.ProofsIn(store))
	check.Must(t, err)
	e := &exported{lines: strings.SplitAfter(text.String(), "\n"), dir: dir, log: filepath.Join(dir, "log-policy"),
		trust: []string{"--registry", f.Registry, "--auditor", f.Auditor, "--bundle", f.Bundle}}
	e.lines = e.lines[:len(e.lines)-1]
	kit.Write(t, e.log, policy)
	return e
}

func inOrder(records []ledger.Record) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// with writes the export with changed lines, and returns the file.
func (e *exported) with(t *testing.T, lines []string) string {
	t.Helper()
	e.files++
	path := filepath.Join(e.dir, fmt.Sprintf("%d.jsonl", e.files))
	kit.Write(t, path, strings.Join(lines, ""))
	return path
}

// packed writes the compressed export beside the keys of the two roots, and returns its path.
func (e *exported) packed(t *testing.T) string {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(strings.Join(e.lines, "")))
	check.Must(t, errors.Join(err, z.Close()))
	path := filepath.Join(e.dir, "posts.jsonl.gz")
	kit.Write(t, path, packed.Bytes())
	return path
}

// altered returns the value with one member more, less, or other, in every way.
func altered(v any) (all []any) {
	switch v := v.(type) {
	case string:
		all = append(all, v+"x", "", nil, 7.0)
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			for _, by := range []time.Duration{-72 * time.Hour, -time.Minute, time.Second, 72 * time.Hour} {
				all = append(all, at.Add(by).Format(time.RFC3339Nano))
			}
		}
		if len(v) > 40 {
			all = append(all, v[:20]+"A"+v[21:], v[:len(v)-1])
		}
	case float64:
		all = append(all, v+1, 0.0, "1")
	case bool:
		all = append(all, !v)
	case []any:
		all = append(all, v[1:], append(slices.Clone(v), v[0]), "x")
		for i, item := range v {
			for _, other := range altered(item) {
				next := slices.Clone(v)
				next[i] = other
				all = append(all, next)
			}
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			next := maps.Clone(v)
			delete(next, name)
			all = append(all, next)
			for _, other := range altered(v[name]) {
				next := maps.Clone(v)
				next[name] = other
				all = append(all, next)
			}
		}
		next := maps.Clone(v)
		next["more"] = 1.0
		all = append(all, next)
	}
	return all
}

// TestTypeScriptVerifies: the package says of an export, and of everything that can be changed in one, what mediator
// verify says.
func TestTypeScriptVerifies(t *testing.T) {
	t.Parallel()
	e := newExported(t)
	whole := e.with(t, e.lines)
	if n := kit.SameInTypeScript(t, []string{whole}, e.trust...); n != 0 {
		t.Error("the export is refused")
	}
	logged := append(slices.Clone(e.trust), "--log-policy", e.log)
	kit.SameInTypeScript(t, []string{whole}, logged...)
	kit.Mediator(t, append([]string{"verify", whole}, logged...)...).Done("8 verified, 2 incomplete", "w saw 8 of 8")

	var files []string
	seen := make(map[string]int)
	for i, line := range e.lines {
		if i == 0 { // mediator verify reads other files, too
			continue
		}
		without := slices.Delete(slices.Clone(e.lines), i, i+1)
		twice := slices.Insert(slices.Clone(e.lines), i, line)
		files = append(files, e.with(t, without), e.with(t, twice))
		var members map[string]any
		check.Must(t, json.Unmarshal([]byte(line), &members))
		kind := slices.Collect(maps.Keys(members))[0]
		if seen[kind]++; seen[kind] > 2 && kind != "record" || seen[kind] > 4 { // records of all states
			continue
		}
		for n, other := range altered(members) {
			if n%*alterations != i%*alterations {
				continue
			}
			raw, err := json.Marshal(other)
			check.Must(t, err)
			lines := slices.Clone(e.lines)
			lines[i] = string(raw) + "\n"
			files = append(files, e.with(t, lines))
		}
	}
	first := slices.IndexFunc(e.lines, func(line string) bool { return strings.HasPrefix(line, `{"record":`) })
	lines := slices.Clone(e.lines) // the empty time is no empty text
	lines[first] = strings.Replace(lines[first], `"resource":`, `"message":"0001-01-01T00:00:00Z","resource":`, 1)
	files = append(files, e.with(t, lines))
	refused := kit.SameInTypeScript(t, files, logged...)
	t.Logf("%d of %d altered exports are refused", refused, len(files))
	if refused < len(files)/2 {
		t.Error("too few are refused: the alterations test nothing")
	}
}

// TestTypeScriptEarlierRoots: both say the same of posts from before and after new roots, or one new root.
func TestTypeScriptEarlierRoots(t *testing.T) {
	t.Parallel()
	for _, is := range []struct{ otherAuditor, revoked bool }{{true, false}, {false, false}, {false, true}} {
		export, pins := kit.ExportOfTwoRoots(t, is.otherAuditor, is.revoked)
		for _, pinned := range pins {
			kit.SameInTypeScript(t, []string{export}, pinned...)
			want := []string{"1 verified, 1 incomplete", "roots_not_pinned"}
			if is.revoked {
				want = []string{"0 verified, 0 incomplete"}
			}
			kit.Mediator(t, append([]string{"verify", export}, pinned...)...).Refused(want...)
		}
	}
}

// TestTypeScriptCommand runs the command as its users do.
func TestTypeScriptCommand(t *testing.T) {
	t.Parallel()
	e := newExported(t)
	cli, whole := filepath.Join(kit.TypeScript(t), "cli.js"), e.packed(t)
	cut := filepath.Join(e.dir, "cut.jsonl.gz")
	kit.Write(t, cut, kit.Read(t, whole)[:1<<10])
	for _, args := range [][]string{
		append([]string{"verify", whole}, e.trust...), append([]string{"verify", cut}, e.trust...),
		append([]string{"verify", whole, whole}, e.trust...), append([]string{"verify", "missing"}, e.trust...),
		append([]string{"verify", whole, "--no-such-flag"}, e.trust...),
		{"verify", whole, "--registry", e.trust[3], "--auditor", e.trust[1]},
	} {
		node := exec.CommandContext(t.Context(), "node", append([]string{cli}, args...)...)
		node.Stderr = os.Stderr
		out, err := node.Output()
		want := kit.Mediator(t, args...)
		if code := node.ProcessState.ExitCode(); code != want.Status || code == 0 && string(out) != want.Out {
			t.Errorf("%q: %v\n%s\nwant %d\n%s", args, err, out, want.Status, want.Out)
		}
	}
}

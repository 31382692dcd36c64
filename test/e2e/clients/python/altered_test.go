package python_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
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

var altered = flag.Int("altered", 40, "the number of altered exports that both languages verify")

// world is a deployment whose exports have receipts, proofs of a log that a witness saw, and answers of an API.
type world struct {
	*gatetest.Kit
	dir   string
	flags []string
	api   ed25519.PrivateKey
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Kit: gatetest.New(t, gatetest.Signing, gatetest.Autonomous), dir: t.TempDir(),
		api: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, ed25519.SeedSize))}
	f := w.Files(t, w.dir)
	w.flags = []string{"--registry", f.Registry, "--auditor", f.Auditor}
	return w
}

// files has the certificates of all roles in its bundle.
func (w *world) files(t *testing.T) gate.Files {
	t.Helper()
	f := w.Files(t, w.dir)
	w.WriteBundle(t, f.Bundle, w.Certificates[evidence.PurposeInteraction], w.Certificates[evidence.PurposeAppraiser])
	return f
}

func (w *world) file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	check.Must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// answered adds the API's signed answer to a record.
func (w *world) answered(t *testing.T, r *ledger.Record) {
	t.Helper()
	r.Scheme = "https"
	content, err := hex.DecodeString(r.ContentHash)
	check.Must(t, err)
	m := &httpsig.Message{Status: r.Status,
		Header: http.Header{"Content-Digest": {httpsig.ContentDigest(sha256.Sum256(nil))}},
		Request: &httpsig.Message{Method: r.Method, Target: &url.URL{Scheme: r.Scheme, Host: r.Host, Path: r.Path},
			Header: http.Header{"Content-Digest": {httpsig.ContentDigest([sha256.Size]byte(content))},
				"Idempotency-Key": {r.CapabilityID}}}}
	now := w.Clock.Now().Add(-345 * time.Second) // the API's clock is behind, and the answer late
	check.Must(t, httpsig.Sign(m, "api", gate.AnswerComponents(),
		httpsig.Params{Created: now, Tag: gate.AnswerTag}, w.api))
	public, _ := w.api.Public().(ed25519.PublicKey)
	s, err := httpsig.Verify(m, httpsig.Expected{Components: gate.AnswerComponents(), Tag: gate.AnswerTag, Now: now,
		Keys: httpsig.Keys{httpsig.KeyID(public): public}, MaxAge: time.Minute, Skew: time.Minute})
	check.Must(t, err)
	r.Answer = &ledger.Answer{Base: s.Base, Signature: s.Signature, KeyID: s.Params.KeyID, PublicKey: public}
}

// export makes posts in each state, and returns the lines of their export.
func (w *world) export(t *testing.T) []string {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(w.dir, "ledger.db"),
		sqlite.Options{Now: w.Clock.Now, Logged: func() {}})
	check.Must(t, err)
	t.Cleanup(func() { store.Close() })
	witness := logtest.NewWitness(t, "W")
	o, err := ledgertest.LogOptions()
	check.Must(t, err)
	text := fmt.Sprintf("log %s\nwitness w %s\ngroup g 1 w\nquorum g\n", o.Key, witness.Key)
	o.Policy, err = translog.ParsePolicy([]byte(text))
	check.Must(t, err)
	o.Now = w.Clock.Now
	log, err := translog.New(t.Context(), store, o)
	check.Must(t, err)
	w.flags = append(w.flags, "--log-policy", w.file(t, "policy", text))

	s := w.Session(t, "ses_1")
	s.Event = "evt_1"
	s.Call(t, nil)
	states := []ledger.State{ledger.StateForwarded, ledger.StateFailed, ledger.StateIndeterminate,
		ledger.StateForwarded, ledger.StateRefused, ledger.StateForwarded}
	var records []ledger.Record
	for i, state := range states {
		r := w.PostOf(t, gatetest.Claim(evidence.PurposeAgentSession, "interactions", s.Head(), "sessionId", "ses_1"))
		if r.Session = "ses_1"; i == 3 || i == 5 {
			token := w.Reputation(t, w.Agent(t), 30, 81.5)
			if i == 5 {
				token = w.Lost(t, w.Agent(t))
			}
			r = w.PostOf(t, gatetest.Claim(evidence.PurposePolicyDecision, "reputationHash", evidence.HashToken(token)))
			r.Artifacts = append(r.Artifacts, ledger.Artifact{Name: "reputation", Token: token})
		}
		r.ID, r.Host, r.Rule = fmt.Sprintf("post_%d", i), "api.example:443", "posts"
		if state == ledger.StateRefused {
			r.State, r.CapabilityID, r.Code, r.Step = state, "", "decision_denied", "policy"
			r.Artifacts = slices.DeleteFunc(r.Artifacts[:7:7], func(a ledger.Artifact) bool {
				return a.Name == "policyDecision" || a.Name == "grant"
			})
			check.Must(t, store.Add(t.Context(), r))
		} else {
			r.State = ledger.StateForwarding
			check.Must(t, store.Begin(t.Context(), r))
			w.Clock.Advance(1500 * time.Millisecond)
			r.State, r.Finished = state, w.Clock.Now()
			if state == ledger.StateForwarded {
				r.Status, r.BytesOut, r.Result = http.StatusCreated, 29, "ok"
				w.answered(t, &r)
			}
			if i == 5 { // the ledger was away
				w.Clock.Advance(3 * time.Hour)
			}
			check.Must(t, store.Finish(t.Context(), r))
		}
		if i < 3 {
			s.PostOf(t, r, nil)
		}
		records = append(records, r)
		w.Clock.Advance(time.Minute)
	}
	check.Must(t, log.Publish(t.Context()))
	_, stored, err := store.TreeHead(t.Context())
	check.Must(t, err)
	c := stored.Signed
	answer := httptest.NewRecorder()
	witness.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/prefix/add-checkpoint",
		strings.NewReader("old 0\n\n"+c.Note)))
	c.Note += answer.Body.String()
	check.Must(t, store.PutCheckpoints(t.Context(), ledger.Checkpoints{Accepted: c}))
	f := w.files(t)
	own, err := archive.Read(config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}, f.Manifest)
	check.Must(t, err)
	var out bytes.Buffer
	_, err = archive.Export(t.Context(), &out, archive.Archive{own}, list(records), archive.ReceiptsOf(s.Receipts),
		archive.ProofsIn(store))
	check.Must(t, err)
	return slices.Collect(strings.Lines(out.String()))
}

// alterations returns the lines as they are, and with one change each.
func alterations(t *testing.T, lines []string) map[string]string {
	t.Helper()
	out := map[string]string{"as it is": strings.Join(lines, "")}
	put := func(name string, lines ...[]string) { out[name] = strings.Join(slices.Concat(lines...), "") }
	for i, line := range lines {
		put(fmt.Sprintf("without line %d", i+1), lines[:i], lines[i+1:])
		put(fmt.Sprintf("line %d twice", i+1), lines[:i+1], lines[i:])
		put(fmt.Sprintf("ends before line %d", i+1), lines[:i])
		if i > 0 {
			put(fmt.Sprintf("line %d before the one before", i+1), lines[:i-1], []string{line, lines[i-1]}, lines[i+1:])
		}
		if at := len(line) / 2; line[at] != 'A' {
			put(fmt.Sprintf("byte %d of line %d", at, i+1), lines[:i], []string{line[:at] + "A" + line[at+1:]}, lines[i+1:])
		}
		if strings.HasPrefix(line, `{"record":{"id":"post_0"`) || strings.HasPrefix(line, `{"record":{"id":"post_4"`) {
			for name, changed := range changedRecords(t, line) {
				put(fmt.Sprintf("line %d: %s", i+1, name), lines[:i], []string{changed}, lines[i+1:])
			}
		}
	}
	return out
}

func changedRecords(t *testing.T, line string) map[string]string {
	t.Helper()
	var read struct{ Record map[string]any }
	check.Must(t, json.Unmarshal([]byte(line), &read))
	out := make(map[string]string)
	for name, before := range maps.Clone(read.Record) {
		for i, value := range others(before) {
			if read.Record[name] = value; value == nil {
				delete(read.Record, name)
			}
			raw, err := json.Marshal(map[string]any{"record": read.Record})
			check.Must(t, err)
			out[fmt.Sprint(name, " ", i)] = string(raw) + "\n"
		}
		read.Record[name] = before
	}
	return out
}

// others are other values for a member of JSON. nil leaves it out.
func others(v any) []any {
	switch v := v.(type) {
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			return []any{at.Add(-3 * time.Hour), at.Add(-time.Second), at.Add(72 * time.Hour), v[:19] + ".000Z", "x"}
		}
		return []any{nil, v + "x", "refused", "forwarding"}
	case float64:
		return []any{nil, v + 1, 0, 404, "x"}
	case []any:
		return []any{nil, v[1:], append(slices.Clone(v), v[0]), []any{}}
	case map[string]any:
		other := maps.Clone(v)
		for name, value := range v {
			if text, ok := value.(string); ok {
				other[name] = strings.Replace(text, "3", "4", 1)
			}
			delete(other, slices.Sorted(maps.Keys(v))[0])
		}
		return []any{nil, other, map[string]any{}}
	}
	return []any{nil}
}

var detail = regexp.MustCompile(`(?m)^(.* REFUSED at [^,]+, [a-z_]+|             REFUSED [^:]*): .*$`)

// TestAltered: python -m actionproof verify says the same of an export as mediator verify, and of what anyone could
// make of it. Only the sentences for the operator differ.
func TestAltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := alterations(t, w.export(t))
	der, err := x509.MarshalPKIXPublicKey(w.api.Public())
	check.Must(t, err)
	keys := w.file(t, "answer.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	all := append(slices.Clone(w.flags), "--bundle", w.files(t).Bundle, "--api-keys", "api.example="+keys)
	alike(t, some(files, *altered), all)
	alike(t, some(files, *altered/8), w.flags)
	alike(t, some(files, *altered/8), w.flags[:4])
}

// TestOddForms compares both about forms of an export that no alteration of a line makes.
func TestOddForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lines := w.export(t)
	var read struct {
		Roots struct {
			Registry map[string]any `json:"registry"`
			Auditor  map[string]any `json:"auditor"`
		} `json:"roots"`
	}
	roots := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"roots"`) })
	check.Must(t, json.Unmarshal([]byte(lines[roots]), &read))
	also := func(change func()) string {
		change()
		raw, err := json.Marshal(read)
		check.Must(t, err)
		return strings.Join(slices.Concat(lines[:roots], []string{string(raw) + "\n"}, lines[roots:]), "")
	}
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, err := to.Write([]byte(strings.Join(lines, "")))
	check.Must(t, errors.Join(err, to.Close()))
	alike(t, map[string]string{
		"the roots in each other's place": also(func() {
			read.Roots.Registry, read.Roots.Auditor = read.Roots.Auditor, read.Roots.Registry
		}),
		"two roots of one name": also(func() { read.Roots.Auditor["kid"] = read.Roots.Registry["kid"] }),
		"an unknown member that is null": strings.Replace(strings.Join(lines, ""), `{"record":{`,
			`{"record":{"unknown":null,`, 1),
		"more than what is compressed": packed.String() + "junk",
	}, w.flags)
}

// TestEarlierRoots: both say the same of posts from before and after new roots, or one new root.
func TestEarlierRoots(t *testing.T) {
	t.Parallel()
	for _, is := range []struct{ otherAuditor, revoked bool }{{true, false}, {false, false}, {false, true}} {
		export, pins := kit.ExportOfTwoRoots(t, is.otherAuditor, is.revoked)
		for _, pinned := range pins {
			alike(t, map[string]string{"of two roots": string(kit.Read(t, export))}, pinned)
		}
	}
}

// some returns the unaltered file, and about n others that are spread over all.
func some(files map[string]string, n int) map[string]string {
	out := map[string]string{"as it is": files["as it is"]}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i%max(1, len(files)/max(1, n)) == 0 {
			out[name] = files[name]
		}
	}
	return out
}

// said is what a command has printed.
type said struct {
	Code int
	Out  string
	Err  string
}

func alike(t *testing.T, files map[string]string, flags []string) {
	t.Helper()
	names := slices.Sorted(maps.Keys(files))
	dir := t.TempDir()
	var paths []string
	for i, name := range names {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		check.Must(t, os.WriteFile(paths[i], []byte(files[name]), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"../tests/verify_all.py", fmt.Sprint(len(flags))},
		append(flags, paths...)...)...)
	cmd.Dir = filepath.Join(root, "src")
	cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	raw, err := cmd.Output()
	check.Must(t, err)
	var all []said
	check.Must(t, json.Unmarshal(raw, &all))
	codes, differ := make(map[int]int), 0
	for i, name := range names {
		want := kit.Mediator(t, append([]string{"verify", paths[i]}, flags...)...)
		codes[want.Status]++
		if name == "as it is" && want.Status != 0 {
			t.Errorf("the export itself is refused:\n%s%s", want.Out, want.Said)
		}
		got := all[i]
		if out := detail.ReplaceAllString(want.Out, "$1"); got.Code != want.Status ||
			detail.ReplaceAllString(got.Out, "$1") != out {
			if differ++; differ < 6 {
				t.Errorf("%s: python says %d\n%s%s\nand Go says %d\n%s%s", name, got.Code, got.Out, got.Err, want.Status,
					want.Out, want.Said)
			}
		}
	}
	t.Logf("%d files, %v, %d differ", len(names), codes, differ)
	if len(names) > 5 && codes[1] == 0 {
		t.Errorf("%v", codes)
	}
}

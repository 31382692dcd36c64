// Package witness_test has the transparency log cosigned by the witness that others run: transparency-dev/witness, in a
// module of its own, because the witness brings many modules along.
package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/torchwood"
	"github.com/transparency-dev/witness/omniwitness"
	persistence "github.com/transparency-dev/witness/persistence/sqlite"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog"
	"github.com/actionproof/mediator/translog/leaf"
)

const origin = "log.example/deployment"

func key(t *testing.T) translog.Key {
	t.Helper()
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte("L"), ed25519.SeedSize))
	k, err := translog.NewKey(origin, private.Public().(ed25519.PublicKey), func(_ context.Context, m []byte) ([]byte,
		error) {
		return ed25519.Sign(private, m), nil
	})
	check.Must(t, err)
	return k
}

// witness runs the witness, which knows the log, with its state in dir. It returns its line in a policy, and how to
// stop it.
func witness(t *testing.T, name, dir string, log translog.Key) (line string, stop func()) {
	t.Helper()
	logs, err := omniwitness.NewStaticLogConfig(fmt.Appendf(nil, "Logs:\n  - PublicKey: %s\n", log))
	check.Must(t, err)
	return runWitness(t, name, dir, omniwitness.OperatorConfig{Logs: logs})
}

// runWitness is witness with its own configuration of logs.
func runWitness(t *testing.T, name, dir string, o omniwitness.OperatorConfig) (line string, stop func()) {
	t.Helper()
	seed := bytes.Repeat([]byte(name), ed25519.SeedSize)[:ed25519.SeedSize]
	signer, err := torchwood.NewCosignatureSigner(name+".example", ed25519.NewKeyFromSeed(seed))
	check.Must(t, err)
	o.WitnessKeys, o.WitnessVerifier = []note.Signer{signer}, signer.Verifier()
	state, closeState, err := persistence.New(t.Context(), persistence.Opts{Path: filepath.Join(dir, name+".db")})
	check.Must(t, err)
	if o.Logs == nil {
		check.Must(t, state.Init(t.Context()))
		o.Logs = state // to which it adds those that it fetches
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		ended <- omniwitness.Main(ctx, o, state, l, http.DefaultClient)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		check.Must(t, closeState())
	}
	t.Cleanup(stop)
	return fmt.Sprintf("witness %s %s http://%s", name, signer.Verifier(), l.Addr()), stop
}

type log struct {
	*translog.Log
	store    *sqlite.Ledger
	policy   *translog.Policy
	failures chan error
}

// begin runs the log in the store with these witnesses.
func begin(t *testing.T, store *sqlite.Ledger, lines ...string) *log {
	t.Helper()
	k := key(t)
	p, err := translog.ParsePolicy([]byte("log " + k.String() + "\n" + strings.Join(lines, "\n") + "\n"))
	check.Must(t, err)
	l := &log{store: store, policy: p, failures: make(chan error, 1000)}
	l.Log, err = translog.New(t.Context(), store, translog.Options{Key: k, Policy: p, Interval: time.Millisecond,
		Now: time.Now, Client: http.DefaultClient, Failed: func(err error) { l.failures <- err }})
	check.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); l.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return l
}

func open(t *testing.T) *sqlite.Ledger {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
		sqlite.Options{Now: time.Now, Logged: func() {}})
	check.Must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// post makes a post, and waits until the witnesses have seen its intent.
func (l *log) post(t *testing.T, id string) {
	t.Helper()
	check.Must(t, l.store.Begin(t.Context(), ledger.Record{ID: id, Flow: "post", Started: time.Now()}),
		l.Wait(t.Context(), leaf.ID(leaf.Intent, id)))
}

// seen verifies the proof of a post, also by torchwood, and returns who saw it.
func (l *log) seen(t *testing.T, id string) (names []string) {
	t.Helper()
	text, err := translog.Prove(t.Context(), l.store, leaf.ID(leaf.Intent, id))
	check.Must(t, err)
	v, err := l.policy.Verify(text)
	check.Must(t, err, torchwood.VerifyProof(l.policy, tlog.RecordHash(v.Opening.Entry.Encode()), text))
	for _, w := range v.Witnesses {
		if ago := time.Since(w.Time); ago < -time.Minute || ago > time.Hour {
			t.Errorf("%s saw it %s ago", w.Witness, ago)
		}
		names = append(names, w.Witness)
	}
	return names
}

func TestWitnessed(t *testing.T) {
	state := t.TempDir()
	w1, stop1 := witness(t, "w1", state, key(t))
	w2, _ := witness(t, "w2", state, key(t))
	store := open(t)
	both := begin(t, store, w1, w2, "group both all w1 w2", "quorum both")
	for i := range 5 {
		both.post(t, fmt.Sprint("post_", i))
	}
	check.WantEqual(t, both.seen(t, "post_4"), []string{"w1", "w2"})
	// One is away: the other goes on, and nothing new is accepted until that one is back, with what it knows.
	stop1()
	check.Must(t, store.Begin(t.Context(), ledger.Record{ID: "post_5", Flow: "post", Started: time.Now()}))
	check.Must(t, both.Publish(t.Context()))
	<-both.failures
	_, err := translog.Prove(t.Context(), store, leaf.ID(leaf.Intent, "post_5"))
	check.WantCode(t, err, "log_unwitnessed")
	w1, _ = witness(t, "w1", state, key(t))
	again := begin(t, store, w1, w2, "group both all w1 w2", "quorum both") // another process with the same ledger
	check.Must(t, again.Wait(t.Context(), leaf.ID(leaf.Intent, "post_5")))
	again.post(t, "post_6")
	check.WantEqual(t, again.seen(t, "post_5"), []string{"w1", "w2"})
}

// day is what a log holds: heartbeats, and a session with five posts.
func day() (all []ledger.Leaf) {
	add := func(kind leaf.Kind, name string, d leaf.Document) {
		at := time.Now().Add(time.Duration(len(all)) * time.Second)
		all = append(all, leaf.New(kind, at, d).Leaf(name))
	}
	add(leaf.SessionOpened, "ses_1", leaf.Document{Session: "ses_1"})
	for i := range 5 {
		id := fmt.Sprint("post_", i)
		add(leaf.Heartbeat, fmt.Sprint(i), leaf.Document{})
		add(leaf.Intent, id, leaf.Document{Post: id})
		add(leaf.Outcome, id, leaf.Document{Post: id, State: "forwarded", Status: 201})
	}
	add(leaf.SessionClosed, "ses_1", leaf.Document{Session: "ses_1"})
	return all
}

// TestRebuilt: a witness does not cosign a log that was changed, not even if the log's own key signs it. Torchwood
// finds another entry, or none, in the place of one that was proven.
func TestRebuilt(t *testing.T) {
	w, _ := witness(t, "w", t.TempDir(), key(t))
	honest := day()
	l := begin(t, open(t), w, "quorum w")
	check.Must(t, l.store.AddLeaves(t.Context(), honest...))
	for _, f := range honest {
		check.Must(t, l.Wait(t.Context(), f.ID))
	}
	is := func(id string) int { return slices.IndexFunc(honest, func(f ledger.Leaf) bool { return f.ID == id }) }
	without := func(out func(f ledger.Leaf) bool) []ledger.Leaf { return slices.DeleteFunc(slices.Clone(honest), out) }
	with := func(id string, other leaf.Opening) []ledger.Leaf {
		changed := slices.Clone(honest)
		changed[is(id)] = other.Leaf(strings.Fields(id)[1])
		return changed
	}
	swapped := slices.Clone(honest)
	one, two := is("intent post_1"), is("intent post_2")
	swapped[one], swapped[two] = swapped[two], swapped[one]
	post := leaf.Document{Post: "post_2"}
	for name, leaves := range map[string][]ledger.Leaf{
		"a post is gone": without(func(f ledger.Leaf) bool { return strings.HasSuffix(f.ID, " post_2") }),
		"an outcome is another": with("outcome post_2",
			leaf.New(leaf.Outcome, time.Now(), leaf.Document{Post: "post_2", State: "failed"})),
		"a post is backdated":    with("intent post_2", leaf.New(leaf.Intent, time.Now().Add(-time.Hour), post)),
		"two are swapped":        swapped,
		"a session has no end":   without(func(f ledger.Leaf) bool { return f.ID == "session-closed ses_1" }),
		"heartbeats are gone":    without(func(f ledger.Leaf) bool { return strings.HasPrefix(f.ID, "heartbeat") }),
		"it is an older state":   honest[:5],
		"it begins from nothing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			if len(leaves) > 5 { // a longer log, as if it had gone on
				for i := range 30 {
					leaves = append(leaves, leaf.New(leaf.Heartbeat, time.Now(), leaf.Document{}).Leaf(fmt.Sprint("more ", i)))
				}
			}
			check.Must(t, store.AddLeaves(t.Context(), leaves...))
			other := begin(t, store, w, "quorum w")
			check.WantCode(t, <-other.failures, "log_contradicted")
			s, err := other.Status(t.Context())
			if err != nil || s.Accepted.Note != "" {
				t.Errorf("got %+v, %v", s, err)
			}
			head, _, _ := strings.Cut(s.Signed.Note, "\n\n")
			c, err := torchwood.ParseCheckpoint(head + "\n")
			check.Must(t, err)
			server := httptest.NewServer(translog.Handler(store))
			defer server.Close()
			theirs, err := torchwood.NewClient(translog.Fetch(server.Client(), server.URL))
			check.Must(t, err)
			if !slices.ContainsFunc(honest, func(f ledger.Leaf) bool {
				proven, err := l.store.Leaf(t.Context(), f.ID)
				check.Must(t, err)
				entry, _, err := theirs.Entry(t.Context(), c.Tree, proven.Index)
				return err != nil || string(entry) != f.Entry
			}) {
				t.Error("torchwood finds each entry in its place")
			}
		})
	}
	l.post(t, "post_5") // the true one goes on
}

// TestPublicConfig: a witness that fetches a list of logs, as docs/operations/log.md shows it, cosigns ours.
func TestPublicConfig(t *testing.T) {
	list := filepath.Join(t.TempDir(), "logs.txt")
	check.Must(t, os.WriteFile(list, fmt.Appendf(nil, "logs/v0\nvkey %s\n", key(t)), 0o600))
	server := httptest.NewServer(http.FileServerFS(os.DirFS(filepath.Dir(list))))
	t.Cleanup(server.Close)
	w, _ := runWitness(t, "w", t.TempDir(), omniwitness.OperatorConfig{
		WitnessNetworkConfigURLs: []string{server.URL + "/logs.txt"}})
	l := begin(t, open(t), w, "quorum w")
	l.post(t, "post_0")
	check.WantEqual(t, l.seen(t, "post_0"), []string{"w"})
}

func TestUnknown(t *testing.T) {
	other, err := translog.NewKey("log.example/other", make([]byte, ed25519.PublicKeySize), nil)
	check.Must(t, err)
	w, _ := witness(t, "w", t.TempDir(), other)
	l := begin(t, open(t), w, "quorum w")
	if err := <-l.failures; !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

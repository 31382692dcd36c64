package verification_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	stded25519 "crypto/ed25519"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type rig struct {
	*testing.T
	clock   *clock
	store   *verification.Store
	signer  verification.Signer
	service *verification.Service
}

func newRig(t *testing.T, o verification.Options) *rig {
	t.Helper()
	r := &rig{T: t, clock: &clock{now: noon}}
	kept, err := verification.Open(t.Context(), filepath.Join(t.TempDir(), "v.db"), "", r.clock.Now)
	check.Must(t, err)
	t.Cleanup(func() { _ = kept.Close() })
	r.store = kept
	key, err := custody.NewMemory("appraiser-key")
	check.Must(t, err)
	if r.signer, err = signer.New(verification.Kind, key, signer.Options{
		Issuer: "node", Audience: "policy", Lifetime: verification.Lifetime, Now: r.clock.Now,
	}); err != nil {
		t.Fatal(err)
	}
	r.service = r.replica(o)
	return r
}

func (r *rig) replica(o verification.Options) *verification.Service {
	r.Helper()
	s, err := verification.New(r.store, r.signer, o)
	check.Must(r, err)
	return s
}

type agent struct {
	t       *testing.T
	pem     string
	private stded25519.PrivateKey
	by      verification.Caller
	s       *verification.Service
	clock   *clock

	session verification.Session
	turns   []verification.Turn
	canary  string // of the turn before
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	public, private, err := stded25519.GenerateKey(nil)
	check.Must(t, err)
	return &agent{t: t, pem: spki(t, public), private: private,
		by: verification.Caller{Subject: "agent:" + hex.EncodeToString(public[:4])}}
}

func (r *rig) agent() *agent {
	r.Helper()
	return r.behind("")
}

func (r *rig) behind(session string) *agent {
	r.Helper()
	a := newAgent(r.T)
	a.s, a.clock, a.by.Session = r.service, r.clock, session
	a.start()
	return a
}

// tool returns a tool that the node serves, another one for each next number.
func tool(i int) string { return []string{verification.ToolSearch, verification.ToolServers}[i%2] }

func (a *agent) start() {
	a.t.Helper()
	var err error
	if a.session, err = a.s.Challenge(a.t.Context(), a.by, a.pem); err != nil {
		a.t.Fatal(err)
	}
	a.turns, a.canary = nil, ""
}

const topic = "The registry search shows which plugin and workflow exist, so governance, servers and execution of " +
	"agents can be compared; failure notices are missing. "

func (a *agent) call(tool, query string) verification.Turn {
	a.t.Helper()
	var out json.RawMessage
	var err error
	input := map[string]string{"sessionId": a.session.ID}
	if tool == verification.ToolSearch {
		input["query"] = query
		out, err = a.s.Search(a.t.Context(), a.by, a.session.ID, query)
	} else {
		out, err = a.s.List(a.t.Context(), a.by, a.session.ID)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	arguments, err := json.Marshal(input)
	if err != nil {
		a.t.Fatal(err)
	}
	return verification.Turn{
		ToolCall: tool, Input: string(arguments), Output: string(out), Timestamp: a.clock.Now().UnixMilli(),
		Reasoning: topic + tool + " " + a.canary,
	}
}

func canaryOf(t verification.Turn) string {
	var out struct{ Canary string }
	_ = json.Unmarshal([]byte(t.Output), &out)
	return out.Canary
}

func (a *agent) submit(turn verification.Turn) error {
	previous := verification.ChainSeed
	if n := len(a.turns); n > 0 {
		previous = a.turns[n-1].Hash
	}
	turn.Hash = turn.HashAfter(previous)
	s, err := a.s.Turn(a.t.Context(), a.by, a.session.ID, turn)
	if err != nil {
		return err
	}
	a.session, a.turns, a.canary = s, append(a.turns, turn), canaryOf(turn)
	return nil
}

func (a *agent) mustSubmit(turn verification.Turn) {
	a.t.Helper()
	if err := a.submit(turn); err != nil {
		a.t.Fatalf("turn %d: %v", len(a.turns)+1, err)
	}
}

func (a *agent) walk(between time.Duration) {
	a.t.Helper()
	for i := 0; a.session.FollowUp == nil; i++ {
		a.mustSubmit(a.call(tool(i), fmt.Sprint("query ", i)))
		a.clock.pass(between)
	}
	a.followUp()
}

var drawn = regexp.MustCompile(`with the query ([0-9a-f]{8})\.`)

func (a *agent) followUp() {
	a.t.Helper()
	a.mustSubmit(a.answer())
	if a.session.Answered.Step == 0 {
		a.t.Fatal("the follow-up is not answered")
	}
}

func (a *agent) answer() verification.Turn {
	a.t.Helper()
	prompt, tool, query := a.session.FollowUp.Prompt, verification.ToolServers, ""
	if m := drawn.FindStringSubmatch(prompt); m != nil {
		tool, query = verification.ToolSearch, m[1]
	}
	turn := a.call(tool, query)
	turn.Reasoning += " " + canaryOf(turn)
	return turn
}

func (a *agent) trace() verification.Trace {
	var hashes []string
	for _, turn := range a.turns {
		hashes = append(hashes, turn.Hash)
	}
	root := verification.MerkleRoot(hashes)
	return verification.Trace{SessionID: a.session.ID, Turns: a.turns, MerkleRoot: root,
		Attestation: verification.Attestation(root, a.session.ID)}
}

func (a *agent) registration() verification.Registration {
	return verification.Registration{
		PEM: a.pem, Payload: "payload", Signature: a.sign(a.session.Nonce + "|payload"), Nonce: a.session.Nonce,
		Trace:    a.trace(),
		Metadata: verification.Metadata{Name: "plugin of " + a.by.Subject},
	}
}

func (a *agent) register() (verification.Registered, error) {
	return a.s.Register(a.t.Context(), a.by, a.registration())
}

func (a *agent) passes() verification.Registered {
	a.t.Helper()
	got, err := a.register()
	if err != nil || got.Token == "" {
		a.t.Fatal(err, got.Verdict)
	}
	return got
}

func (a *agent) wantViolations(r verification.Registration, want ...string) verification.Registered {
	a.t.Helper()
	got, err := a.s.Register(a.t.Context(), a.by, r)
	if err != nil {
		a.t.Fatal(err)
	}
	if got.Token != "" || fmt.Sprint(got.Verdict.Violations) != fmt.Sprint(want) {
		a.t.Errorf("violations %v, want %v; token %q", got.Verdict.Violations, want, got.Token)
	}
	a.wantState(verification.Failed)
	return got
}

func (a *agent) wantState(want verification.State) {
	a.t.Helper()
	_, err := a.s.Turn(context.Background(), a.by, a.session.ID, verification.Turn{ToolCall: "x"})
	switch {
	case want == verification.Expired && is(err, "verification_closed"):
	case want.Final() && is(err, "verification_closed") && strings.Contains(err.Error(), string(want)):
	case !want.Final() && is(err, "verification_turn"):
	default:
		a.t.Errorf("want state %s, got %v", want, err)
	}
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func byHand(v seedVectors, n int) string {
	hash := func(parts ...string) string {
		sum := sha256.Sum256([]byte(strings.Join(parts, "")))
		return string(sum[:])
	}
	previous := verification.ChainSeed
	var leaves []string
	for _, turn := range v.Turns[:n] {
		leaves = append(leaves, hash("\x00", string(verification.TextOf(turn, previous))))
		previous = turn.Hash
	}
	root := leaves[0]
	if n > 1 {
		root = hash("\x01", leaves[0], leaves[1])
	}
	if n > 2 {
		root = hash("\x01", root, leaves[2])
	}
	return hex.EncodeToString([]byte(root))
}

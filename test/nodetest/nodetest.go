// Package nodetest makes nodes for tests, and the requests of sidecars and agents.
package nodetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

const (
	// Host is the model host that the node trusts.
	Host = "api.openai.com:443"
	// Audience is the node's, in caller tokens.
	Audience = "node"
	// Salt is the salt of [Plan].
	Salt = "AAAAAAAAAAAAAAAAAAAAAA"
)

// Node is a service with one owner, whose receipts the kit makes.
type Node struct {
	*reputation.Service
	Kit   *gatetest.Kit
	Store *store.Store
}

// New makes a node on a store, or on a new SQLite file if s is nil.
func New(t testing.TB, k *gatetest.Kit, s *store.Store, edits ...func(*reputation.Options)) *Node {
	t.Helper()
	k.Observe(t)
	k.Speak(t)
	if s == nil {
		var err error
		s, err = store.Open(context.Background(), filepath.Join(t.TempDir(), "reputation.db"), "")
		must(t, err)
		t.Cleanup(func() { s.Close() })
	}
	o := reputation.Options{Store: s, Believed: Believed(t, k), Score: k.Appraiser(t),
		Reputation: gatetest.Signer(t, k, accrual.Kind), Now: k.Clock.Now, Log: zap.NewNop()}
	o.Disputes = &reputation.Disputes{
		Rules: dispute.DefaultRules, Resolution: gatetest.Signer(t, k, dispute.ResolutionKind),
		Key: k.Custody(evidence.PurposeAppraiser), Audience: Audience,
		Registered: Registered(k.Clock.Now()),
	}
	for _, edit := range edits {
		edit(&o)
	}
	service, err := reputation.New(o)
	must(t, err)
	return &Node{service, k, s}
}

// Believed is the kit's owner with its current certificates.
func Believed(t testing.TB, k *gatetest.Kit, earlier ...string) reputation.Believed {
	t.Helper()
	callers := k.Strict.Interaction
	callers.Audiences, callers.MaxAge = []string{Audience}, interaction.CallerLifetime
	k.Speak(t)
	return reputation.Believed{Hosts: []string{Host}, Owners: []reputation.Owner{{
		ID: k.Owner(t), Name: "us", Past: k.Past(t, earlier...), Live: k.Verifier, Receipts: k.Strict.Interaction,
		Callers: callers, Statements: Statements(),
	}}}
}

// Registered reports every agent as registered for 30 days.
func Registered(now time.Time) func(context.Context, accrual.Agent) (time.Time, bool, error) {
	since := now.Add(-30 * 24 * time.Hour)
	return func(context.Context, accrual.Agent) (time.Time, bool, error) { return since, true, nil }
}

// Statements are the expectations for statements of the kit's sidecar.
func Statements() *evidence.Expected {
	return &evidence.Expected{
		Issuers: []string{"mediator-speaker"}, Audiences: []string{"posting-api"}, KeyIDs: []string{"agent-statement-key"},
		MaxAge: interaction.Lifetime,
	}
}

var must = check.Must

// Deliver delivers receipts of one session and returns the node's answer.
func (n *Node) Deliver(t testing.TB, tokens ...string) reputation.Received {
	t.Helper()
	all, err := n.Receive(context.Background(), tokens)
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	return all[0]
}

// Delivered delivers receipts that the node must accept.
func (n *Node) Delivered(t testing.TB, next int64, tokens ...string) {
	t.Helper()
	if r := n.Deliver(t, tokens...); r.Err != nil || r.Next != next {
		t.Fatalf("next %d, %v; want %d", r.Next, r.Err, next)
	}
}

// Calls makes a session with n calls.
func (n *Node) Calls(t testing.TB, id string, calls int) *gatetest.Session {
	t.Helper()
	s := n.Kit.Session(t, id)
	for range calls {
		s.Call(t, nil)
	}
	return s
}

// Count returns the number of kept receipts of a session.
func (n *Node) Count(t testing.TB, session string) int {
	t.Helper()
	all, err := n.Store.Receipts(context.Background(), n.Kit.Owner(t), session, 1, store.MaxReceipts)
	must(t, err)
	for i, r := range all {
		if r.Number != int64(i)+1 {
			t.Fatalf("receipt %d has the number %d", i+1, r.Number)
		}
	}
	return len(all)
}

// Logged gives an agent of the kit's owner a log with one session.
func (n *Node) Logged(t testing.TB, subject string) {
	t.Helper()
	Log(t, n.Store, accrual.Agent{Owner: n.Kit.Owner(t), Subject: subject}, n.Kit.Clock.Now(), 1, 50)
}

// Log gives an agent a log of sessions with the same score, each with its own event and one receipt.
func Log(t testing.TB, s *store.Store, agent accrual.Agent, at time.Time, sessions int, score float64) {
	t.Helper()
	ctx := context.Background()
	a, err := accrual.NewAccount(agent, autonomy.ScoringHash)
	must(t, err)
	before, err := s.Entries(ctx, agent.String(), 1)
	must(t, err)
	for _, e := range before {
		was, err := accrual.ParseEntry([]byte(e.Text))
		must(t, err)
		_, err = a.Add(was)
		must(t, err)
	}
	for i := range sessions {
		of := fmt.Sprint(agent.Subject, "_", len(before)+i)
		e := accrual.Entry{At: at.Unix(), Session: &accrual.Session{
			ID: "ses_" + of, EventID: "evt_" + of, Score: score, Coverage: 1, ScoringHash: autonomy.ScoringHash, Interactions: 1,
			Hosts: []string{Host},
		}}
		_, err = a.Add(e)
		must(t, err)
		text, err := e.Encode()
		must(t, err)
		must(t, s.Append(ctx, store.Addition{
			Owner: agent.Owner, Session: e.Session.ID, Agent: agent.Subject, Closing: true, At: at, MaxSessions: 1 << 20,
			MaxReceipts: 1 << 20,
			Receipts:    []store.Receipt{{Number: 1, Hash: evidence.HashBytes(text), Request: "r", Token: "t"}},
		}))
		state, err := s.Session(ctx, agent.Owner, e.Session.ID)
		must(t, err)
		must(t, s.Enter(ctx, state, nil,
			&store.Entry{Agent: agent.String(), Number: a.Log().Entries, Head: a.Log().Head, Text: string(text)}))
	}
}

// Sampled enters the closed sessions, and makes baselines.
func (n *Node) Sampled(t testing.TB) {
	t.Helper()
	must(t, errors.Join(n.Enter(t.Context()), n.Baselines(t.Context())))
}

// Resigned returns a token with the signature of another.
func Resigned(token, other string) string {
	return token[:strings.LastIndexByte(token, '.')] + other[strings.LastIndexByte(other, '.'):]
}

// CallerToken signs a caller token, after edit.
func (n *Node) CallerToken(t testing.TB, session, path string, body []byte, edit func(*interaction.Caller)) string {
	t.Helper()
	k := n.Kit
	c := interaction.Caller{
		Registered: evidence.NewRegistered(k.Issuer(evidence.PurposeInteraction), Audience, k.Clock.Now(), time.Minute),
		KeyClaims:  evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
		Agent:      "agent:worker-1", Owner: k.Owner(t), Session: session, EventID: "evt_1", Method: http.MethodPost,
		Path: path, BodyHash: evidence.HashBytes(body),
	}
	if edit != nil {
		edit(&c)
	}
	token, err := evidence.Sign(context.Background(), k.Key(t, evidence.PurposeInteraction), interaction.CallerKind, c)
	must(t, err)
	return token
}

// By returns the agent in a session.
func (n *Node) By(t testing.TB, session string) reputation.Caller {
	return reputation.Caller{Owner: n.Kit.Owner(t), Agent: "agent:worker-1", Session: session, EventID: "evt_1"}
}

// Plan returns a strategy that fits the calls of [gatetest.Session.Call], and its commitment.
func Plan(t testing.TB, nonce string, edit func(*strategy.Strategy)) (raw json.RawMessage, hash string) {
	t.Helper()
	s := strategy.Strategy{Tools: []string{"search"}, Hosts: []string{Host}, Model: "gpt-5",
		Calls: strategy.Calls{Min: 1, Max: 100}}
	if edit != nil {
		edit(&s)
	}
	raw, err := json.Marshal(s)
	must(t, err)
	hash, err = strategy.Commitment(nonce, Salt, s)
	must(t, err)
	return raw, hash
}

// Scored returns the claims of the score of a session.
func (n *Node) Scored(t testing.TB, session string) autonomy.Claims {
	t.Helper()
	answer, err := n.SessionScore(context.Background(), "", session)
	must(t, err)
	c, err := evidence.UnverifiedClaims(autonomy.Kind, answer.Token)
	must(t, err)
	return c
}

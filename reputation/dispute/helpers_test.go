package dispute_test

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

const begin = int64(1_800_000_000)

// Agents: two of one owner, and one each of two others.
var (
	alice = agentOf("a", "agent:alice")
	anna  = agentOf("a", "agent:anna")
	bob   = agentOf("b", "agent:bob")
	carol = agentOf("c", "agent:carol")
)

func agentOf(owner, subject string) string { return strings.Repeat(owner, 43) + ":" + subject }

func hashOf(what ...any) string { return evidence.HashBytes(fmt.Append(nil, what...)) }

func keyOf(seed string) (ed25519.PrivateKey, string) {
	private := ed25519.NewKeyFromSeed([]byte((seed + strings.Repeat(".", 32))[:32]))
	return private, evidence.DIDKey(private.Public().(ed25519.PublicKey))
}

func signalOf(agent, id string, at int64) dispute.Signal {
	return dispute.Signal{SignalID: id, AgentID: agent, Statement: "it will rain", Horizon: dispute.HorizonShort,
		Timestamp: at}
}

func contractOf(challenger, id, signal string, at int64) dispute.Filing {
	return dispute.Filing{Contract: &dispute.Contract{
		ChallengeID: id, OriginalSignalID: signal, ChallengerAgentID: challenger, CounterClaim: "it will not",
		ReasoningTrace: "the sky is blue, says " + id, Timestamp: at,
	}}
}

func challengeOf(challenger, target, kind string, receipts ...string) dispute.Filing {
	return dispute.Filing{
		Challenge: &dispute.Challenge{ChallengerID: challenger, TargetID: target, TargetReceipts: receipts,
			ChallengeType: kind}}
}

type node struct {
	t     testing.TB
	book  *dispute.Book
	now   time.Time
	rules dispute.Rules
	by    dispute.By // of the sender
	log   []dispute.Entry
	// accounts are the entries of agents' logs, by agent.
	accounts map[string][]accrual.Entry
}

func newNode(t testing.TB) *node {
	return &node{
		t: t, book: dispute.NewBook(), now: time.Unix(begin, 0), rules: dispute.DefaultRules,
		by:       dispute.By{Registered: time.Unix(begin-30*86400, 0)},
		accounts: map[string][]accrual.Entry{},
	}
}

func (n *node) enter(e dispute.Entry) {
	n.t.Helper()
	raw, err := e.Encode()
	check.Must(n.t, err)
	e, err = dispute.ParseEntry(raw)
	check.Must(n.t, err)
	would, err := n.book.Next(e)
	check.Must(n.t, err)
	read, err := n.book.Read(raw)
	check.Must(n.t, err)
	check.WantEqual(n.t, read, would)
	if _, err := n.book.Read(append(raw, ' ')); err == nil {
		n.t.Error("another spelling of an entry is read")
	}
	s, err := n.book.Add(e)
	check.Must(n.t, err)
	check.WantEqual(n.t, s, would)
	n.log = append(n.log, e)
	for _, a := range s.Accounts {
		n.accounts[a.Agent.String()] = append(n.accounts[a.Agent.String()], a.Entry)
	}
}

func (n *node) sleep(d time.Duration) *node {
	n.now = n.now.Add(d)
	return n
}

func (n *node) publish(agent, id string) *node {
	n.t.Helper()
	e, err := n.book.Publish(n.rules, dispute.Publication{Signal: signalOf(agent, id, n.now.Unix()), By: n.by}, n.now)
	check.Must(n.t, err)
	n.enter(*e)
	return n
}

func (n *node) receipts(f dispute.Filing) (all []dispute.Known) {
	target := ""
	if f.Challenge != nil {
		target = f.Challenge.TargetID
	} else if s, ok := n.book.Signal(f.Contract.OriginalSignalID); ok {
		target = s.Agent
	}
	for _, hash := range n.book.Named(f) {
		all = append(all, dispute.Known{Hash: hash, Agent: target, Session: "ses_1", At: n.now.Unix()})
	}
	return all
}

func (n *node) file(f dispute.Filing) (string, error) {
	n.t.Helper()
	return n.filed(dispute.Filed{Filing: f, By: n.by, Receipts: n.receipts(f)})
}

func (n *node) filed(f dispute.Filed) (string, error) {
	n.t.Helper()
	id, e, err := n.book.File(n.rules, f, n.now)
	if e != nil {
		n.enter(*e)
	}
	return id, err
}

func (n *node) open(f dispute.Filing) string {
	n.t.Helper()
	id, err := n.file(f)
	check.Must(n.t, err)
	return id
}

func (n *node) end(id, outcome string) *node {
	n.t.Helper()
	n.enter(n.book.End(id, dispute.Finding{Outcome: outcome, Reason: "because", Inputs: []string{hashOf("input")}},
		n.now))
	return n
}

func (n *node) fell(id, fault string) *node {
	n.t.Helper()
	r := &dispute.Resolved{DisputeID: id, Resolver: dispute.ResolverRules,
		Finding: dispute.Finding{Outcome: accrual.ChallengerWins, Reason: "because", Fault: fault,
			Inputs: []string{hashOf(id)}}}
	if fault == "" {
		r.Resolver, r.Decisions = dispute.ResolverArbiter, n.vote(id, "arbiter:v1", accrual.ChallengerWins)
	}
	n.enter(dispute.Entry{At: n.book.Time(n.now), Resolved: r})
	return n
}

// vote notes an arbiter's decision and returns its hash.
func (n *node) vote(id, arbiter, outcome string) []string {
	n.t.Helper()
	v := &dispute.Voted{DisputeID: id, Arbiter: arbiter, Decision: hashOf(id, arbiter, outcome), Outcome: outcome,
		Reason: "because"}
	n.enter(dispute.Entry{At: n.book.Time(n.now), Voted: v})
	return []string{v.Decision}
}

func (n *node) finalise() *node {
	n.t.Helper()
	for _, one := range n.book.Closing(n.now, math.MaxInt) {
		n.enter(n.book.Finalise(one.ID, n.now))
	}
	return n
}

// unresolved returns the ids of the unresolved disputes.
func (n *node) unresolved() (ids []string) {
	for _, e := range n.log {
		if e.Opened == nil {
			continue
		}
		if d, _ := n.book.Dispute(e.Opened.DisputeID); d.Status != dispute.StatusResolved {
			ids = append(ids, d.DisputeID)
		}
	}
	slices.Sort(ids)
	return ids
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	raw, err := strictjson.CanonicalOf(v)
	check.Must(t, err)
	return string(raw)
}

func sign(t testing.TB, key ed25519.PrivateKey, d dispute.Document) string {
	t.Helper()
	text, err := dispute.Unsigned(d)
	check.Must(t, err)
	return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, text))
}

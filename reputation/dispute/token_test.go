package dispute_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type offline struct{ private ed25519.PrivateKey }

func (offline) KeyID() string { return "arbiter:v1" }

func (k offline) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(k.private, message), nil
}

func (k offline) public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

func arbiter(t testing.TB, now time.Time) (offline, *evidence.Verifier, evidence.Expected) {
	t.Helper()
	private, _ := keyOf("arbiter")
	k := offline{private}
	trust, err := evidence.NewTrust(
		[]evidence.Root{{KeyID: k.KeyID(), Public: k.public(), Purpose: evidence.PurposeArbiter}}, evidence.Bundle{},
		evidence.SignerPolicy{})
	check.Must(t, err)
	v, err := evidence.NewVerifier(trust, evidence.VerifierOptions{Now: func() time.Time { return now }})
	check.Must(t, err)
	return k, v,
		evidence.Expected{Issuers: []string{k.KeyID()}, Audiences: []string{"node"}, KeyIDs: []string{k.KeyID()},
			MaxAge: dispute.DecisionLifetime}
}

func decide(t testing.TB, k offline, d dispute.State, at int64, edit func(*dispute.Decision)) (string, error) {
	t.Helper()
	c := dispute.Decision{
		Registered: evidence.Registered{Issuer: k.KeyID(), Audience: "node", ID: "jti", IssuedAt: at, Expires: at + 3600},
		DisputeID:  d.DisputeID, Document: d.Document, Outcome: wins, Reason: "the post was written by hand",
	}
	if edit != nil {
		edit(&c)
	}
	return evidence.Sign(t.Context(), k, dispute.DecisionKind, c)
}

func TestVote(t *testing.T) {
	for name, c := range map[string]struct {
		kind       string
		challenger string
		wait       time.Duration
		other      bool   // the decision is about another dispute
		party      bool   // the arbiter's key is the challenger's
		accused    bool   // the arbiter's key is the target's
		owner      string // that the arbiter works for
		code       string
	}{
		"a decision":                    {kind: "general", challenger: bob},
		"in the last second":            {kind: "general", challenger: bob, wait: 72*time.Hour - time.Second},
		"too late":                      {kind: "general", challenger: bob, wait: 72 * time.Hour, code: "dispute_closed"},
		"of what receipts decide":       {kind: "timing", challenger: bob, code: "dispute_refused"},
		"about another":                 {kind: "general", challenger: bob, other: true, code: "dispute_refused"},
		"by the key of the challenger":  {kind: "general", party: true, code: "dispute_refused"},
		"by the key of the target":      {kind: "general", challenger: bob, accused: true, code: "dispute_refused"},
		"by the key of its own owner's": {kind: "general", challenger: "owner", code: "dispute_refused"},
		"for the challenger's owner": {kind: "general", challenger: bob, owner: dispute.OwnerOf(bob),
			code: "dispute_refused"},
		"for the target's owner": {kind: "general", challenger: bob, owner: dispute.OwnerOf(anna), code: "dispute_refused"},
		"for another owner":      {kind: "general", challenger: bob, owner: dispute.OwnerOf(carol)},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			k, v, want := arbiter(t, n.now.Add(c.wait))
			switch {
			case c.party:
				_, c.challenger = keyOf("arbiter")
			case c.challenger == "owner":
				c.challenger = interaction.Owner(k.public()) + ":agent:worker-1"
			}
			target := alice
			if c.accused {
				_, target = keyOf("arbiter")
			}
			court := dispute.Court{First: dispute.Panel{{Root: evidence.Root{KeyID: k.KeyID(), Public: k.public()}, Owner: c.owner}}}
			id := n.open(challengeOf(c.challenger, target, c.kind, hashOf(1)))
			d, _ := n.book.Dispute(id)
			about := d
			if c.other {
				about.Document = hashOf("other")
				about.DisputeID = dispute.DisputeID(about.Document)
			}
			n.sleep(c.wait)
			token, err := decide(t, k, about, n.now.Unix(), nil)
			check.Must(t, err)
			o, err := evidence.Open(v, dispute.DecisionKind, token, want)
			check.Must(t, err)
			e, err := n.book.Vote(id, court, o, n.now)
			if c.code != "" {
				check.WantCode(t, err, c.code)
				return
			}
			check.Must(t, err)
			if _, ok := n.book.Decided(id, court, n.rules, n.now); ok {
				t.Error("it is decided before the vote")
			}
			n.enter(e)
			_, err = n.book.Vote(id, court, o, n.now)
			check.WantCode(t, err, "dispute_closed")
			for name, other := range map[string]dispute.Court{"no panel": {},
				"a panel without the arbiter": {First: dispute.Panel{{Root: evidence.Root{KeyID: "other"}}}}} {
				if _, ok := n.book.Decided(id, other, n.rules, n.now); ok {
					t.Errorf("%s decides", name)
				}
			}
			n.sleep(n.rules.Deadline) // a vote in time holds
			e, ok := n.book.Decided(id, court, n.rules, n.now)
			check.WantEqual(t, ok, true)
			n.enter(e)
			d, _ = n.book.Dispute(id)
			check.WantEqual(t, d.Resolved, dispute.Resolved{
				DisputeID: id, Resolver: "arbiter", Decisions: []string{evidence.HashToken(token)},
				Finding: dispute.Finding{Outcome: wins, Reason: "the post was written by hand", Inputs: []string{d.Document}},
			})
			check.WantEqual(t, d.Has(o.Hash()), true)
			_, err = n.book.Vote(id, court, o, n.now)
			check.WantCode(t, err, "dispute_closed")
			_, err = n.book.Vote(dispute.DisputeID(hashOf(1)), court, o, n.now)
			check.WantCode(t, err, "not_found")
		})
	}
}

// TestDecisionsThatNoArbiterMakes: what the golden vectors do not show.
func TestDecisionsThatNoArbiterMakes(t *testing.T) {
	n := newNode(t)
	k, _, _ := arbiter(t, n.now)
	id := n.open(challengeOf(bob, alice, "general", hashOf(1)))
	d, _ := n.book.Dispute(id)
	for name, edit := range map[string]func(*dispute.Decision){
		"another outcome":            func(c *dispute.Decision) { c.Outcome = "draw" },
		"a long reason":              func(c *dispute.Decision) { c.Reason = strings.Repeat("é", 513) },
		"no dispute":                 func(c *dispute.Decision) { c.DisputeID = "" },
		"a malicious one that won":   func(c *dispute.Decision) { c.Malicious = true },
		"a document that is no hash": func(c *dispute.Decision) { c.Document = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decide(t, k, d, begin, edit)
			check.WantCode(t, err, "artifact_malformed")
		})
	}
}

func resolution(t testing.TB) dispute.Resolution {
	n := newNode(t)
	id := n.open(challengeOf(bob, alice, "timing", hashOf(1)))
	d, _ := n.book.Dispute(id)
	if _, ok := dispute.ResolutionOf(d); ok {
		t.Error("a dispute that is open has a resolution")
	}
	n.sleep(time.Minute).end(id, wins)
	d, _ = n.book.Dispute(id)
	c, ok := dispute.ResolutionOf(d)
	if !ok {
		t.Fatal("there is no resolution")
	}
	dispute.ResolutionKind.Stamp(&c,
		evidence.NewRegistered("mediator-appraiser", "posting-api", gatetest.Start, time.Hour),
		evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
	return c
}

func TestResolution(t *testing.T) {
	k := gatetest.New(t, gatetest.Autonomous)
	k.Appraise(t)
	key := k.Key(t, evidence.PurposeAppraiser)
	longest := resolution(t)
	longest.Challenger, longest.Target = strings.Repeat("b", 43)+":"+strings.Repeat("é", 128),
		strings.Repeat("a", 43)+":"+strings.Repeat("\x01", 256)
	longest.SignalID, longest.Reason, longest.Type, longest.Resolver = strings.Repeat("a", 128),
		strings.Repeat("\x01", 512), "general", "arbiter"
	for i := range dispute.MaxArbiters {
		longest.Decisions = append(longest.Decisions, fmt.Sprintf("%064x", i))
	}
	for i := range 48 {
		longest.Inputs = append(longest.Inputs[:i:i],
			strings.Repeat("0", 62)+string(rune('a'+i/16%3))+string("0123456789abcdef"[i%16]))
	}
	for name, c := range map[string]dispute.Resolution{"one": resolution(t), "the longest": longest} {
		t.Run(name, func(t *testing.T) {
			dispute.ResolutionKind.Stamp(&c,
				evidence.NewRegistered("mediator-appraiser", "posting-api", k.Clock.Now(), time.Hour),
				evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator})
			token, err := evidence.Sign(t.Context(), key, dispute.ResolutionKind, c)
			check.Must(t, err)
			o, err := evidence.Open(k.Verifier, dispute.ResolutionKind, token, k.Strict.Autonomy.Expected)
			check.Must(t, err)
			check.WantEqual(t, o.Claims(), c)
		})
	}
}

// FuzzResolution: parsed claims are a resolution and are encoded as they were.
func FuzzResolution(f *testing.F) {
	k := gatetest.New(f, gatetest.Autonomous)
	k.Appraise(f)
	key := k.Key(f, evidence.PurposeAppraiser)
	token, err := evidence.Sign(f.Context(), key, dispute.ResolutionKind, resolution(f))
	check.Must(f, err)
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	check.Must(f, err)
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		token := gatetest.Forge(t, key, `{"alg":"EdDSA","kid":"appraiser-key:v1","typ":"dispute-resolution+jwt"}`, raw)
		c, err := evidence.UnverifiedClaims(dispute.ResolutionKind, token)
		if err != nil {
			return
		}
		if again, err := evidence.Sign(t.Context(), key, dispute.ResolutionKind, c); err != nil || again != token {
			t.Errorf("%s is written as %s, %v", token, again, err)
		}
		if c.Challenger == c.Target || c.Outcome == accrual.ChallengerWins && c.Malicious {
			t.Errorf("%+v", c)
		}
	})
}

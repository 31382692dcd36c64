package reputation_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestChallenge(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ctx, by := t.Context(), n.By(t, "ses_1")
	issued, err := n.Issue(ctx, by)
	must(t, err)
	if len(issued.Nonce) != 64 || issued.ExpiresAt-issued.IssuedAt != int64(reputation.ChallengeLifetime/time.Second) {
		t.Errorf("%+v", issued)
	}
	if again, err := n.Issue(ctx, by); err != nil || !reflect.DeepEqual(again, issued) {
		t.Errorf("%+v, %v", again, err)
	}
	raw, hash := nodetest.Plan(t, issued.Nonce, nil)
	_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw)
	wantCode(t, err, "commitment_refused")

	committed, err := n.Commit(ctx, by, issued.Nonce, hash)
	must(t, err)
	n.Kit.Clock.Advance(time.Hour)
	if again, err := n.Commit(ctx, by, issued.Nonce, hash); err != nil || again != committed {
		t.Errorf("%+v, %v", again, err)
	}
	_, err = n.Commit(ctx, by, issued.Nonce, evidence.HashBytes(nil))
	wantCode(t, err, "commitment_refused")
	_, err = n.Issue(ctx, by)
	wantCode(t, err, "commitment_refused")

	other, _ := nodetest.Plan(t, issued.Nonce, func(s *strategy.Strategy) { s.Model = "other" })
	_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, other)
	wantCode(t, err, "commitment_refused")
	_, err = n.Reveal(ctx, by, issued.Nonce, "AAAAAAAAAAAAAAAAAAAAAAAA", raw)
	wantCode(t, err, "commitment_refused")
	_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, json.RawMessage(`{"tools": []}`))
	wantCode(t, err, "query_malformed")
	revealed, err := n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw)
	must(t, err)
	if !revealed.Revealed || revealed.RevealedAt != n.Kit.Clock.Now().Unix() ||
		revealed.CommittedAt != committed.CommittedAt || revealed.Hash != hash {
		t.Errorf("%+v", revealed)
	}
	n.Kit.Clock.Advance(time.Hour)
	if again, err := n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw); err != nil || again != revealed {
		t.Errorf("%+v, %v", again, err)
	}
	next, err := n.Issue(ctx, by)
	must(t, err)
	if next.Nonce == issued.Nonce {
		t.Error("a nonce comes twice")
	}
}

func TestChallengesThatAreRefused(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ctx, by := t.Context(), n.By(t, "ses_1")
	issued, err := n.Issue(ctx, by)
	must(t, err)
	raw, hash := nodetest.Plan(t, issued.Nonce, nil)
	for name, other := range map[string]reputation.Caller{
		"owner":   {Owner: "other", Agent: by.Agent, Session: by.Session},
		"agent":   {Owner: by.Owner, Agent: "agent:other", Session: by.Session},
		"session": {Owner: by.Owner, Agent: by.Agent, Session: "ses_2"},
	} {
		_, err := n.Commit(ctx, other, issued.Nonce, hash)
		wantCode(t, err, "not_found")
		_, err = n.Reveal(ctx, other, issued.Nonce, nodetest.Salt, raw)
		wantCode(t, err, "not_found")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	_, err = n.Commit(ctx, by, issued.Nonce, strings.ToUpper(hash))
	wantCode(t, err, "query_malformed")
	n.Kit.Clock.Advance(reputation.ChallengeLifetime)
	_, err = n.Commit(ctx, by, issued.Nonce, hash)
	wantCode(t, err, "commitment_refused")
	for range reputation.MaxChallenges - 1 { // one that has expired uncommitted is not open, and counts
		_, err = n.Issue(ctx, by)
		must(t, err)
		n.Kit.Clock.Advance(reputation.ChallengeLifetime)
	}
	_, err = n.Issue(ctx, by)
	wantCode(t, err, "session_full")
}

func TestChallengeOfAClosedSession(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ctx := t.Context()
	for _, upTo := range []string{"issued", "committed", "revealed"} {
		by := n.By(t, "ses_"+upTo)
		issued, err := n.Issue(ctx, by)
		must(t, err)
		raw, hash := nodetest.Plan(t, issued.Nonce, nil)
		if upTo != "issued" {
			_, err = n.Commit(ctx, by, issued.Nonce, hash)
			must(t, err)
		}
		if upTo == "revealed" {
			_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw)
			must(t, err)
		}
		s := n.Calls(t, by.Session, 1)
		s.Close(t)
		n.Delivered(t, 3, s.Receipts...)
		_, err = n.Issue(ctx, n.By(t, by.Session))
		wantCode(t, err, "session_full")
		switch upTo {
		case "issued":
			_, err = n.Commit(ctx, by, issued.Nonce, hash)
			wantCode(t, err, "session_full")
		case "committed":
			_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw)
			wantCode(t, err, "session_full")
		case "revealed": // tried again, since the answer was lost
			_, err = n.Reveal(ctx, by, issued.Nonce, nodetest.Salt, raw)
			must(t, err)
		}
	}
}

func TestProbes(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ids := make(map[string]bool)
	for i := range 20 {
		session := fmt.Sprintf("ses_%d", i)
		issued, err := n.Issue(t.Context(), n.By(t, session))
		must(t, err)
		if len(issued.Probes) != 2*reputation.ProbePairs {
			t.Fatalf("%d probes", len(issued.Probes))
		}
		kept, err := n.Store.Challenges(t.Context(), n.Kit.Owner(t), session)
		must(t, err)
		check.WantEqual(t, kept[0].Asked, issued.Probes)
		prompts := make(map[string]string)
		for _, p := range issued.Probes {
			if ids[p.ID] || strings.ContainsAny(p.Prompt, "{}") {
				t.Errorf("%+v", p)
			}
			ids[p.ID], prompts[p.ID] = true, p.Prompt
		}
		for _, of := range kept[0].Probes {
			if of[0] == of[1] || prompts[of[0]] == "" || prompts[of[1]] == "" || prompts[of[0]] == prompts[of[1]] {
				t.Errorf("%q", of)
			}
		}
	}
}

func TestCaller(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	const path = "/v1/challenge/issue"
	body := []byte("{}")
	good := n.CallerToken(t, "ses_1", path, body, nil)
	for name, row := range map[string]struct {
		code, token, method, path string
		body                      []byte
	}{
		"none":           {"caller_invalid", "", "POST", path, body},
		"another token":  {"artifact_malformed", n.Calls(t, "ses_1", 1).Receipts[0], "POST", path, body},
		"another method": {"caller_invalid", good, "PUT", path, body},
		"another path":   {"caller_invalid", good, "POST", "/v1/challenge/commit", body},
		"another body":   {"caller_invalid", good, "POST", path, []byte(`{"a":1}`)},
		"another signature": {"signature_invalid", nodetest.Resigned(good, n.CallerToken(t, "ses_2", path, body, nil)),
			"POST", path, body},
		"another owner": {"owner_unknown", n.CallerToken(t, "ses_1", path, body, func(c *interaction.Caller) {
			c.Owner = strings.Repeat("o", 43)
		}), "POST", path, body},
		"of another node": {"not_allowed", n.CallerToken(t, "ses_1", path, body, func(c *interaction.Caller) {
			c.Audience = "other"
		}), "POST", path, body},
		"one that has ended": {"expired", n.CallerToken(t, "ses_1", path, body, func(c *interaction.Caller) {
			c.IssuedAt -= 70
			c.Expires -= 70
		}), "POST", path, body},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.Caller(t.Context(), row.token, row.method, row.path, row.body)
			wantCode(t, err, row.code)
		})
	}
	by, err := n.Caller(t.Context(), good, "POST", path, body)
	must(t, err)
	if by != n.By(t, "ses_1") {
		t.Errorf("%+v", by)
	}
	_, err = n.Caller(t.Context(), good, "POST", path, body)
	wantCode(t, err, "caller_invalid")
}

func TestBoundsOfAgents(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Limits.Calls, o.Limits.Challenges = 1, 2 })
	for i := range 2 {
		_, err := n.Issue(t.Context(), n.By(t, fmt.Sprint("ses_", i)))
		must(t, err)
	}
	_, err := n.Issue(t.Context(), n.By(t, "ses_2"))
	wantCode(t, err, "owner_full")

	call := func() error {
		_, err := n.Caller(t.Context(), n.CallerToken(t, "ses_1", "/", nil, nil), "POST", "/", nil)
		return err
	}
	for range 10 {
		must(t, call())
	}
	wantCode(t, call(), "rate_limited")
	s := n.Calls(t, "ses_1", 100) // receipts have a rate of their own
	n.Delivered(t, 101, s.Receipts...)
	must(t, call())
}

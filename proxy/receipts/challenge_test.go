package receipts_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
	"github.com/actionproof/mediator/proxy/receipts"
	"github.com/actionproof/mediator/test/check"
)

var (
	commitment = strings.Repeat("c1", 32)
	another    = strings.Repeat("c2", 32)
)

func wantChallenge(t *testing.T, what string, c interaction.Receipt, action, nonce, hash string, revealed bool) {
	t.Helper()
	want := interaction.ChallengeRef{ChallengeNonce: nonce, CommitmentHash: hash, CommitmentRevealed: revealed}
	if got := c.Challenge; (got == nil) != (nonce == "") || got != nil && *got != want {
		t.Errorf("%s tells of %+v, want %+v", what, got, want)
	}
	if c.ActionType != action {
		t.Errorf("%s is a %s, want %s", what, c.ActionType, action)
	}
}

func TestChallengeInReceipts(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	call := func() { r.mustAsk(c, hello).answer(t, answer) }
	c.Committed("n1", commitment) // there is no challenge yet
	call()
	c.Challenged("n1", nil)
	call()
	across := r.mustAsk(c, hello) // sent before the commitment, ended after it
	c.Revealed("n1", commitment)  // there is no commitment
	c.Committed("other", commitment)
	c.Committed("n1", commitment)
	c.Committed("n1", another)
	c.Challenged("n1", nil) // the same one again
	across.answer(t, answer)
	call()
	c.Revealed("n1", another)
	c.Revealed("other", commitment)
	call()
	p, rec := r.post(c)
	rec.State = ledger.StateForwarded
	p.EndPost(rec, time.Now())
	r.settled(c)
	c.Revealed("n1", commitment)
	call()
	c.Challenged("n2", nil)
	c.Revealed("n1", commitment)
	call()
	c.Committed("n2", another)
	c.Revealed("n2", another)
	c.Close(interaction.ClosedEnded)
	chain := r.read("ses_1", 9)
	const generic, response = interaction.ActionGeneric, interaction.ActionChallengeResponse
	wantChallenge(t, "before", chain[0], generic, "", "", false)
	wantChallenge(t, "after the challenge", chain[1], response, "n1", "", false)
	wantChallenge(t, "a call that was sent before the commitment", chain[2], response, "n1", "", false)
	wantChallenge(t, "after the commitment", chain[3], response, "n1", commitment, false)
	wantChallenge(t, "after what reveals nothing", chain[4], response, "n1", commitment, false)
	wantChallenge(t, "a post", chain[5], interaction.ActionComposePost, "n1", commitment, false)
	wantChallenge(t, "after it was revealed", chain[6], generic, "n1", commitment, true)
	wantChallenge(t, "after the next challenge", chain[7], response, "n2", "", false)
	wantChallenge(t, "the end", chain[8], generic, "n2", another, true)
}

func TestChallengeAsACallIsSent(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	c.Challenged("n1", nil)
	late := r.model(c, receipts.ModelRequest{})
	c.Committed("n1", commitment)
	must(t, late.Send(t.Context()))
	late.EndModel(ledger.StateFailed, inference.Interaction{}, time.Time{})
	wantChallenge(t, "the call", r.read("ses_1", 1)[0], interaction.ActionChallengeResponse, "n1", commitment, false)
}

func TestChallengeAfterACrash(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	c.Challenged("n1", nil)
	r.mustAsk(c, hello)
	c.Committed("n1", commitment)
	r.mustAsk(c, hello)
	c.Revealed("n1", commitment)
	r.crash()
	r.start()
	chain := r.read("ses_1", 3)
	wantChallenge(t, "the first call", chain[0], interaction.ActionChallengeResponse, "n1", "", false)
	wantChallenge(t, "the second call", chain[1], interaction.ActionChallengeResponse, "n1", commitment, false)
	wantChallenge(t, "the end", chain[2], interaction.ActionGeneric, "", "", false)
}

func (r *rig) probe(c *receipts.Chain, id string) (*receipts.Call, error) {
	r.Helper()
	call := r.model(c, receipts.ModelRequest{Probe: id})
	return call, call.Send(context.Background())
}

func TestProbes(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	if _, err := c.Probe("p1"); check.CodeOf(err) != "not_found" {
		t.Errorf("without a challenge: %v", err)
	}
	c.Challenged("n0", map[string]string{"old": "Q"})
	c.Challenged("n1", map[string]string{"p1": "Q1", "p2": "Q2", "p3": "Q3", "p4": "Q4"})
	if _, err := r.probe(c, "old"); check.CodeOf(err) != "not_found" {
		t.Errorf("of the challenge before: %v", err)
	}
	for _, tt := range []struct{ id, answer string }{{"p1", "The  Answer is\n42."}, {"p2", "the answer is 42"},
		{"p3", "the answer is 43"}} {
		if prompt, err := c.Probe(tt.id); err != nil || prompt != "Q"+tt.id[1:] {
			t.Errorf("%s: %q, %v", tt.id, prompt, err)
		}
		call, err := r.probe(c, tt.id)
		must(t, err)
		call.Answered(tt.answer)
		call.EndModel(ledger.StateForwarded, inference.Interaction{}, time.Time{})
		c.Challenged("n1", map[string]string{tt.id: "again"})
		if _, err := r.probe(c, tt.id); check.CodeOf(err) != "not_found" {
			t.Errorf("%s once more: %v", tt.id, err)
		}
	}
	plain := r.mustAsk(c, hello)
	plain.Answered("42") // it has no probe
	plain.answer(t, answer)
	chain := r.read("ses_1", 4)
	var tags []string
	for i, c := range chain[:3] {
		if p := c.Model.Probe; p == nil || p.ID != []string{"p1", "p2", "p3"}[i] || len(p.Answer) != 32 {
			t.Fatalf("receipt %d has the probe %+v", i+1, p)
		}
		tags = append(tags, c.Model.Probe.Answer)
	}
	if tags[0] != tags[1] || tags[0] == tags[2] || chain[3].Model.Probe != nil {
		t.Errorf("%v, %+v", tags, chain[3].Model.Probe)
	}
}

func TestProbeIsSentOnce(t *testing.T) {
	r := newRig(t)
	c := r.chain("ses_1")
	c.Challenged("n1", map[string]string{"p1": "Q1"})
	var mu sync.Mutex
	sent := 0
	calls := make([]*receipts.Call, 8)
	errs := make([]error, len(calls))
	for i := range calls {
		calls[i] = r.model(c, receipts.ModelRequest{Probe: "p1"})
	}
	var all sync.WaitGroup
	for i, call := range calls {
		all.Go(func() {
			if errs[i] = call.Send(t.Context()); errs[i] == nil {
				mu.Lock()
				defer mu.Unlock()
				sent++
				call.EndModel(ledger.StateForwarded, inference.Interaction{}, time.Time{})
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil && check.CodeOf(err) != "not_found" {
			t.Error(err)
		}
	}
	if sent != 1 {
		t.Errorf("the probe was sent %d times", sent)
	}
	r.read("ses_1", 1)
}

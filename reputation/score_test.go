package reputation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestScore(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	ctx := t.Context()
	_, err := n.Score(ctx, evidence.HashBytes(nil))
	wantCode(t, err, "not_found")
	_, err = n.SessionScore(ctx, "", "ses_1")
	wantCode(t, err, "not_found")

	s := n.Calls(t, "ses_1", 12)
	n.Delivered(t, 13, s.Receipts...)
	open := n.Scored(t, "ses_1")
	if open.Closed || open.HeadNumber != 12 || open.HeadHash != evidence.HashToken(s.Receipts[11]) || open.N != 12 ||
		open.Owner != s.Owner || open.BaselineHash != "" {
		t.Errorf("%+v", open)
	}
	s.Close(t)
	n.Delivered(t, 14, s.Receipts...)
	answer, err := n.Score(ctx, evidence.HashToken(s.Receipts[4]))
	must(t, err)
	closed := n.Scored(t, "ses_1")
	if !closed.Closed || closed.HeadNumber != 13 {
		t.Errorf("%+v", closed)
	}
	again := autonomy.NewSession([]string{nodetest.Host})
	for _, token := range s.Receipts {
		c, err := evidence.UnverifiedClaims(interaction.Kind, token)
		must(t, err)
		again.Add(evidence.HashToken(token), &c)
	}
	want, err := json.Marshal(autonomy.Appraise(again, nil, nil))
	must(t, err)
	if got, err := json.Marshal(closed.Score); err != nil || string(got) != string(want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	var shown autonomy.Claims
	must(t, json.Unmarshal(answer.Score, &shown))
	if shown.HeadNumber != 13 || shown.Composite != closed.Composite || shown.ID == "" {
		t.Errorf("%s", answer.Score)
	}
}

func TestScoreIsKept(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	s := n.Calls(t, "ses_1", 2)
	n.Delivered(t, 3, s.Receipts...)
	first := n.Scored(t, "ses_1").ID
	n.Kit.Clock.Advance(4 * time.Minute)
	if n.Scored(t, "ses_1").ID != first {
		t.Error("it is signed again")
	}
	n.Kit.Clock.Advance(time.Minute)
	second := n.Scored(t, "ses_1").ID
	if second == first {
		t.Error("it is not signed again")
	}
	_, err := n.Issue(t.Context(), n.By(t, "ses_1"))
	must(t, err)
	third := n.Scored(t, "ses_1")
	if third.ID == second || third.Signals.Challenge.Issued != 1 {
		t.Error("a challenge does not count")
	}
	s.Call(t, nil)
	n.Delivered(t, 4, s.Receipts...)
	if n.Scored(t, "ses_1").ID == third.ID {
		t.Error("a receipt does not count")
	}
	hosts := nodetest.Believed(t, n.Kit)
	hosts.Hosts = nil
	must(t, n.Believe(hosts))
	if got := n.Scored(t, "ses_1"); got.N != 0 {
		t.Errorf("a host that is not believed any more counts: %+v", got)
	}
	n.Kit.Revoke(t, evidence.Revocation{Kind: "key", ID: n.Kit.Key(t, evidence.PurposeInteraction).KeyID()})
	must(t, n.Believe(nodetest.Believed(t, n.Kit)))
	_, err = n.SessionScore(t.Context(), "", "ses_1")
	wantCode(t, err, "revoked")
}

func TestScoredChallenge(t *testing.T) {
	for name, row := range map[string]struct {
		spoil  func(*interaction.Receipt)
		passed int64
	}{
		"kept":   {func(*interaction.Receipt) {}, 1},
		"broken": {func(c *interaction.Receipt) { c.Model.Model = "other" }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.New(t, gatetest.New(t), nil)
			by := n.By(t, "ses_1")
			issued, err := n.Issue(t.Context(), by)
			must(t, err)
			raw, hash := nodetest.Plan(t, issued.Nonce, nil)
			n.Kit.Clock.Advance(time.Second)
			_, err = n.Commit(t.Context(), by, issued.Nonce, hash)
			must(t, err)
			n.Kit.Clock.Advance(time.Second)
			s := n.Kit.Session(t, "ses_1")
			ref := interaction.ChallengeRef{ChallengeNonce: issued.Nonce, CommitmentHash: hash}
			for range 3 {
				s.Call(t, func(c *interaction.Receipt) {
					c.ActionType, c.Challenge = interaction.ActionChallengeResponse, &ref
					row.spoil(c)
				})
			}
			_, err = n.Reveal(t.Context(), by, issued.Nonce, nodetest.Salt, raw)
			must(t, err)
			s.Call(t, func(c *interaction.Receipt) {
				revealed := ref
				revealed.CommitmentRevealed = true
				c.Challenge = &revealed
			})
			n.Delivered(t, 5, s.Receipts...)
			if got := n.Scored(t, "ses_1").Signals.Challenge; got.Issued != 1 || got.Passed != row.passed {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestScoredProbes(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(pair int, id string) string
		want   float64
	}{
		"alike":     {func(pair int, _ string) string { return gatetest.Tag("answer", pair) }, 1},
		"otherwise": {func(_ int, id string) string { return gatetest.Tag(id, 0) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.New(t, gatetest.New(t), nil)
			_, err := n.Issue(t.Context(), n.By(t, "ses_1"))
			must(t, err)
			kept, err := n.Store.Challenges(t.Context(), n.Kit.Owner(t), "ses_1")
			must(t, err)
			s := n.Kit.Session(t, "ses_1")
			for pair, ids := range kept[0].Probes {
				for _, id := range ids {
					s.Call(t, func(c *interaction.Receipt) {
						c.Model.Probe = &interaction.Probe{ID: id, Answer: row.answer(pair, id)}
					})
				}
			}
			n.Delivered(t, 11, s.Receipts...)
			got := n.Scored(t, "ses_1").Signals.Knowledge
			at := slices.IndexFunc(got.Parts, func(p autonomy.Part) bool { return p.Name == "agreement" })
			if part := got.Parts[at]; part.N != 5 || part.State == "not_measured" || got.Consistency != row.want {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSessionsOfOneName(t *testing.T) {
	a, b := gatetest.New(t), gatetest.New(t)
	n := nodetest.New(t, a, nil)
	b.Observe(t)
	both := nodetest.Believed(t, a)
	both.Owners = append(both.Owners, nodetest.Believed(t, b).Owners...)
	must(t, n.Believe(both))
	for _, k := range []*gatetest.Kit{a, b} {
		s := k.Session(t, "ses_1")
		s.Call(t, nil)
		n.Delivered(t, 2, s.Receipts...)
	}
	_, err := n.SessionScore(t.Context(), "", "ses_1")
	wantCode(t, err, "not_found")
	answer, err := n.SessionScore(t.Context(), b.Owner(t), "ses_1")
	must(t, err)
	c, err := evidence.UnverifiedClaims(autonomy.Kind, answer.Token)
	if err != nil || c.Owner != b.Owner(t) {
		t.Errorf("%+v, %v", c, err)
	}
	twice := nodetest.Believed(t, a)
	twice.Owners = append(twice.Owners, twice.Owners[0])
	if n.Believe(twice) == nil {
		t.Error("one owner is taken twice")
	}
}

func TestOtherOwnersBundle(t *testing.T) {
	a, b := gatetest.New(t), gatetest.New(t)
	n := nodetest.New(t, a, nil)
	b.Observe(t)
	both, other := nodetest.Believed(t, a), nodetest.Believed(t, b)
	score := func(k *gatetest.Kit) string {
		answer, err := n.SessionScore(t.Context(), k.Owner(t), "ses_1")
		must(t, err)
		return answer.Token
	}
	both.Owners = append(both.Owners, other.Owners...)
	must(t, n.Believe(both))
	for _, k := range []*gatetest.Kit{a, b} {
		s := k.Session(t, "ses_1")
		s.Call(t, nil)
		n.Delivered(t, 2, s.Receipts...)
	}
	ours, theirs := score(a), score(b)
	both.Owners = slices.Clone(both.Owners)
	both.Owners[1].Past = b.Past(t)
	must(t, n.Believe(both))
	if score(a) != ours {
		t.Error("the sessions of another owner are read anew")
	}
	if score(b) == theirs {
		t.Error("the owner's sessions are not read anew")
	}
	must(t, n.Believe(other)) // without the first
	must(t, n.Believe(both))
	if score(a) == ours {
		t.Error("an owner that was not believed meanwhile is not judged anew")
	}
}

func TestManySessions(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Limits.Cached = 10 })
	want := make(map[string]float64)
	for range 2 {
		for i := range 6 {
			id := fmt.Sprintf("ses_%d", i)
			if _, ok := want[id]; !ok {
				s := n.Calls(t, id, 4+i)
				n.Delivered(t, int64(5+i), s.Receipts...)
				want[id] = n.Scored(t, id).Composite
			}
			if got := n.Scored(t, id).Composite; got != want[id] {
				t.Errorf("%s: %v, want %v", id, got, want[id])
			}
		}
	}
}

func TestBaseline(t *testing.T) {
	k := gatetest.New(t)
	n, m := nodetest.New(t, k, nil), nodetest.New(t, k, nil)
	var tokens [][]string
	for i := range 12 {
		s := n.Calls(t, fmt.Sprintf("ses_%d", i), 10)
		if i < 11 {
			s.Close(t)
		}
		tokens = append(tokens, s.Receipts)
	}
	for _, one := range []*nodetest.Node{n, m} {
		for _, of := range tokens {
			if r := one.Deliver(t, of...); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		one.Sampled(t)
	}
	hash := n.Scored(t, "ses_11").BaselineHash
	if hash == "" || m.Scored(t, "ses_11").BaselineHash != hash {
		t.Fatalf("the baselines %q and %q", hash, m.Scored(t, "ses_11").BaselineHash)
	}
	document, err := n.Baseline(t.Context(), hash)
	must(t, err)
	var b autonomy.Baseline
	must(t, json.Unmarshal(document, &b))
	if got, err := b.Hash(); err != nil || got != hash || b.Sessions != 11 || b.Owner != k.Owner(t) {
		t.Errorf("%s, %v", document, err)
	}
	_, err = n.Baseline(t.Context(), evidence.HashBytes(nil))
	wantCode(t, err, "not_found")
	// One session more is less than a tenth: it waits for an hour.
	s := n.Calls(t, "ses_12", 10)
	s.Close(t)
	n.Delivered(t, 12, s.Receipts...)
	n.Sampled(t)
	if n.Scored(t, "ses_11").BaselineHash != hash {
		t.Error("a baseline is made too soon")
	}
	n.Kit.Clock.Advance(time.Hour)
	n.Sampled(t)
	if n.Scored(t, "ses_11").BaselineHash == hash {
		t.Error("no baseline is made after an hour")
	}
	if document, err := n.Baseline(t.Context(), hash); err != nil || len(document) == 0 {
		t.Errorf("the earlier baseline is gone: %v", err)
	}
}

func TestForkedSessionGivesNoSample(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	s := n.Calls(t, "ses_1", 10)
	kept := s.Receipts
	s.Receipts = slices.Clone(kept[:9])
	other := s.Call(t, func(c *interaction.Receipt) { c.OutputCleanHash = evidence.HashBytes([]byte("other")) })
	s.Receipts = kept
	s.Close(t)
	n.Delivered(t, 12, s.Receipts...)
	wantCode(t, n.Deliver(t, other).Err, "chain_broken")
	n.Sampled(t)
	samples, err := n.Store.Samples(t.Context(), s.Owner, 10)
	must(t, err)
	if len(samples) != 0 {
		t.Errorf("%d samples", len(samples))
	}
}

func TestRun(t *testing.T) {
	made := make(chan bool, 1)
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) {
		o.Log = zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(line zapcore.Entry) error {
			if line.Message == "baseline made" {
				made <- true
			}
			return nil
		})))
	})
	s := n.Calls(t, "ses_1", 10)
	s.Close(t)
	n.Delivered(t, 12, s.Receipts...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	<-made
	cancel()
	must(t, <-done)
}

func TestNewRefuses(t *testing.T) {
	if _, err := reputation.New(reputation.Options{}); err == nil {
		t.Error("nothing is needed")
	}
}

func BenchmarkScore(b *testing.B) {
	k := gatetest.New(b)
	s := k.Session(b, "ses_1")
	for range 1000 {
		s.Call(b, nil)
	}
	kept, err := store.Open(context.Background(), filepath.Join(b.TempDir(), "reputation.db"), "")
	must(b, err)
	defer kept.Close()
	n := nodetest.New(b, k, kept)
	for from := 0; from < 1000; from += 200 {
		n.Delivered(b, int64(from+201), s.Receipts[from:from+200]...)
	}
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			nodetest.New(b, k, kept).Scored(b, "ses_1")
		}
	})
	b.Run("one more", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s.Call(b, nil)
			if r := n.Deliver(b, s.Receipts[len(s.Receipts)-1]); r.Err != nil {
				b.Fatal(r.Err)
			}
			b.StartTimer()
			n.Scored(b, "ses_1")
		}
	})
}

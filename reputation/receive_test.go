package reputation_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func TestReceive(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	s := n.Calls(t, "ses_1", 6)
	n.Delivered(t, 3, s.Receipts[:2]...)
	n.Delivered(t, 3, s.Receipts[:2]...) // again
	n.Delivered(t, 3, s.Receipts[1])
	n.Delivered(t, 5, s.Receipts[:4]...)
	n.Delivered(t, 7, s.Receipts...)
	s.Close(t)
	n.Delivered(t, 8, s.Receipts[6:]...)
	if n.Count(t, "ses_1") != 7 {
		t.Error("not all receipts are kept")
	}
	state, err := n.Store.Session(t.Context(), s.Owner, "ses_1")
	must(t, err)
	if !state.Closed || state.Next != 8 {
		t.Errorf("%+v", state)
	}
}

func TestReceiveSeveral(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	a, b, c := n.Calls(t, "ses_a", 2), n.Calls(t, "ses_b", 2), n.Calls(t, "ses_c", 1)
	all, err := n.Receive(t.Context(), []string{a.Receipts[0], b.Receipts[1], c.Receipts[0], a.Receipts[1]})
	must(t, err)
	if len(all) != 3 || all[0].Session != "ses_a" || all[0].Next != 3 || all[0].Err != nil || all[1].Next != 1 ||
		all[2].Next != 2 || all[2].Err != nil {
		t.Errorf("%+v", all)
	}
	wantCode(t, all[1].Err, "chain_incomplete")
	if all, err := n.Receive(t.Context(), nil); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = n.Receive(t.Context(), slices.Repeat(a.Receipts[:1], reputation.MaxBatch+1))
	wantCode(t, err, "query_malformed")
	_, err = n.Receive(t.Context(), []string{"no token"})
	wantCode(t, err, "artifact_malformed")
}

func TestReceiptsThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		code  string
		spoil func(t *testing.T, n *nodetest.Node, s *gatetest.Session) []string
	}{
		"a gap": {"chain_incomplete", func(_ *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
			return s.Receipts[3:]
		}},
		"a gap within": {"chain_incomplete", func(t *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
			s.Call(t, nil)
			return []string{s.Receipts[2], s.Receipts[4]}
		}},
		"another order": {"chain_broken", func(_ *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
			return []string{s.Receipts[2], s.Receipts[1]}
		}},
		"a call with two receipts": {"chain_broken", func(t *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
			s.Receipts = s.Receipts[:2]
			s.Call(t, func(c *interaction.Receipt) { c.RequestID = "post_ses_1_000001" })
			return s.Receipts[2:]
		}},
		"another agent": {"chain_broken", func(t *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
			s.Receipts = s.Receipts[:2]
			s.Call(t, func(c *interaction.Receipt) { c.Agent = "agent:worker-2" })
			return s.Receipts[2:]
		}},
		"another owner": {"owner_unknown", func(t *testing.T, _ *nodetest.Node, _ *gatetest.Session) []string {
			return []string{gatetest.New(t).Session(t, "ses_1").Call(t, nil)}
		}},
		"a signature that is wrong": {"signature_invalid",
			func(_ *testing.T, _ *nodetest.Node, s *gatetest.Session) []string {
				return []string{nodetest.Resigned(s.Receipts[2], s.Receipts[3])}
			}},
		"a revoked key": {"revoked", func(t *testing.T, n *nodetest.Node, s *gatetest.Session) []string {
			n.Kit.Revoke(t, evidence.Revocation{Kind: "key", ID: n.Kit.Key(t, evidence.PurposeInteraction).KeyID()})
			must(t, n.Believe(nodetest.Believed(t, n.Kit)))
			return s.Receipts[2:]
		}},
		"of the future": {"clock_skew", func(_ *testing.T, n *nodetest.Node, s *gatetest.Session) []string {
			n.Kit.Clock.Advance(-time.Minute)
			return s.Receipts[2:]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := nodetest.New(t, gatetest.New(t), nil)
			s := n.Calls(t, "ses_1", 4)
			n.Delivered(t, 3, s.Receipts[:2]...)
			r := n.Deliver(t, row.spoil(t, n, s)...)
			wantCode(t, r.Err, row.code)
			if want := int64(3); r.Next != want && row.code != "owner_unknown" {
				t.Errorf("it wants receipt %d", r.Next)
			}
			if n.Count(t, "ses_1") != 2 {
				t.Error("what was refused is kept")
			}
		})
	}
}

func TestFork(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil)
	s := n.Calls(t, "ses_1", 3)
	n.Delivered(t, 3, s.Receipts[:2]...)
	kept := s.Receipts
	s.Receipts = slices.Clone(kept[:1])
	other := s.Call(t, func(c *interaction.Receipt) { c.OutputCleanHash = evidence.HashBytes([]byte("other")) })
	s.Receipts = kept

	wantCode(t, n.Deliver(t, nodetest.Resigned(other, kept[0])).Err, "signature_invalid")
	n.Delivered(t, 4, kept...)
	wantCode(t, n.Deliver(t, other).Err, "chain_broken")
	seen, err := n.Store.Forked(t.Context(), s.Owner, "ses_1")
	must(t, err)
	if seen.Token != other || seen.Number != 2 {
		t.Errorf("%+v", seen)
	}
	n.Delivered(t, 4, kept...) // what is kept is known
	s.Call(t, nil)
	wantCode(t, n.Deliver(t, s.Receipts...).Err, "chain_broken")
	_, err = n.SessionScore(t.Context(), "", "ses_1")
	wantCode(t, err, "chain_broken")
	_, err = n.Issue(t.Context(), n.By(t, "ses_1"))
	wantCode(t, err, "chain_broken")
}

func TestReceiveAfterRotation(t *testing.T) {
	k := gatetest.New(t)
	n := nodetest.New(t, k, nil)
	s := n.Calls(t, "ses_1", 2)
	first := k.Certificates[evidence.PurposeInteraction]
	k.Rotate(t, evidence.PurposeInteraction)
	k.Certificates[evidence.PurposeInteraction] = k.Vouch(t, k.Key(t, evidence.PurposeInteraction),
		evidence.PurposeInteraction, k.Issuer(evidence.PurposeInteraction))
	s.Call(t, nil)
	k.Clock.Advance(time.Hour)
	must(t, n.Believe(nodetest.Believed(t, k, first)))
	n.Delivered(t, 4, s.Receipts...)
	if got := n.Scored(t, "ses_1"); got.HeadNumber != 3 {
		t.Errorf("%+v", got)
	}
}

func TestRate(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Limits.Rate = 1 })
	s := n.Calls(t, "ses_1", 250)
	now := n.Kit.Clock.Now()
	for range 3 {
		n.Deliver(t, nodetest.Resigned(s.Receipts[0], s.Receipts[1]))
	}
	n.Delivered(t, 151, s.Receipts[:150]...)
	n.Delivered(t, 151, s.Receipts[:150]...)
	must(t, n.Believe(nodetest.Believed(t, n.Kit))) // which refills nothing
	r := n.Deliver(t, s.Receipts[150:]...)
	wantCode(t, r.Err, "rate_limited")
	later, ok := r.Err.(interface{ RetryAfter() int })
	if !ok || later.RetryAfter() < 50 || later.RetryAfter() > 61 || r.Next != 151 {
		t.Errorf("%v, %d", r.Err, r.Next)
	}
	n.Kit.Clock.Set(now.Add(time.Minute))
	n.Delivered(t, 251, s.Receipts[150:]...)
}

func TestOwnerFull(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Limits.Sessions, o.Limits.Receipts = 2, 4 })
	a, b, c := n.Calls(t, "ses_a", 3), n.Calls(t, "ses_b", 2), n.Calls(t, "ses_c", 1)
	n.Delivered(t, 3, a.Receipts[:2]...)
	n.Delivered(t, 2, b.Receipts[:1]...)
	wantCode(t, n.Deliver(t, c.Receipts...).Err, "owner_full")
	n.Delivered(t, 4, a.Receipts...)
	r := n.Deliver(t, b.Receipts...)
	wantCode(t, r.Err, "owner_full")
	if r.Next != 2 || n.Count(t, "ses_b") != 1 || n.Count(t, "ses_c") != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRemovedForItsAge(t *testing.T) {
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Retention = time.Hour })
	long := n.Calls(t, "ses_long", 1)
	n.Delivered(t, 2, long.Receipts...)
	s := n.Calls(t, "ses_1", 2)
	kept := s.Receipts
	s.Receipts = slices.Clone(kept[:1])
	s.Call(t, func(c *interaction.Receipt) { c.OutputCleanHash = evidence.HashBytes([]byte("other")) })
	other := s.Receipts
	n.Delivered(t, 3, kept...)
	wantCode(t, n.Deliver(t, other...).Err, "chain_broken")
	n.Kit.Clock.Advance(time.Hour - time.Second)
	long.Call(t, nil)
	n.Delivered(t, 3, long.Receipts...)
	n.Kit.Clock.Advance(2 * time.Second)
	must(t, n.Store.Prune(t.Context(), store.Old{Sessions: n.Kit.Clock.Now().Add(-time.Hour), Tokens: n.Kit.Clock.Now()}))
	for _, tokens := range [][]string{kept, other} {
		wantCode(t, n.Deliver(t, tokens...).Err, "interaction_expired")
	}
	if _, err := n.SessionScore(t.Context(), "", "ses_1"); err == nil {
		t.Error("it has a score again")
	}
	long.Call(t, nil)
	n.Delivered(t, 4, long.Receipts...) // a session goes on for as long as it likes
}

func TestReplicas(t *testing.T) {
	replicas := together(t, gatetest.New(t))
	t.Run("receipts", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 4 {
			s := replicas[0].Calls(t, fmt.Sprintf("ses_%d", i), 60)
			for _, n := range replicas {
				for _, upTo := range []int{20, 40, 60} {
					all.Go(func() {
						for range 3 {
							if r := n.Deliver(t, s.Receipts[:upTo]...); r.Err == nil {
								return
							}
						}
						t.Error("refused")
					})
				}
			}
		}
		all.Wait()
		for i := range 4 {
			if got := replicas[1].Count(t, fmt.Sprintf("ses_%d", i)); got != 60 {
				t.Errorf("%d receipts", got)
			}
			if a, b := replicas[0].Scored(t, fmt.Sprintf("ses_%d", i)),
				replicas[1].Scored(t, fmt.Sprintf("ses_%d", i)); a.HeadNumber != 60 || a.HeadHash != b.HeadHash ||
				a.Score.Composite != b.Score.Composite {
				t.Errorf("%+v and %+v", a, b)
			}
		}
	})
	t.Run("a challenge", func(t *testing.T) {
		one, two := replicas[0], replicas[1]
		issued, err := one.Issue(t.Context(), one.By(t, "ses_9"))
		must(t, err)
		if again, err := two.Issue(t.Context(), one.By(t, "ses_9")); err != nil || again.Nonce != issued.Nonce {
			t.Errorf("%+v, %v", again, err)
		}
		raw, hash := nodetest.Plan(t, issued.Nonce, nil)
		_, err = two.Commit(t.Context(), one.By(t, "ses_9"), issued.Nonce, hash)
		must(t, err)
		revealed, err := one.Reveal(t.Context(), one.By(t, "ses_9"), issued.Nonce, nodetest.Salt, raw)
		must(t, err)
		again, err := two.Reveal(t.Context(), one.By(t, "ses_9"), issued.Nonce, nodetest.Salt, raw)
		if err != nil || again != revealed || !again.Revealed {
			t.Errorf("%+v, %v", again, err)
		}
	})
	t.Run("texts that the database cannot keep", func(t *testing.T) {
		n := replicas[0]
		for _, text := range []string{"a\x00", "\xff"} {
			_, err := n.Score(t.Context(), text)
			wantCode(t, err, "not_found")
			_, err = n.SessionScore(t.Context(), "", text)
			wantCode(t, err, "not_found")
			_, err = n.SessionScore(t.Context(), text, "ses_1")
			wantCode(t, err, "not_found")
			_, err = n.Baseline(t.Context(), text)
			wantCode(t, err, "not_found")
			_, err = n.Commit(t.Context(), n.By(t, "ses_1"), text, evidence.HashBytes(nil))
			wantCode(t, err, "not_found")
		}
		receipts := n.Calls(t, "ses\x00", 2).Receipts
		wantCode(t, n.Deliver(t, nodetest.Resigned(receipts[0], receipts[1])).Err, "signature_invalid")
	})
	t.Run("one caller token", func(t *testing.T) {
		body := []byte("{}")
		token := replicas[0].CallerToken(t, "ses_1", "/v1/challenge/issue", body, nil)
		results := make(chan error, 8)
		for i := range cap(results) {
			go func() {
				_, err := replicas[i%2].Caller(t.Context(), token, "POST", "/v1/challenge/issue", body)
				results <- err
			}()
		}
		good := 0
		for range cap(results) {
			if err := <-results; err == nil {
				good++
			} else {
				wantCode(t, err, "caller_invalid")
			}
		}
		if good != 1 {
			t.Errorf("the token was good %d times", good)
		}
	})
}

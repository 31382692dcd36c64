package interaction_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type receipt = interaction.Receipt

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if code == "" && err == nil {
		return
	}
	if check.CodeOf(err) != code || !problem.Known(code) {
		t.Errorf("%v, want %q", err, code)
	}
}

func add(c *interaction.Chain, tokens ...string) error {
	for _, token := range tokens {
		if _, err := c.Add(token); err != nil {
			return err
		}
	}
	return nil
}

var posted = []interaction.NamedArtifact{{Name: "sessionReceipt", Hash: evidence.HashBytes([]byte("session receipt"))}}

func TestChain(t *testing.T) {
	k := gatetest.New(t)
	s := k.Session(t, "ses_1")
	for range 3 {
		s.Call(t, nil)
	}
	third := s.Chain(t)
	check.Must(t, add(third, s.Receipts...))
	k.Clock.Advance(-time.Second)
	s.Call(t, func(c *receipt) { c.Session = third.Last().Session })
	head := s.Head("post_open")
	s.Post(t, "post_1", posted, nil)
	s.Call(t, func(c *receipt) { c.RequestID = "post_open" })
	s.Close(t)
	c := s.Chain(t)
	check.Must(t, add(c, s.Receipts...))
	if c.Len() != 7 || !c.Closed() || c.Last().Chain.SessionID != "ses_1" {
		t.Errorf("%d receipts, closed %t, the last %+v", c.Len(), c.Closed(), c.Last())
	}
	if err := c.Names(head); err != nil {
		t.Error(err)
	}
	if err := s.Chain(t).Names(evidence.InteractionHead{}); err != nil {
		t.Error(err)
	}
}

// TestChainsThatAreRefused: what the golden vectors do not show.
func TestChainsThatAreRefused(t *testing.T) {
	type tokens = func(t *testing.T, k *gatetest.Kit, s *gatetest.Session) []string
	ordered := func(numbers ...int) tokens {
		return func(_ *testing.T, _ *gatetest.Kit, s *gatetest.Session) (all []string) {
			for _, n := range numbers {
				all = append(all, s.Receipts[n-1])
			}
			return all
		}
	}
	// Each row makes the tokens, of a session with three receipts.
	rows := map[string]struct {
		code  string
		spoil tokens
	}{
		"one is missing": {"chain_incomplete", ordered(1, 3)},
		"it forks further back": {"chain_broken", func(t *testing.T, _ *gatetest.Kit, s *gatetest.Session) []string {
			return append(s.Receipts[:1:1], again(t, s, 1), s.Receipts[2])
		}},
		"another session's": {"chain_broken", func(t *testing.T, k *gatetest.Kit, s *gatetest.Session) []string {
			other := k.Session(t, "ses_2")
			for range 4 {
				other.Call(t, nil)
			}
			return append(s.Receipts, other.Receipts[3])
		}},
		"fewer calls in all": {"chain_broken", next(func(c *receipt) { c.Session.Calls = 99 }, nil)},
		"fewer bytes in all": {"chain_broken", next(func(c *receipt) { c.Session.BytesOut = 1 << 20 }, nil)},
		"one after the end": {"chain_broken", func(t *testing.T, _ *gatetest.Kit, s *gatetest.Session) []string {
			s.Close(t)
			s.Call(t, nil)
			return s.Receipts
		}},
		"a second end": {"chain_broken", func(t *testing.T, _ *gatetest.Kit, s *gatetest.Session) []string {
			s.Close(t)
			s.Close(t)
			return s.Receipts
		}},
		"an altered signature": {"signature_invalid",
			func(_ *testing.T, _ *gatetest.Kit, s *gatetest.Session) []string {
				return append(s.Receipts[:2:2], resigned(s.Receipts[2], s.Receipts[1]))
			}},
		"a stranger's key": {"key_unknown", signedBy(func(t *testing.T, _ *gatetest.Kit) evidence.Key {
			return gatetest.StrangerKey(t, "stranger:v1")
		})},
		"a key that is not allowed": {"not_allowed", otherwise(func(k *gatetest.Kit) {
			k.Strict.Interaction.KeyIDs = []string{"other-key"}
		})},
		"another issuer": {"not_allowed", otherwise(func(k *gatetest.Kit) {
			k.Strict.Interaction.Issuers = []string{"other"}
		})},
		"another audience": {"not_allowed", otherwise(func(k *gatetest.Kit) {
			k.Strict.Interaction.Audiences = []string{"other"}
		})},
		"a revoked key": {"revoked", func(t *testing.T, k *gatetest.Kit, s *gatetest.Session) []string {
			k.Revoke(t, evidence.Revocation{Kind: "key", ID: k.Key(t, evidence.PurposeInteraction).KeyID()})
			return s.Receipts
		}},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			k := gatetest.New(t)
			s := k.Session(t, "ses_1")
			for range 3 {
				s.Call(t, nil)
			}
			whole := slices.Clone(s.Receipts)
			check.Must(t, add(s.Chain(t), whole...))
			tokens := row.spoil(t, k, s)
			c := s.Chain(t)
			wantCode(t, add(c, tokens...), row.code)
			if n := int(c.Len()); n > 0 && n < 3 && slices.Equal(tokens[:n], whole[:n]) {
				if err := add(c, whole[n:]...); err != nil {
					t.Errorf("after the refusal: %v", err)
				}
			}
		})
	}
}

func next(edits ...func(*receipt)) func(*testing.T, *gatetest.Kit, *gatetest.Session) []string {
	return func(t *testing.T, _ *gatetest.Kit, s *gatetest.Session) []string {
		for _, edit := range edits {
			s.Call(t, edit)
		}
		return s.Receipts
	}
}

func again(t *testing.T, s *gatetest.Session, n int) string {
	kept := s.Receipts
	s.Receipts = slices.Clone(kept[:n])
	token := s.Call(t, func(c *receipt) { c.OutputCleanHash = evidence.HashBytes([]byte("other")) })
	s.Receipts = kept
	return token
}

func resigned(token, other string) string {
	return token[:strings.LastIndexByte(token, '.')] + other[strings.LastIndexByte(other, '.'):]
}

func signedBy(key func(*testing.T, *gatetest.Kit) evidence.Key) func(*testing.T, *gatetest.Kit,
	*gatetest.Session) []string {
	return func(t *testing.T, k *gatetest.Kit, s *gatetest.Session) []string {
		c, err := evidence.UnverifiedClaims(interaction.Kind, s.Receipts[0])
		check.Must(t, err)
		token, err := evidence.Sign(t.Context(), key(t, k), interaction.Kind, c)
		check.Must(t, err)
		return []string{token}
	}
}

func otherwise(edit func(*gatetest.Kit)) func(*testing.T, *gatetest.Kit, *gatetest.Session) []string {
	return func(_ *testing.T, k *gatetest.Kit, s *gatetest.Session) []string {
		edit(k)
		return s.Receipts
	}
}

// TestHeads: what the golden vectors do not show.
func TestHeads(t *testing.T) {
	k := gatetest.New(t)
	s := k.Session(t, "ses_1")
	var heads []evidence.InteractionHead
	for i := range 4 {
		heads = append(heads, s.Head())
		s.Call(t, func(c *receipt) { c.RequestID = fmt.Sprintf("post_%d", i+1) })
	}
	end := s.Head()
	s.Close(t)
	const broken = "chain_broken"
	named := func(number int64, hash string, open ...string) evidence.InteractionHead {
		return evidence.InteractionHead{Number: number, HeadHash: hash, OpenCalls: open}
	}
	for name, tt := range map[string]struct {
		head        evidence.InteractionHead
		open, whole string // the code for 4 receipts, and for a closed chain
	}{
		"beyond the chain":           {named(9, end.HeadHash), broken, broken},
		"the next, which is another": {named(5, end.HeadHash), broken, broken},
		"after its end":              {named(6, end.HeadHash), broken, broken},
		"open, and ended with it":    {named(2, heads[2].HeadHash, "post_2"), broken, broken},
		"open, and never ended":      {named(2, heads[2].HeadHash, "post_9"), "", broken},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				tokens []string
				code   string
			}{{s.Receipts[:4], tt.open}, {s.Receipts, tt.whole}} {
				chain := s.Chain(t)
				check.Must(t, add(chain, c.tokens...))
				wantCode(t, chain.Names(tt.head), c.code)
			}
		})
	}
}

func TestTails(t *testing.T) {
	k := gatetest.New(t)
	s := k.Session(t, "ses_1")
	var heads []evidence.InteractionHead
	for range 5 {
		s.Call(t, nil)
		heads = append(heads, s.Head())
	}
	other := k.Session(t, "ses_1")
	for range 5 {
		other.Call(t, func(c *receipt) { c.OutputCleanHash = evidence.HashBytes([]byte("other")) })
	}
	tail := func(tokens ...string) (*interaction.Chain, error) {
		c := interaction.NewTail(interaction.Past(k.Past(t), k.Strict.Interaction, k.Clock.Now()),
			interaction.Expected{Owner: s.Owner})
		return c, add(c, tokens...)
	}
	c, err := tail(s.Receipts[2:]...)
	if err != nil || c.First() != 3 || c.Len() != 5 {
		t.Fatalf("receipts %d to %d, %v", c.First(), c.Len(), err)
	}
	for i, head := range heads {
		if err := c.Names(head); (err == nil) != (i >= 1) { // the third names the second
			t.Errorf("head %d: %v", i+1, err)
		}
	}
	for _, head := range []evidence.InteractionHead{{Number: 9, HeadHash: heads[4].HeadHash},
		{Number: 9, HeadHash: heads[1].HeadHash}, {Number: 1, HeadHash: heads[1].HeadHash}} {
		wantCode(t, c.Names(head), "chain_broken")
	}
	for _, tt := range []struct {
		code   string
		tokens []string
	}{
		{"chain_incomplete", []string{s.Receipts[2], s.Receipts[4]}},
		{"chain_broken", []string{s.Receipts[2], s.Receipts[2]}},
		{"chain_broken", []string{s.Receipts[2], s.Receipts[1]}},
		{"chain_broken", []string{s.Receipts[2], other.Receipts[2]}},
		{"chain_broken", []string{s.Receipts[2], other.Receipts[3]}},
		{"chain_broken", []string{s.Receipts[2], s.Receipts[0]}},
		{"chain_broken", []string{s.Receipts[2], other.Receipts[1]}},
	} {
		_, err := tail(tt.tokens...)
		wantCode(t, err, tt.code)
	}
}

// TestTheLongestChain: a full chain takes no more.
func TestTheLongestChain(t *testing.T) {
	s := gatetest.New(t).Session(t, "ses_1")
	s.Call(t, nil)
	c := s.Chain(t)
	check.Must(t, add(c, s.Receipts...))
	c.Fill()
	wantCode(t, add(c, s.Call(t, nil)), "session_full")
}

func TestOpeners(t *testing.T) {
	k := gatetest.New(t)
	token, asked := k.Session(t, "ses_1").Call(t, nil), 0
	c := interaction.NewChain(func(string, receipt) (o evidence.Opened[receipt], err error) {
		asked++
		return o, nil
	}, interaction.Expected{})
	wantCode(t, add(c, ""), "artifact_missing")
	if asked != 0 {
		t.Error("the opener is asked about nothing")
	}
	wantCode(t, add(c, token), "roots_not_pinned")
	if _, err := interaction.Past(k.Past(t), k.Strict.Interaction, k.Clock.Now())("", receipt{}); err == nil {
		t.Error("nothing is opened")
	}
}

// TestAChainAcrossARotation: the certificates of each receipt's time count.
func TestAChainAcrossARotation(t *testing.T) {
	k := gatetest.New(t)
	s := k.Session(t, "ses_1")
	s.Call(t, nil)
	first := k.Certificates[evidence.PurposeInteraction]
	k.Rotate(t, evidence.PurposeInteraction)
	second := k.Vouch(t, k.Key(t, evidence.PurposeInteraction), evidence.PurposeInteraction,
		k.Issuer(evidence.PurposeInteraction))
	k.Certificates[evidence.PurposeInteraction] = second
	s.Call(t, nil)
	if err := add(s.Chain(t), s.Receipts...); err == nil {
		t.Error("the first key counts without a certificate")
	}
	chain := interaction.NewChain(interaction.Past(k.Past(t, first), k.Strict.Interaction, k.Clock.Now()),
		interaction.Expected{Owner: k.Owner(t)})
	if err := add(chain, s.Receipts...); err != nil {
		t.Error(err)
	}
}

func FuzzChain(f *testing.F) {
	k := gatetest.New(f)
	s := k.Session(f, "ses_1")
	s.Call(f, nil)
	s.Post(f, "post_1", posted, nil)
	s.Close(f)
	for _, token := range s.Receipts {
		f.Add(token)
	}
	f.Add(s.Receipts[0] + "~" + s.Receipts[1])
	open, owner := interaction.Past(k.Past(f), k.Strict.Interaction, k.Clock.Now()), k.Owner(f)
	f.Fuzz(func(t *testing.T, token string) {
		c := interaction.NewChain(open, interaction.Expected{Owner: owner})
		o, err := c.Add(token)
		if (err == nil) != (token == s.Receipts[0]) {
			t.Fatalf("%q: %v", token, err)
		}
		if err == nil && (o.Token() != token || c.Len() != 1) {
			t.Fatal("it is not what was added")
		}
	})
}

func BenchmarkReceipt(b *testing.B) {
	k := gatetest.New(b)
	s := k.Session(b, "ses_1")
	claims, err := evidence.UnverifiedClaims(interaction.Kind, s.Call(b, nil))
	check.Must(b, err)
	issuer := gatetest.Signer(b, k, interaction.Kind)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := issuer.Issue(b.Context(), claims); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChain(b *testing.B) {
	k := gatetest.New(b)
	s := k.Session(b, "ses_1")
	for range 1000 {
		s.Call(b, nil)
	}
	b.ReportAllocs()
	for b.Loop() {
		check.Must(b, add(s.Chain(b), s.Receipts...))
	}
}

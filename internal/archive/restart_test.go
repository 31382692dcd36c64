package archive_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
)

func indeterminate(c *interaction.Receipt) { c.Outcome = interaction.OutcomeIndeterminate }

func lost(c *interaction.Receipt) {
	c.RequestID, c.Model, c.Closing = c.Chain.SessionID, nil, &interaction.Closing{Reason: interaction.ClosedLost}
	c.Timing.LLMStart, c.Timing.LLMEnd, c.Timing.ResponseSent = 0, 0, 0
}

// TestChainOverARestart: a sidecar with keys in memory has another key under the same id after a crash. Its chain
// verifies all the same, each receipt by the certificate of its time.
func TestChainOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s := w.session("ses_1")
	s.Call(t, nil)
	s.Call(t, nil)
	w.Clock.Advance(time.Minute)
	w.Restart(t, evidence.PurposeInteraction)
	w.versions[evidence.PurposeInteraction] = []custody.Version{w.Key(t, evidence.PurposeInteraction)}
	w.certify()
	s.Restarted(t)
	s.Call(t, indeterminate)
	s.Call(t, lost)
	w.Clock.Advance(time.Minute)
	j, err := archive.Archive{w.read()}.JudgeReceipts(texts(s.Receipts), w.Clock.Now(), nil)
	must(t, err)
	if !j.Chain || !j.Closed || j.Number != 4 || j.Lost != 0 {
		t.Errorf("%+v", j)
	}
}

// TestChainOverNewRoots: mediator dev has other roots after each start. What the next start adds to a chain is named as
// lost, and what was there before verifies: by itself, and with a record that rests on it.
func TestChainOverNewRoots(t *testing.T) {
	t.Parallel()
	before, after := newWorld(t, false), newWorld(t, false)
	before.Clock.Advance(time.Minute)
	s := before.session("ses_1")
	s.Call(t, nil)
	s.Call(t, nil)
	r := before.post("post_1", s.Head("post_ses_1_000003"))
	known := slices.Clone(s.Receipts)
	after.Clock.Advance(time.Hour)
	next := func(of ...func(*interaction.Receipt)) []string {
		n := after.session("ses_1")
		n.Receipts = slices.Clone(known)
		for _, edit := range of {
			n.Call(t, edit)
		}
		return n.Receipts
	}
	whole := next(indeterminate, lost)
	now := after.Clock.Now().Add(time.Minute)
	old, both := archive.Archive{before.read()}, archive.Archive{after.read(), before.read()}
	for name, tt := range map[string]struct {
		by       archive.Archive
		receipts []string
		want     archive.JudgedReceipts
		code     string
	}{
		"both roots are pinned": {both, whole,
			archive.JudgedReceipts{Number: 2, Closed: true, Lost: 2, LostVerified: true}, ""},
		"the earlier ones alone":   {old, whole, archive.JudgedReceipts{Number: 2, Lost: 2}, ""},
		"the later ones alone":     {archive.Archive{after.read()}, whole, archive.JudgedReceipts{}, "roots_not_pinned"},
		"a call that was answered": {both, next(nil), archive.JudgedReceipts{}, "roots_not_pinned"},
		"after a gap": {both, append(slices.Clone(known[:1]), whole[2:]...), archive.JudgedReceipts{},
			"chain_broken"},
		"with a gap": {both, append(slices.Clone(known), whole[3]), archive.JudgedReceipts{}, "chain_broken"},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := tt.by.JudgeReceipts(texts(tt.receipts), now, nil)
			if got := codeOf(err); err != nil && got != tt.code || err == nil && tt.code != "" {
				t.Fatalf("%v, want %q", err, tt.code)
			}
			if w := tt.want; err == nil &&
				(!j.Chain || j.Number != w.Number || j.Closed != w.Closed || j.Lost != w.Lost || j.LostVerified != w.LostVerified) {
				t.Errorf("%+v, want %+v", j, w)
			}
		})
	}
	v, err := before.read().Verify(t.Context(), r, archive.ReceiptsOf(whole), now)
	if err != nil || !v.Whole || !v.Interactions.Verified {
		t.Errorf("the record: %+v, %v", v, err)
	}
}

// TestHiddenReceipts: a chain whose receipts of posts are left out is one chain all the same, and confirms no guess of
// what was posted.
func TestHiddenReceipts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s := w.session("ses_1")
	artifacts := []interaction.NamedArtifact{{Name: "requestProof", Hash: evidence.HashBytes([]byte("proof"))}}
	s.Post(t, "post_1", artifacts, nil)
	s.Call(t, nil)
	s.Post(t, "post_2", artifacts, nil)
	s.Close(t)
	w.Clock.Advance(time.Minute)
	var shown []string
	for _, token := range s.Receipts {
		line, err := archive.Hide(token)
		must(t, err)
		shown = append(shown, line)
	}
	if n := strings.Count(strings.Join(shown, "\n"), archive.HiddenReceipt); n != 2 {
		t.Errorf("%d receipts are hidden", n)
	}
	forged := slices.Clone(shown)
	forged[2] = archive.HiddenReceipt + evidence.HashBytes([]byte("other"))
	for name, tt := range map[string]struct {
		lines  []string
		code   string
		number int64
		hidden int64
		after  int64
	}{
		"whole":                {shown, "", 4, 2, 0},
		"up to a closed one":   {shown[:3], "", 2, 1, 1},
		"made up at the end":   {forged[:3], "", 2, 1, 1},
		"one left out":         {append(slices.Clone(shown[:2]), shown[3]), "chain_incomplete", 0, 0, 0},
		"one too many":         {slices.Insert(slices.Clone(shown), 1, shown[0]), "chain_broken", 0, 0, 0},
		"another in its place": {forged, "chain_broken", 0, 0, 0},
		"one after the end":    {append(slices.Clone(shown), shown[0]), "chain_broken", 0, 0, 0},
		"no hash": {append(slices.Clone(shown[:2]), archive.HiddenReceipt+"x"), "evidence_malformed", 0, 0,
			0},
		"no hash before the first": {append([]string{archive.HiddenReceipt + "x"}, shown...), "evidence_malformed", 0, 0,
			0},
		"closed ones without end":    {slices.Repeat(shown[:1], interaction.MaxReceipts+1), "evidence_malformed", 0, 0, 0},
		"nothing but closed ones":    {shown[:1], "evidence_malformed", 0, 0, 0},
		"a receipt under its number": {append(slices.Clone(shown[:1]), s.Receipts...), "chain_broken", 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := archive.Archive{w.read()}.JudgeReceipts(texts(tt.lines), w.Clock.Now(), nil)
			if got := codeOf(err); err != nil && got != tt.code || err == nil && tt.code != "" {
				t.Fatalf("%v, want %q", err, tt.code)
			}
			if err == nil && (!j.Chain || j.Number != tt.number || j.Hidden != tt.hidden || j.After != tt.after ||
				j.Head != evidence.HashToken(shown[tt.number-1]) || j.Closed != (tt.number == 4)) {
				t.Errorf("%+v", j)
			}
		})
	}
}

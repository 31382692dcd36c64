package archive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func indeterminate(c *interaction.Receipt) { c.Outcome = interaction.OutcomeIndeterminate }

func lost(c *interaction.Receipt) {
	c.RequestID, c.Model, c.Closing = c.Chain.SessionID, nil, &interaction.Closing{Reason: interaction.ClosedLost}
	c.Timing.LLMStart, c.Timing.LLMEnd, c.Timing.ResponseSent = 0, 0, 0
}

// After a crash a sidecar with keys in memory has another key under the same id.
func TestChainOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	s := w.session("ses_1")
	s.Call(t, nil)
	s.Call(t, nil)
	record := w.post("ses_2", evidence.InteractionHead{})
	for _, purpose := range []string{evidence.PurposeInteraction, evidence.PurposeRequestProof} { // in the same second
		w.Restart(t, purpose)
		w.versions[purpose] = []custody.Version{w.Key(t, purpose)}
	}
	w.certify()
	check.WantEqual(t, w.verify(w.read(), record), "")
	s.Restarted(t)
	s.Call(t, indeterminate)
	s.Call(t, lost)
	w.Clock.Advance(time.Minute)
	judgement{s.Receipts, "", archive.JudgedReceipts{Number: 4, Chain: true, Closed: true}}.check(t,
		archive.Archive{w.read()}, w.Clock.Now())
}

// mediator dev has other roots after each start.
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
	stranger := newWorld(t, false).session("ses_1")
	stranger.Receipts = slices.Clone(known)
	stranger.Call(t, indeterminate)
	made := stranger.Receipts[2]
	now := after.Clock.Now().Add(time.Minute)
	closed := before.session("ses_1")
	closed.Receipts = slices.Clone(known)
	closed.Close(t)
	hidden := func(token string) string { return archive.HiddenReceipt + evidence.HashToken(token) }
	old, both := archive.Archive{before.read()}, archive.Archive{after.read(), before.read()}
	for name, tt := range map[string]struct {
		by archive.Archive
		judgement
	}{
		"both roots are pinned": {both, judgement{whole, "",
			archive.JudgedReceipts{Number: 2, Chain: true, Closed: true, Lost: 2, LostVerified: true}}},
		"the earlier ones alone": {old,
			judgement{whole, "", archive.JudgedReceipts{Number: 2, Chain: true, Lost: 2}}},
		"the later ones alone":     {archive.Archive{after.read()}, judgement{tokens: whole, code: "roots_not_pinned"}},
		"a call that was answered": {both, judgement{tokens: next(nil), code: "roots_not_pinned"}},
		"one of unknown roots before them": {both, judgement{slices.Insert(slices.Clone(whole), 2, made), "",
			archive.JudgedReceipts{Number: 2, Chain: true, Lost: 3}}},
		"one of unknown roots among them": {both, judgement{slices.Insert(slices.Clone(whole), 3, made), "",
			archive.JudgedReceipts{Number: 2, Chain: true, Lost: 3}}},
		"one of unknown roots after them": {both, judgement{append(slices.Clone(whole), made), "",
			archive.JudgedReceipts{Number: 2, Chain: true, Lost: 3}}},
		"after the end of the chain": {old,
			judgement{tokens: append(slices.Clone(closed.Receipts), made), code: "chain_broken"}},
		"a hidden one among them": {both, judgement{append(whole[:2:2], hidden(whole[2]), whole[3]), "",
			archive.JudgedReceipts{Number: 2, Chain: true, Closed: true, Hidden: 1, Lost: 1, LostVerified: true}}},
		"a made up one after them": {both, judgement{tokens: append(whole[:4:4], hidden(made)), code: "chain_broken"}},
		"a made up one after unknown ones": {old, judgement{append(whole[:4:4], hidden(made)), "",
			archive.JudgedReceipts{Number: 2, Chain: true, Lost: 2, After: 1}}},
		"after a gap": {both,
			judgement{tokens: append(slices.Clone(known[:1]), whole[2:]...), code: "chain_broken"}},
		"with a gap": {both, judgement{tokens: append(slices.Clone(known), whole[3]), code: "chain_broken"}},
	} {
		t.Run(name, func(t *testing.T) { tt.check(t, tt.by, now) })
	}
	v, err := before.read().Verify(t.Context(), r, archive.ReceiptsOf(whole), now)
	if err != nil || !v.Whole || !v.Interactions.Verified {
		t.Errorf("the record: %+v, %v", v, err)
	}
}

// A chain with hashes in place of the receipts of posts verifies, and confirms no guess.
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
	judged := func(number, hidden, after int64) archive.JudgedReceipts {
		return archive.JudgedReceipts{Number: number, Chain: true, Closed: number == 4, Hidden: hidden, After: after}
	}
	for name, j := range map[string]judgement{
		"whole":              {shown, "", judged(4, 2, 0)},
		"up to a closed one": {shown[:3], "", judged(2, 1, 1)},
		"made up at the end": {forged[:3], "", judged(2, 1, 1)},

		"one left out":         {tokens: append(slices.Clone(shown[:2]), shown[3]), code: "chain_incomplete"},
		"one too many":         {tokens: slices.Insert(slices.Clone(shown), 1, shown[0]), code: "chain_broken"},
		"another in its place": {tokens: forged, code: "chain_broken"},
		"one after the end":    {tokens: append(slices.Clone(shown), shown[0]), code: "chain_broken"},
		"no hash": {tokens: append(slices.Clone(shown[:2]), archive.HiddenReceipt+"x"),
			code: "evidence_malformed"},
		"no hash before the first": {tokens: append([]string{archive.HiddenReceipt + "x"}, shown...),
			code: "evidence_malformed"},
		"closed ones without end": {tokens: slices.Repeat(shown[:1], interaction.MaxReceipts+1),
			code: "evidence_malformed"},
		"nothing but closed ones":    {tokens: shown[:1], code: "evidence_malformed"},
		"a receipt under its number": {tokens: append(slices.Clone(shown[:1]), s.Receipts...), code: "chain_broken"},
	} {
		t.Run(name, func(t *testing.T) { j.check(t, archive.Archive{w.read()}, w.Clock.Now()) })
	}
}

// After one of the two roots was replaced, both trusts have the other one: a record stays with the roots of its time.
func TestOneRootReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(w *world){
		"registry": func(w *world) { w.newRegistry(false) },
		"auditor": func(w *world) {
			w.Rotate(t, evidence.PurposeDeploymentCertificate)
			w.writeAuditor()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			s := w.session("ses_1")
			s.Call(t, nil)
			records := []ledger.Record{w.Post(t), w.Post(t), {}}
			records[1].State, records[1].Artifacts = ledger.StateRefused, records[1].Artifacts[:4]
			earlier := t.TempDir()
			must(t, os.CopyFS(filepath.Join(earlier, "1"), os.DirFS(filepath.Dir(w.files.Bundle))))
			paths, err := archive.HistoryFiles(w.files.Bundle)
			must(t, err)
			for _, path := range append(paths, w.files.Bundle) {
				must(t, os.Remove(path))
			}
			replace(w)
			w.Clock.Advance(time.Hour)
			w.putDeployment()
			w.certify()
			w.Clock.Advance(3 * time.Second)
			records[2] = w.Post(t)
			for i := range records {
				records[i].ID = fmt.Sprint("post_", i)
			}
			before, err := archive.ReadEarlier(earlier, w.files)
			must(t, err)
			all := archive.Join(w.read(), before)
			wantOutcomes(t, export(t, all, records...), all, w.Clock.Now(), "verified", "incomplete", "verified")
			judgement{s.Receipts, "", archive.JudgedReceipts{Number: 1, Chain: true}}.check(t, all, w.Clock.Now())

			// With a key that is revoked today, a thief makes records of before.
			w.revoke(evidence.RevokedKey, w.Key(t, evidence.PurposeTriggerOriginProof).KeyID(), 24*time.Hour)
			w.revoke(evidence.RevokedKey, w.Key(t, evidence.PurposeInteraction).KeyID(), 24*time.Hour)
			all = archive.Join(w.read(), before)
			want := slices.Repeat([]string{"refused revoked"}, len(records))
			wantOutcomes(t, export(t, all, records...), all, w.Clock.Now(), want...)
			if name == "auditor" { // with another registry a session has another owner
				judgement{s.Receipts, "revoked", archive.JudgedReceipts{}}.check(t, all, w.Clock.Now())
			}
		})
	}
}

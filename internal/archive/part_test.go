package archive_test

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestRecordInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	post := w.Post(t)
	forged := func(name string) ledger.Artifact { return ledger.Artifact{Name: name, Token: "eyJ." + name} }
	cut := func(names string, more ...ledger.Artifact) ledger.Record {
		r := post
		r.State, r.Artifacts = ledger.StateRefused, slices.Clone(more)
		for _, a := range post.Artifacts {
			if slices.Contains(strings.Fields(names), a.Name) {
				r.Artifacts = append(r.Artifacts, a)
			}
		}
		return r
	}
	for _, r := range []ledger.Record{
		cut("challenge", forged("triggerReceipt")),
		cut("challenge originProof triggerReceipt", forged("reputation")),
	} {
		wantOutcomes(t, export(t, archive.Archive{w.read()}, r), w.pins(), w.Clock.Now(), "refused artifacts_mismatch")
	}
	wantOutcomes(t, export(t, archive.Archive{w.read()}, cut("challenge originProof")), w.pins(), w.Clock.Now(),
		"incomplete")
}

func TestHistoryThatVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	old := w.Post(t)
	old.State, old.Artifacts = ledger.StateRefused, old.Artifacts[:3:3]
	w.rotateAll()
	w.certify()
	w.Clock.Advance(2 * time.Hour)
	w.rotateAll()
	w.certify()
	w.Clock.Advance(3 * time.Second)
	trust := w.read()
	if code := w.verify(trust, w.Post(t)); code != "" {
		t.Fatal(code)
	}
	paths, err := archive.HistoryFiles(w.files.Bundle)
	must(t, err)
	for _, path := range paths {
		must(t, os.Remove(path))
	}
	for j := range (archive.Archive{trust}).NewJudge(nil, w.Clock.Now()).Records(t.Context(), list(old)) {
		if j.Outcome != archive.Refused {
			t.Errorf("the record is %s", j.Outcome)
		}
	}
}

func TestRecordWithoutEvidence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	made, denied, read := w.Post(t), w.Post(t), w.Post(t)
	made.Artifacts, denied.Artifacts, read.Artifacts = nil, nil, nil
	denied.State, read.Flow = ledger.StateRefused, "read"
	var got []string
	for j, err := range (archive.Archive{w.read()}).NewJudge(nil, w.Clock.Now()).Records(t.Context(),
		list(made, denied, read)) {
		must(t, err)
		got = append(got, string(j.Outcome)+" "+j.Code)
	}
	if !slices.Equal(got, []string{"refused artifact_missing"}) {
		t.Errorf("%q", got)
	}
}

func TestRevokedVersionStaysRevoked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const day = 24 * time.Hour
	// its certificate ends before that
	w.revoke(evidence.RevokedKey, w.Key(t, evidence.PurposeActionGrant).KeyID(), 100*day)
	for range 3 {
		w.Clock.Advance(50 * day)
		w.putDeployment()
		w.certify()
	}
	w.Clock.Advance(time.Minute)
	if _, err := gatetest.Admit(t.Context(), w.Gate, w.Chain(t), new(gatetest.Used).Consume); codeOf(err) != "revoked" {
		t.Errorf("got %q: %v", codeOf(err), err)
	}
}

// TestArtifactTwice is about a ledger that others write: of two session receipts, only the last would be verified, but
// the first would say on which interaction receipts the post rests.
func TestArtifactTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	records, _ := posted(t, w, "ses_1")
	r := records[0]
	for _, a := range r.Artifacts {
		if a.Name == "sessionReceipt" {
			parts := strings.Split(a.Token, ".")
			claims, err := base64.RawURLEncoding.DecodeString(parts[1])
			must(t, err)
			forged := strings.Replace(string(claims), r.Interactions.Head, strings.Repeat("0", 64), 1)
			a.Token = parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(forged)) + "." + parts[2]
			r.Artifacts = append([]ledger.Artifact{a}, r.Artifacts...)
			break
		}
	}
	r.Interactions = &ledger.Standing{Number: r.Interactions.Number, Head: strings.Repeat("0", 64)}
	a := archive.Archive{w.read()}
	removed := func(context.Context, string, int64, int) ([]string, error) { return nil, nil }
	for judged, err := range a.NewJudge(removed, w.Clock.Now()).Records(t.Context(), list(r)) {
		must(t, err)
		if judged.Outcome != archive.Refused || judged.Code != "evidence_malformed" {
			t.Errorf("%s %s; not proven: %v", judged.Outcome, judged.Code, judged.Unproven)
		}
	}
	if _, err := archive.Export(t.Context(), io.Discard, a, list(r), removed, nil); codeOf(err) != "evidence_malformed" {
		t.Errorf("an export that no reader takes: %v", err)
	}
}

package archive_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/gatetest"
)

func TestAppraised(t *testing.T) {
	t.Parallel()
	w, before := newWorld(t, false, gatetest.Autonomous), newWorld(t, false, gatetest.Autonomous)
	tokens := make(map[*world]string)
	for _, w := range []*world{w, before} {
		w.Appraise(t)
		w.publish(evidence.PurposeAppraiser)
		w.certify()
		w.Clock.Advance(time.Minute)
		tokens[w] = w.Reputation(t, w.Agent(t), 3, 50)
	}
	dir := t.TempDir()
	must(t, os.Rename(filepath.Dir(before.files.Bundle), filepath.Join(dir, "20260101")))
	earlier, err := archive.ReadEarlier(dir, w.files)
	must(t, err)
	all := func() archive.Archive { return append(archive.Archive{w.read()}, earlier...) }
	now := w.Clock.Now().Add(30 * 24 * time.Hour) // the tokens are over, and were not when they were signed
	judge := func(a archive.Archive, token string) string {
		t.Helper()
		c, err := archive.JudgeAppraised(a, accrual.Kind, token, now)
		if err == nil && c.TotalSessions != 3 {
			t.Errorf("%+v", c)
		}
		if err == nil {
			return ""
		}
		return codeOf(err)
	}
	own, old := tokens[w], tokens[before]
	for _, tt := range []struct{ name, token, code string }{
		{"today's", own, ""}, {"of earlier roots", old, ""},
		{"altered", own[:strings.LastIndexByte(own, '.')] + old[strings.LastIndexByte(old, '.'):], "signature_invalid"},
	} {
		if got := judge(all(), tt.token); got != tt.code {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.code)
		}
	}
	if got := judge(archive.Archive{w.read()}, gatetest.Resign(t, w.Kit, accrual.Kind, own, "iss", "x")); got !=
		"key_purpose" {
		t.Errorf("under another name: %q", got)
	}
	if got := judge(archive.Archive{w.read()}, old); got == "" {
		t.Error("a token of roots that are not pinned is believed")
	}
	if _, err := archive.JudgeAppraised(all(), verification.Kind, own, now); codeOf(err) != "artifact_malformed" {
		t.Errorf("a reputation as a verification: %v", err)
	}
	for beside, want := range map[string]string{`{"total_sessions": 3, "token": "x"}`: "",
		`{"total_sessions": 4}`: "evidence_malformed", `{"Total_Sessions": 3}`: "evidence_malformed",
		`{"disputes_lost": 1}`: "evidence_malformed", `{"rating": {"r": 99}}`: "evidence_malformed"} {
		var members map[string]json.RawMessage
		must(t, json.Unmarshal([]byte(beside), &members))
		if err := archive.NotOtherwise(members, own, accrual.Claims{}); (err != nil || want != "") && codeOf(err) != want {
			t.Errorf("%s beside a reputation: %v", beside, err)
		}
	}
	alone := func() archive.Archive { // the bundle as the node shows it, without manifests
		files := w.files
		files.Bundle = filepath.Join(t.TempDir(), "trust.json")
		bundle := w.read().Bundle
		bundle.History = nil
		raw, err := json.Marshal(bundle)
		must(t, err)
		w.write(files.Bundle, raw)
		trust, err := archive.Read(files, "")
		must(t, err)
		return archive.Archive{trust}
	}
	if of, others := judge(alone(), own), judge(alone(), old); of != "" || others == "" {
		t.Errorf("without a manifest: %q, and of other roots %q", of, others)
	}
	w.said.AccessibleToAgent = true
	w.certify()
	if got := judge(alone(), own); got != "key_custody" {
		t.Errorf("without a manifest, with a key that the agent can reach: %q", got)
	}
	w.revoke("key", w.Key(t, evidence.PurposeAppraiser).KeyID(), 90*24*time.Hour)
	for _, a := range []archive.Archive{{w.read()}, alone()} {
		if got := judge(a, own); got != "revoked" {
			t.Errorf("with a key that is revoked: %q", got)
		}
	}
}

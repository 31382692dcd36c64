package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestPins: a stranger verifies tokens of each age by what the node shows, until their key is revoked.
func TestPins(t *testing.T) {
	t.Parallel()
	k, dir := gatetest.New(t, gatetest.Autonomous), t.TempDir()
	k.Appraise(t)
	files := config.Trust{Registry: filepath.Join(dir, "registry.jwk"), Auditor: filepath.Join(dir, "auditor.jwk"),
		Bundle: filepath.Join(dir, "trust.json")}
	write := func(path string, v any) {
		t.Helper()
		raw, err := json.Marshal(v)
		check.Must(t, err, os.WriteFile(path, raw, 0o600))
	}
	root, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	public, err := root.JWK()
	check.Must(t, err)
	write(files.Registry, json.RawMessage(public))
	write(files.Auditor, custody.JWK(k.Key(t, evidence.PurposeDeploymentCertificate)))
	signers := k.Manifest.SignerCertificatePolicy
	registry := keyring.NewRegistry(root, signer.Options{Issuer: signers.AllowedIssuers[0],
		Audience: signers.AllowedAudiences[0], Lifetime: 12 * time.Hour, Now: k.Clock.Now}, files.Bundle)
	p := &process{config: new(config.Reputation)}
	p.config.Trust = files
	p.config.Keys.Appraiser.Key = evidence.KeyName(k.Key(t, evidence.PurposeAppraiser).KeyID())
	roles := make(map[string]*daemon.RoleDocument)
	for _, purpose := range []string{evidence.PurposeAppraiser, evidence.PurposeRuntimeAttestation} {
		roles[purpose] = &daemon.RoleDocument{Purpose: purpose, Issuer: k.Issuer(purpose),
			KeyCustody: evidence.CustodyExternalMediator}
	}
	certify := func() {
		t.Helper()
		var all keyring.Published
		for purpose, role := range roles {
			key := jose.JSONWebKey(custody.JWK(k.Key(t, purpose)))
			if n := len(role.Keys); n == 0 || role.Keys[n-1].KeyID != key.KeyID {
				role.Keys = append(role.Keys, key)
			}
			all.Roles = append(all.Roles, *role)
		}
		_, err := registry.Certify(t.Context(), all, keyring.Declaration{})
		check.Must(t, err)
		k.Clock.Advance(time.Minute)
	}
	judge := func(token string, withHistory bool) string {
		t.Helper()
		text, err := p.readPins()
		check.Must(t, err)
		var shown pins
		check.Must(t, json.Unmarshal(text, &shown))
		for _, token := range shown.History.Certificates {
			c, err := evidence.UnverifiedClaims(evidence.SignerCertificateKind(), token)
			if err != nil || c.Purposes[0] != evidence.PurposeAppraiser {
				t.Errorf("the history has a certificate for %v, %v", c.Purposes, err)
			}
		}
		other := t.TempDir()
		of := config.Trust{Registry: files.Registry, Auditor: files.Auditor, Bundle: filepath.Join(other, "trust.json")}
		write(of.Bundle, shown.Bundle)
		if withHistory {
			write(filepath.Join(other, "trust-history.json"), shown.History)
		}
		trust, err := archive.Read(of, "")
		check.Must(t, err)
		_, err = archive.JudgeAppraised(archive.Archive{trust}, accrual.Kind, token, k.Clock.Now())
		if err == nil {
			return "good"
		}
		return refusal.CodeOf(err)
	}
	certify()
	old := k.Reputation(t, k.Agent(t), 3, 50)
	if got := judge(old, true); got != "good" {
		t.Errorf("a new token: %s", got)
	}
	revoked := evidence.KeyIDOf(old)
	for p.shown.segments == 0 { // the history grows meanwhile
		k.Clock.Advance(12 * time.Hour)
		certify()
		_, err := p.readPins()
		check.Must(t, err)
	}
	if with, without := judge(old, true), judge(old, false); with != "good" || without == "good" {
		t.Errorf("a token from before the newest certificate: %s, and without the history %s", with, without)
	}
	k.Rotate(t, evidence.PurposeAppraiser)
	certify()
	later := k.Reputation(t, k.Agent(t), 3, 50)
	roles[evidence.PurposeAppraiser].Keys = roles[evidence.PurposeAppraiser].Keys[1:] // the first one is retired
	k.Clock.Advance(12 * time.Hour)
	certify()
	for _, token := range []string{old, later} {
		if got := judge(token, true); got != "good" {
			t.Errorf("after a rotation: %s", got)
		}
	}
	_, err = registry.Revoke(t.Context(), []evidence.Revocation{{Kind: evidence.RevokedKey, ID: revoked,
		Reason: "stolen", Expires: k.Clock.Now().Add(24 * time.Hour).Unix()}}, func(string) {})
	check.Must(t, err)
	k.Clock.Advance(48 * time.Hour) // then the bundle's list has no longer the entry
	certify()
	if got, of := judge(old, true), judge(later, true); got != "revoked" || of != "good" {
		t.Errorf("after a revocation: %s, and by the key's next version %s", got, of)
	}
	core, lines := observer.New(zap.ErrorLevel)
	p.strangers, p.shown = zap.New(core), shown{}
	check.Must(t, os.WriteFile(archive.SegmentFile(files.Bundle, 1), []byte("{"), 0o600))
	latest := k.Reputation(t, k.Agent(t), 3, 50)
	if got, of := judge(latest, true), judge(later, true); got != "good" || of == "good" || lines.Len() == 0 {
		t.Errorf("without its history: a new token %s, an old one %s, %d lines logged", got, of, lines.Len())
	}
}

// TestHistoryBegunAnew: nothing of a history's first segment is shown after another history has one segment less.
func TestHistoryBegunAnew(t *testing.T) {
	t.Parallel()
	bundle := filepath.Join(t.TempDir(), "trust.json")
	check.Must(t, os.WriteFile(archive.SegmentFile(bundle, 1), []byte(`{"certificates":[],"revocations":[]}`), 0o600))
	s := shown{segments: 1, whole: evidence.History{Certificates: []string{"old"}, Revocations: []string{"old"}}}
	h, err := s.earlier(bundle, nil, "key")
	check.Must(t, err)
	if len(h.Certificates) > 0 || s.segments > 0 {
		t.Errorf("%v, %d segments", h, s.segments)
	}
}

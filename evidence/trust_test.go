package evidence_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
)

func version(t *testing.T, name string) (*custody.Memory, custody.Version) {
	t.Helper()
	k, err := custody.NewMemory(name)
	must(t, err)
	v, err := k.Current(context.Background())
	must(t, err)
	return k, v
}

func TestTrustThatIsRefused(t *testing.T) {
	registry, root := version(t, "registry")
	stranger, _ := version(t, "registry")
	_, subject := version(t, "k")
	_, other := version(t, "k")
	roots := []evidence.Root{{KeyID: root.KeyID(), Public: root.Public(), Purpose: evidence.PurposeSignerCertificate}}
	certificate := func(by *custody.Memory, change func(*evidence.SignerCertificate)) string {
		t.Helper()
		i, err := signer.New(evidence.SignerCertificateKind, by, signer.Options{Issuer: "registry", Audience: "api", Lifetime: time.Hour, Now: func() time.Time { return noon }})
		must(t, err)
		c := evidence.SignerCertificate{KeyCustody: "external_mediator", Purposes: []string{"request_proof"}, SubjectIssuer: "m", SubjectKeyID: subject.KeyID(),
			SubjectPublicKey: evidence.EncodePublicKey(subject.Public()), SubjectPublicKeyHash: evidence.HashBytes(subject.Public())}
		if change != nil {
			change(&c)
		}
		token, _, err := i.Sign(context.Background(), c)
		must(t, err)
		return token
	}
	good := certificate(registry, nil)
	if _, err := evidence.NewTrust(roots, evidence.Bundle{Certificates: []string{good}}, evidence.SignerPolicy{}); err != nil {
		t.Fatal(err)
	}
	swap := func(c *evidence.SignerCertificate) {
		c.SubjectPublicKey, c.SubjectPublicKeyHash = evidence.EncodePublicKey(other.Public()), evidence.HashBytes(other.Public())
	}
	for name, tt := range map[string]struct {
		roots []evidence.Root
		certs []string
		code  string
	}{
		"a certificate by nobody":          {nil, []string{good}, "certificate_untrusted"},
		"a certificate by another key":     {roots, []string{certificate(stranger, nil)}, "signature_invalid"},
		"another key's hash":               {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.SubjectPublicKeyHash = evidence.HashBytes(nil) })}, "certificate_key_mismatch"},
		"a key that is none":               {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.SubjectPublicKey = "!" })}, "certificate_key_mismatch"},
		"a key of small order":             {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.SubjectPublicKey = strings.Repeat("A", 43) })}, "key_malformed"},
		"one key id for two keys":          {roots, []string{good, certificate(registry, swap)}, "certificate_key_mismatch"},
		"a root as its subject":            {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.SubjectKeyID = root.KeyID() })}, "certificate_untrusted"},
		"a root's purpose, the auditor's":  {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.Purposes = []string{evidence.PurposeDeploymentCertificate} })}, "certificate_untrusted"},
		"a root's purpose, the registry's": {roots, []string{certificate(registry, func(c *evidence.SignerCertificate) { c.Purposes = []string{evidence.PurposeSignerCertificate} })}, "certificate_untrusted"},
		"one bad among good":               {roots, []string{good, "x"}, "jws_malformed"},
		"a root that is pinned twice":      {append(roots, roots...), nil, "trust_malformed"},
		"a root with a signer's purpose":   {[]evidence.Root{{KeyID: "r", Public: root.Public(), Purpose: "request_proof"}}, nil, "trust_malformed"},
		"a root of small order":            {[]evidence.Root{{KeyID: "r", Public: make([]byte, 32), Purpose: evidence.PurposeSignerCertificate}}, nil, "key_malformed"},
		"too many certificates":            {roots, make([]string, 1025), "trust_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.NewTrust(tt.roots, evidence.Bundle{Certificates: tt.certs}, evidence.SignerPolicy{})
			wantCode(t, err, tt.code)
		})
	}
}

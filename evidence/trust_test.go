package evidence_test

import (
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
)

func version(t *testing.T, name string) (*custody.Memory, custody.Version) {
	t.Helper()
	k, err := custody.NewMemory(name)
	check.Must(t, err)
	v, err := k.Current(t.Context())
	check.Must(t, err)
	return k, v
}

// TestTrustThatIsRefused: what the golden vectors do not show.
func TestTrustThatIsRefused(t *testing.T) {
	registry, root := version(t, "registry")
	_, subject := version(t, "k")
	roots := []evidence.Root{{KeyID: root.KeyID(), Public: root.Public(), Purpose: evidence.PurposeSignerCertificate}}
	certificate := func(purpose string) string {
		t.Helper()
		token, _ := sign(t, evidence.SignerCertificateKind(), registry,
			signer.Options{Issuer: "registry", Audience: "api", Lifetime: time.Hour, Now: func() time.Time { return noon }},
			certificateFor(subject, purpose, "m"))
		return token
	}
	good := certificate(evidence.PurposeRequestProof)
	if _, err := evidence.NewTrust(roots, evidence.Bundle{Certificates: []string{good}}, evidence.SignerPolicy{}); err !=
		nil {
		t.Fatal(err)
	}
	header, payload := parts(t, good)
	forged := forge(t, root, header,
		strings.Replace(payload, `"purposes":["request_proof"]`, `"purposes":["request_proof","action_grant"]`, 1))
	ofRoot := certificateFor(subject, evidence.PurposeRequestProof, "m")
	ofRoot.SubjectKeyID = root.KeyID()
	rooted, _ := sign(t, evidence.SignerCertificateKind(), registry,
		signer.Options{Issuer: "registry", Audience: "api", Lifetime: time.Hour, Now: func() time.Time { return noon }},
		ofRoot)
	for name, tt := range map[string]struct {
		roots []evidence.Root
		certs []string
		code  string
	}{
		"a certificate by nobody": {nil, []string{good}, "key_unknown"},
		"a root as its subject":   {roots, []string{rooted}, "key_unknown"},
		"a root's key under another id": {
			[]evidence.Root{roots[0],
				{KeyID: "auditor:v1", Public: subject.Public(), Purpose: evidence.PurposeDeploymentCertificate}},
			[]string{
				good}, "key_unknown"},
		"a root's purpose, the auditor's": {roots, []string{certificate(evidence.PurposeDeploymentCertificate)},
			"key_unknown"},
		"claims that are none": {roots, []string{forged}, "artifact_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.NewTrust(tt.roots, evidence.Bundle{Certificates: tt.certs}, evidence.SignerPolicy{})
			wantCode(t, err, tt.code)
		})
	}
}

// TestSharedKey: a key with two purposes is believed for neither. One purpose may have two names, after a renaming.
func TestSharedKey(t *testing.T) {
	d := newDesk(t)
	proof, _ := d.proof(t)
	v, err := d.key.Current(t.Context())
	check.Must(t, err)
	for name, tt := range map[string]struct {
		kid, purpose string
		issued       time.Time
		code         string
	}{
		"another id and purpose":               {"grant-key:v1", evidence.PurposeActionGrant, noon, "key_purpose"},
		"another id, the same purpose":         {"renamed-key:v1", evidence.PurposeRequestProof, noon, ""},
		"the same id, another purpose, before": {v.KeyID(), evidence.PurposeActionGrant, noon.Add(-time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := certificateFor(v, tt.purpose, "m")
			c.SubjectKeyID = tt.kid
			again, _ := sign(t, evidence.SignerCertificateKind(), d.registry, d.options("registry", tt.issued), c)
			for _, certificates := range [][]string{append([]string{again}, d.certificates...),
				append(d.certificates[:1:1], again)} {
				d := *d
				d.certificates = certificates
				wantCode(t, d.open(t, proof, "", noon), tt.code)
			}
		})
	}
}

// TestSignerPolicy: what the golden vectors do not show.
func TestSignerPolicy(t *testing.T) {
	type certificate = evidence.SignerCertificate
	for name, change := range map[string]func(*certificate, *evidence.SignerPolicy){
		"as it is": func(*certificate, *evidence.SignerPolicy) {},
		"the strictest policy": func(_ *certificate, p *evidence.SignerPolicy) {
			p.DenyAgentAccessible, p.DenyUserAccessible, p.RequireNonExportable = true, true, true
		},
		"the agent can reach it, which may be": func(c *certificate, _ *evidence.SignerPolicy) { c.AccessibleToAgent = true },
		"users can reach it, which may be":     func(c *certificate, _ *evidence.SignerPolicy) { c.AccessibleToUsers = true },
	} {
		t.Run(name, func(t *testing.T) {
			registry, root := version(t, "registry")
			key, v := version(t, "k")
			c := certificateFor(v, evidence.PurposeTriggerReceipt, "trigger")
			policy := evidence.SignerPolicy{Expected: expect("registry", "registry")}
			policy.MaxAge = time.Hour
			change(&c, &policy)
			token, _ := sign(t, evidence.SignerCertificateKind(), registry,
				signer.Options{Issuer: "registry", Audience: "api", Lifetime: time.Hour, Now: func() time.Time {
					return noon.Add(-30 * time.Minute)
				}}, c)
			trust, err := evidence.NewTrust(
				[]evidence.Root{{KeyID: root.KeyID(), Public: root.Public(),
					Purpose: evidence.PurposeSignerCertificate}},
				evidence.Bundle{Certificates: []string{token}}, policy)
			check.Must(t, err)
			verifier := verifierAt(t, trust, noon)
			h, o := evidence.HashBytes(nil), options()
			o.Issuer = "trigger"
			receipt, _ := sign(t, evidence.TriggerReceiptKind(), key, o,
				evidence.TriggerReceipt{BindingHash: h, EventID: "e", Kind: "k", OriginProofHash: h, PayloadHash: h,
					Source: "s"})
			want := expect("trigger", "k")
			_, err = evidence.Open(verifier, evidence.TriggerReceiptKind(), receipt, want)
			check.Must(t, err)
			want.Custody = []string{evidence.CustodyHardwareBacked}
			_, err = evidence.Open(verifier, evidence.TriggerReceiptKind(), receipt, want)
			wantCode(t, err, "key_custody")
		})
	}
}

// TestTwoCertificatesOfOneKey: the later one counts; of one second, the one that stands later.
func TestTwoCertificatesOfOneKey(t *testing.T) {
	d := newDesk(t)
	certificate := func(issuer string, at time.Duration) string {
		v, err := d.key.Current(t.Context())
		check.Must(t, err)
		token, _ := sign(t, evidence.SignerCertificateKind(), d.registry, d.options("registry", noon.Add(at)),
			certificateFor(v, evidence.PurposeRequestProof, issuer))
		return token
	}
	token, _ := d.proof(t)
	for name, tt := range map[string]struct {
		certificates []string
		code         string
	}{
		"renewed":                {[]string{certificate("other", -1*time.Second), certificate("mediator", 0)}, ""},
		"renewed, the new first": {[]string{certificate("mediator", 0), certificate("other", -1*time.Second)}, ""},
		"taken away": {[]string{certificate("mediator", -1*time.Second), certificate("other", 0)},
			"key_purpose"},
		"taken away, the new first": {[]string{certificate("other", 0), certificate("mediator", -1*time.Second)},
			"key_purpose"},
		"of one second": {[]string{certificate("other", 0), certificate("mediator", 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d.certificates = tt.certificates
			wantCode(t, d.open(t, token, "", noon), tt.code)
		})
	}
}

func TestRootThatIsNotTheOne(t *testing.T) {
	d := newDesk(t)
	auditor, v := version(t, "auditor")
	trust, err := evidence.NewTrust(
		[]evidence.Root{d.root, {KeyID: v.KeyID(), Public: v.Public(), Purpose: evidence.PurposeDeploymentCertificate}},
		evidence.Bundle{Certificates: d.certificates}, d.policy)
	check.Must(t, err)
	verifier := verifierAt(t, trust, noon)
	stranger, _ := version(t, "stranger")
	for name, tt := range map[string]struct {
		key  *custody.Memory
		code string
	}{
		"the auditor": {auditor, ""}, "nobody": {stranger, "key_unknown"}, "a role": {d.key, "key_purpose"},
		"the registry": {d.registry, "key_purpose"},
	} {
		t.Run(name, func(t *testing.T) {
			token, _ := sign(t, evidence.DeploymentCertificateKind(), tt.key, d.options("auditor", noon), aDeployment())
			want := expect("auditor", "auditor", "stranger", "proof-key", "registry")
			want.Custody, want.RequireNonExportable = []string{evidence.CustodyHardwareBacked}, true
			_, err = evidence.Open(verifier, evidence.DeploymentCertificateKind(), token, want)
			wantCode(t, err, tt.code)
		})
	}
}

func TestVerifierNeedsTrustAndClock(t *testing.T) {
	trust, now := newDesk(t).trust(t, ""), func() time.Time { return noon }
	for name, tt := range map[string]struct {
		trust *evidence.Trust
		o     evidence.VerifierOptions
		ok    bool
	}{
		"no trust": {nil, evidence.VerifierOptions{Now: now}, false}, "no clock": {trust, evidence.VerifierOptions{}, false},
		"both":                             {trust, evidence.VerifierOptions{Now: now}, true},
		"the most that clocks may differ":  {trust, evidence.VerifierOptions{Now: now, Skew: evidence.MaxSkew}, true},
		"more":                             {trust, evidence.VerifierOptions{Now: now, Skew: evidence.MaxSkew + 1}, false},
		"a clock difference below nothing": {trust, evidence.VerifierOptions{Now: now, Skew: -1}, false},
	} {
		if v, err := evidence.NewVerifier(tt.trust, tt.o); (err == nil) != tt.ok || (v != nil) != tt.ok {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
}

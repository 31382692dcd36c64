package differential

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// deployment makes another deployment, and chains in it.
func (m *maker) deployment() {
	edits := []func(*policy.Manifest){
		func(*policy.Manifest) {},
		func(p *policy.Manifest) { p.SignerCertificatePolicy.MaxRevocationListAgeMs = time.Hour.Milliseconds() },
		func(p *policy.Manifest) {
			p.RuntimePolicy.AllowedRuntimeIDs = nil
			p.RuntimePolicy.AlsoEnvironmentHashes = []string{evidence.HashBytes(nil)}
		},
		func(p *policy.Manifest) {
			p.RuntimePolicy.AllowedTriggerKinds = []string{evidence.TriggerSourceEvent}
			p.MaxCapabilityAgeMs, p.RequestProofPolicy.MaxProofAgeMs = 1000, 2500
		},
		func(p *policy.Manifest) {
			p.GrantPolicy.AllowedKeyIDs = []string{p.GrantPolicy.AllowedKeyIDs[0] + ":v1"}
			origin := &p.RuntimePolicy.TriggerReceiptPolicy.OriginProofPolicy
			origin.RequiredEvidenceHash = evidence.HashBytes([]byte("delivery"))
		},
		gatetest.Autonomous, gatetest.Speaking, gatetest.Signing,
		func(p *policy.Manifest) {
			p.AgentSessionReceiptPolicy.AllowedRuntimeIDs, p.RuntimePolicy.AllowedRuntimeIDs = []string{"pods/*"}, nil
			p.InteractionReceiptPolicy, p.RuntimePolicy.DeniedTriggerKinds = nil, nil
			p.EgressCeiling = []policy.EgressPattern{{URL: "https://*.example.com", Methods: []string{"GET"}}}
		},
	}
	m.kit = gatetest.New(m.t, one(m, edits...))
	m.raw = m.rnd.IntN(4) == 0
	if m.kit.Strict.Signers.MaxRevocationAge > 0 {
		m.kit.Revoke(m.t)
		m.kit.Verifier.SetTrust(m.kit.Trust(m.t))
	}
	m.judge = nil
	m.prepare()
}

// trusted writes the deployment's trust with a fault, or none, and reports whether the gate accepts it.
func (m *maker) trusted() bool {
	m.clock(m.kit.Clock.Now())
	f := m.files()
	switch m.rnd.IntN(8) {
	case 0:
		m.fault = "manifest:"
		f.Manifest = m.claims(f.Manifest)
	case 1:
		m.fault = "manifest spelled otherwise"
		f.Manifest = m.text(f.Manifest)
	case 2:
		m.fault = "bundle spelled otherwise"
		f.Bundle = m.text(f.Bundle)
	case 3, 4, 5:
		m.fault = "bundle:"
		f.Bundle = m.bundle(f.Bundle)
	case 6:
		m.roots(&f)
	}
	for _, text := range []*string{&f.Registry, &f.Manifest, &f.Bundle} { // a line of JSON holds no other bytes
		*text = strings.ToValidUTF8(*text, "\uFFFD")
	}
	return m.open(f)
}

// open writes a trust, and reports whether the gate accepts it.
func (m *maker) open(f Trust) bool {
	j, err := open(f)
	status, code := "verified", "ok"
	if err != nil {
		status, code = statusOf(check.CodeOf(err), false)
	} else {
		m.judge = j
	}
	m.write(Line{Trust: &f, Status: status, Code: code})
	return err == nil
}

// emptyTexts writes a trust for each list of a manifest with all policies, with an empty text in the list.
func (m *maker) emptyTexts() {
	m.kit = gatetest.New(m.t, gatetest.Autonomous, gatetest.Speaking, gatetest.Signing)
	f := m.files()
	var manifest map[string]any
	check.Must(m.t, json.Unmarshal([]byte(f.Manifest), &manifest))
	m.emptyTextsIn(manifest, func(name string) {
		m.clock(m.kit.Clock.Now())
		m.fault = "manifest: empty text in " + name
		raw, err := json.Marshal(manifest)
		check.Must(m.t, err)
		f.Manifest = string(raw)
		m.open(f)
	})
}

func (m *maker) emptyTextsIn(object map[string]any, changed func(name string)) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch v := object[name].(type) {
		case map[string]any:
			m.emptyTextsIn(v, func(inner string) { changed(name + "." + inner) })
		case []any:
			object[name] = append(slices.Clip(v), "")
			changed(name)
			object[name] = v
		}
	}
}

// files are the deployment's own.
func (m *maker) files() Trust {
	files := m.kit.Files(m.t, m.t.TempDir())
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		check.Must(m.t, err)
		return string(raw)
	}
	return Trust{Registry: read(files.Registry), Auditor: read(files.Auditor), Manifest: read(files.Manifest),
		Bundle: read(files.Bundle), Secret: read(files.Secret), Name: files.Name, Subject: "agent:worker-1",
		Action: "create_post", Raw: m.raw}
}

func (m *maker) roots(f *Trust) {
	m.fault = "roots"
	key := m.kit.Key(m.t, evidence.PurposeSignerCertificate).Public()
	x := evidence.EncodePublicKey(key)
	with := func(x string) string { return strings.Replace(f.Registry, evidence.EncodePublicKey(key), x, 1) }
	f.Registry = one(m, f.Auditor, "{}", "", strings.Replace(f.Registry, "registry", "auditor", 1), with(x[1:]),
		with(""),
		with(strings.Repeat("A", 43)), with("7f"+strings.Repeat("_", 39)+"38"), with("AQ"+strings.Repeat("A", 41)),
		strings.Replace(f.Registry, "OKP", "EC", 1), strings.Replace(f.Registry, "Ed25519", "X25519", 1),
		strings.Replace(f.Registry, `"kid"`, `"kit"`, 1))
}

// bundle changes a trust bundle.
func (m *maker) bundle(text string) string {
	var b evidence.Bundle
	check.Must(m.t, json.Unmarshal([]byte(text), &b))
	i := m.rnd.IntN(len(b.Certificates))
	switch m.rnd.IntN(12) {
	case 0:
		m.fault += " certificate missing"
		b.Certificates = slices.Delete(b.Certificates, i, i+1)
	case 1, 2:
		m.fault += " certificate"
		b.Certificates[i] = m.token(evidence.PurposeSignerCertificate, b.Certificates[i])
	case 3:
		m.fault += " key with two purposes"
		from, to := one(m, gatetest.Roles...), one(m, append(gatetest.Roles, evidence.PurposeWebBotAuth)...)
		key := m.kit.Key(m.t, from)
		if m.rnd.IntN(2) == 0 {
			m.fault += ", the first one forgotten"
			b.Certificates = slices.DeleteFunc(b.Certificates, func(c string) bool { return c == m.kit.Certificates[from] })
		}
		b.Certificates = append(b.Certificates, m.vouch(key.KeyID()+one(m, "", "x"), key.Public(), to))
	case 4:
		m.fault += " later version"
		purpose := one(m, gatetest.Roles...)
		public, _, err := ed25519.GenerateKey(nil)
		check.Must(m.t, err)
		kid := evidence.KeyName(m.kit.Key(m.t, purpose).KeyID()) + one(m, ":v2", ":v1", ":v0", "/own:v1", "")
		if m.rnd.IntN(2) == 0 {
			b.Certificates = slices.Delete(b.Certificates, i, i+1)
		}
		b.Certificates = append(b.Certificates, m.vouch(kid, public, purpose))
	case 10:
		m.fault += " at another time"
		purpose, kept := one(m, gatetest.Roles...), m.kit.Clock.Now()
		m.kit.Clock.Advance(one(m, -48*time.Hour, -time.Minute, time.Second, 2*time.Second, 3*time.Second, time.Hour,
			-400*24*time.Hour, -90*24*time.Hour, -30*24*time.Hour) + one(m, 0, time.Second, -time.Second))
		key := m.kit.Key(m.t, purpose)
		again := m.vouch(key.KeyID(), key.Public(), purpose)
		m.kit.Clock.Set(kept)
		if b.Certificates = append(b.Certificates, again); m.rnd.IntN(2) == 0 {
			b.Certificates = slices.DeleteFunc(b.Certificates, func(c string) bool { return c == m.kit.Certificates[purpose] })
		}
	case 5:
		m.fault += " twice"
		b.Certificates = append(b.Certificates, b.Certificates[i])
	case 6:
		m.fault += " revocations changed"
		m.revoke(&b)
		b.Revocations = m.token(evidence.PurposeSignerCertificate, b.Revocations)
	default:
		m.fault += " revocations"
		m.revoke(&b)
	}
	raw, err := json.Marshal(b)
	check.Must(m.t, err)
	return string(raw)
}

// revoke adds a list of one entry.
func (m *maker) revoke(b *evidence.Bundle) {
	kid := m.kit.Key(m.t, one(m, append(gatetest.Roles, evidence.PurposeSignerCertificate)...)).KeyID()
	e := one(m, evidence.Revocation{Kind: evidence.RevokedKey, ID: kid},
		evidence.Revocation{Kind: evidence.RevokedKey, ID: evidence.KeyName(kid)},
		evidence.Revocation{Kind: evidence.RevokedKey, ID: "nobody"},
		evidence.Revocation{Kind: evidence.RevokedArtifact, ID: m.anyID(b)})
	kept, list := m.kit.Clock.Now(), m.kit.Revocations
	m.kit.Clock.Advance(-one(m, 0, 0, time.Minute, 2*time.Hour, 29*24*time.Hour, 31*24*time.Hour))
	m.kit.Revoke(m.t, e)
	b.Revocations, m.kit.Revocations = m.kit.Revocations, list
	m.kit.Clock.Set(kept)
}

// anyID returns the jti of a token.
func (m *maker) anyID(b *evidence.Bundle) string {
	of := one(m, m.chains...)
	e := of.admit.Envelope
	token := one(m, append([]string{e.ChallengeToken, e.OriginProof, e.TriggerReceipt, e.PolicyDecision, e.Grant,
		e.Attestation, e.SessionReceipt, e.DeploymentCertificate, of.capability, of.proof}, b.Certificates...)...)
	_, payload, _, _ := parts(token)
	var c struct{ Jti string }
	check.Must(m.t, json.Unmarshal([]byte(payload), &c))
	return c.Jti
}

// vouch certifies a public key for a purpose, under any key id.
func (m *maker) vouch(kid string, public ed25519.PublicKey, purpose string) string {
	issuer := "https://agents.example.com"
	if purpose != evidence.PurposeWebBotAuth {
		issuer = m.kit.Issuer(purpose)
	}
	token, _, err := gatetest.Signer(m.t, m.kit, evidence.SignerCertificateKind()).Sign(m.t.Context(),
		evidence.SignerCertificate{
			KeyCustody: evidence.CustodyExternalMediator, Purposes: []string{purpose}, SubjectIssuer: issuer,
			SubjectKeyID: kid, SubjectPublicKey: evidence.EncodePublicKey(public),
			SubjectPublicKeyHash: evidence.HashBytes(public),
		})
	check.Must(m.t, err)
	return token
}

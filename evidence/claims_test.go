package evidence_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/check"
)

func TestClaimsThatAreRefused(t *testing.T) {
	h := evidence.HashBytes(nil)
	binding := evidence.Binding{Action: "a", ContentHash: h, Nonce: "n", Resource: "r", Subject: "s"}
	key := evidence.KeyClaims{KeyCustody: custody.ExternalMediator}
	stamped := func() evidence.Registered { return evidence.NewRegistered("issuer", "api", noon, time.Minute) }
	spoil(t, evidence.TriggerOriginProofKind(), func() evidence.TriggerOriginProof {
		return evidence.TriggerOriginProof{Registered: stamped(), BindingHash: h, EventID: "e", EvidenceHash: h,
			EvidenceID: "e", Kind: "k", PayloadHash: h, Source: "s", VerificationMethod: "m"}
	})
	spoil(t, evidence.TriggerReceiptKind(), func() evidence.TriggerReceipt {
		return evidence.TriggerReceipt{Registered: stamped(), BindingHash: h, EventID: "e", Kind: "k",
			OriginProofHash: h,
			PayloadHash:     h, Source: "s"}
	})
	spoil(t, evidence.RuntimeAttestationKind(), func() evidence.RuntimeAttestation {
		c := attestation()
		c.Registered, c.KeyClaims = stamped(), key
		return c
	})
	spoil(t, evidence.SessionReceiptKind(), func() evidence.SessionReceipt {
		return evidence.SessionReceipt{
			Registered: stamped(), KeyClaims: key, BindingHash: h, ChallengeID: "c", EnvironmentHash: h, EventID: "e",
			InputKind: "k", InputSource: "s",
			PolicyHash: h, RuntimeID: "r", SessionID: "s", TranscriptHash: h,
		}
	})
	spoil(t, evidence.PolicyDecisionKind(), func() evidence.PolicyDecision {
		return evidence.PolicyDecision{
			Registered: stamped(), KeyClaims: key, Action: "a", BindingHash: h, ChallengeID: "c", ContentHash: h,
			Decision: evidence.DecisionAllow, EnvironmentHash: h,
			OriginEvidenceHash: h, OriginEvidenceID: "o", OriginVerificationMethod: "m", PolicyHash: h, Resource: "r", Rule: "r",
			RuntimeID: "r", Subject: "s",
			TriggerEventID: "t", TriggerKind: "k", TriggerSource: "s",
		}
	})
	spoil(t, evidence.ActionGrantKind(), func() evidence.ActionGrant {
		one := func() []string { return []string{h} }
		return evidence.ActionGrant{
			Registered: stamped(), KeyClaims: key, Actions: one(), BindingHashes: one(), ContentHashes: one(),
			EnvironmentHash: h, OriginEvidenceHashes: one(),
			OriginEvidenceIDs: one(), OriginVerificationMethods: one(), PolicyDecisionHashes: one(),
			PolicyDecisionIDs: one(),
			PolicyHash:        h, Resources: one(),
			RuntimeIDs: one(), Subject: "s", TriggerEventIDs: one(), TriggerSources: one(),
		}
	})
	spoil(t, evidence.RequestProofKind(), func() evidence.RequestProof {
		c := aProof()
		c.Registered, c.KeyClaims = stamped(), key
		return c
	})
	spoil(t, evidence.SignerCertificateKind(), func() evidence.SignerCertificate {
		return evidence.SignerCertificate{Registered: stamped(), KeyCustody: "k", Purposes: []string{"p"},
			SubjectIssuer: "i",
			SubjectKeyID:  "k", SubjectPublicKey: "p", SubjectPublicKeyHash: h}
	})
	spoil(t, evidence.DeploymentCertificateKind(), func() evidence.DeploymentCertificate {
		c := aDeployment()
		c.Registered = stamped()
		return c
	})
	spoil(t, evidence.ChallengeTokenKind(), func() evidence.ChallengeToken {
		b := binding
		return evidence.ChallengeToken{Registered: stamped(),
			Answers: []evidence.SaltedAnswer{{Hash: h, ID: "t1", Kind: "vm", Salt: "s"}}, Binding: &b,
			BindingHash: b.Hash(),
			Difficulty:  "lite", TasksHash: h}
	})
	spoil(t, evidence.CapabilityKind(), func() evidence.Capability {
		return evidence.Capability{Registered: stamped(), Binding: binding, ChallengeID: "c"}
	})
}

func spoil[C any](t *testing.T, k evidence.Kind[C], whole func() C) {
	t.Helper()
	_, version := version(t, "k")
	secret := secretOf(t, []byte(strings.Repeat("s", 32)))
	sign := func(c C) error {
		if k.Purpose == "challenge" || k.Purpose == "capability" {
			_, err := evidence.SignMAC(secret, k, c)
			return err
		}
		_, err := evidence.Sign(t.Context(), version, k, c)
		return err
	}
	with := func(name string, value any) error {
		c := whole()
		for _, l := range leaves(reflect.ValueOf(&c).Elem(), "") {
			if l.name == name {
				l.value.Set(reflect.ValueOf(value))
			}
		}
		return sign(c)
	}
	t.Run(k.Typ, func(t *testing.T) {
		check.Must(t, sign(whole()))
		c := whole()
		for _, l := range leaves(reflect.ValueOf(&c).Elem(), "") {
			code, longest := "artifact_malformed", 2048
			switch {
			case strings.HasPrefix(l.name, ".Registered"):
				longest = 256
			case strings.HasPrefix(l.name, ".Binding."):
				code = "artifact_malformed"
				if longest = 256; l.name == ".Binding.Resource" {
					longest = 2048
				}
			}
			refused := func(value any) {
				t.Helper()
				t.Run(l.name, func(t *testing.T) { wantCode(t, with(l.name, value), code) })
			}
			if l.value.Kind() == reflect.Slice {
				refused([]string(nil))
				refused([]string{})
				refused([]string{""})
				continue
			}
			refused("")
			if strings.HasSuffix(l.name, "Hash") {
				for _, spoilt := range []string{"z", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 65)} {
					refused(spoilt)
				}
				continue
			}
			refused(strings.Repeat("x", longest+1))
			if l.name != ".Registered.ID" && !strings.HasPrefix(l.name, ".Binding.") {
				refused("\xff")
			}
			if err := with(l.name, strings.Repeat("x", longest)); err != nil &&
				!strings.HasPrefix(l.name, ".Binding.") {
				t.Errorf("%s of %d bytes: %v", l.name, longest, err)
			}
		}
		for iat, rows := range map[int64]map[int64]string{
			0: {60: "artifact_malformed"}, -1: {60: "artifact_malformed"}, math.MinInt64: {60: "artifact_malformed"},
			1: {0: "artifact_malformed", -1: "artifact_malformed", 1: "", int64(k.MaxLifetime / time.Second): "",
				int64(k.MaxLifetime/time.Second) + 1: "artifact_malformed"},
		} {
			for life, code := range rows {
				c := whole()
				r := reflect.ValueOf(&c).Elem().FieldByName("Registered").Addr().Interface().(*evidence.Registered)
				r.IssuedAt, r.Expires = iat, iat+life
				wantCode(t, sign(c), code)
			}
		}
	})
}

type leaf struct {
	name  string
	value reflect.Value
}

func leaves(v reflect.Value, path string) (out []leaf) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return leaves(v.Elem(), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Type.Kind() != reflect.Pointer && strings.Contains(f.Tag.Get("json"), ",omitempty") &&
				f.Name != "Nonce" {
				continue
			}
			out = append(out, leaves(v.Field(i), path+"."+f.Name)...)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			return leaves(v.Index(0), path+"[0]")
		}
		return []leaf{{path, v}}
	case reflect.String:
		return []leaf{{path, v}}
	}
	return out
}

func TestListsOfClaims(t *testing.T) {
	h := evidence.HashBytes(nil)
	stamped := evidence.NewRegistered("issuer", "api", noon, time.Minute)
	_, version := version(t, "k")
	for _, purposes := range [][]string{{"a", "b"}, {"a", "a"}} {
		_, err := evidence.Sign(t.Context(), version, evidence.SignerCertificateKind(), evidence.SignerCertificate{
			Registered: stamped, KeyCustody: "k", Purposes: purposes, SubjectIssuer: "i", SubjectKeyID: "k",
			SubjectPublicKey: "p", SubjectPublicKeyHash: h,
		})
		wantCode(t, err, "artifact_malformed")
	}
	answer := evidence.SaltedAnswer{Hash: h, ID: "t1", Kind: "vm", Salt: "s"}
	for name, change := range map[string]func(*evidence.ChallengeToken){
		"no answers": func(c *evidence.ChallengeToken) { c.Answers = nil },
		"the second is hollow": func(c *evidence.ChallengeToken) {
			c.Answers = append(c.Answers,
				evidence.SaltedAnswer{})
		},
		"another binding's": func(c *evidence.ChallengeToken) { c.BindingHash = h },
		"no binding hash":   func(c *evidence.ChallengeToken) { c.BindingHash = "" },
	} {
		b := evidence.Binding{Action: "a", ContentHash: h, Nonce: "n", Resource: "r", Subject: "s"}
		c := evidence.ChallengeToken{Registered: stamped, Answers: []evidence.SaltedAnswer{answer}, Binding: &b,
			BindingHash: b.Hash(), Difficulty: "lite", TasksHash: h}
		change(&c)
		t.Run(name, func(t *testing.T) {
			_, err := evidence.SignMAC(secretOf(t, []byte(strings.Repeat("s", 32))), evidence.ChallengeTokenKind(), c)
			wantCode(t, err, "artifact_malformed")
		})
	}
}

func TestBinding(t *testing.T) {
	h := evidence.HashBytes([]byte("content"))
	whole := evidence.Binding{Action: "a", ContentHash: h, Nonce: "n", Resource: "r", Subject: "s"}
	check.Must(t, whole.CheckNonce())
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, tt := range map[string]struct {
		change      func(*evidence.Binding)
		ok, noNonce bool // only the nonce is wrong
	}{
		"no subject":           {func(b *evidence.Binding) { b.Subject = "" }, false, false},
		"a long subject":       {func(b *evidence.Binding) { b.Subject = long(257) }, false, false},
		"the longest subject":  {func(b *evidence.Binding) { b.Subject = long(256) }, true, false},
		"no action":            {func(b *evidence.Binding) { b.Action = "" }, false, false},
		"a long action":        {func(b *evidence.Binding) { b.Action = long(257) }, false, false},
		"the longest action":   {func(b *evidence.Binding) { b.Action = long(256) }, true, false},
		"no resource":          {func(b *evidence.Binding) { b.Resource = "" }, false, false},
		"a long resource":      {func(b *evidence.Binding) { b.Resource = long(2049) }, false, false},
		"the longest resource": {func(b *evidence.Binding) { b.Resource = long(2048) }, true, false},
		"no content hash":      {func(b *evidence.Binding) { b.ContentHash = "" }, false, false},
		"a hash in capitals":   {func(b *evidence.Binding) { b.ContentHash = strings.ToUpper(h) }, false, false},
		"no nonce":             {func(b *evidence.Binding) { b.Nonce = "" }, false, true},
		"a long nonce":         {func(b *evidence.Binding) { b.Nonce = long(257) }, false, true},
		"the longest nonce":    {func(b *evidence.Binding) { b.Nonce = long(256) }, true, false},
		"everything at its limit": {func(b *evidence.Binding) {
			*b = evidence.Binding{Action: long(256), ContentHash: h, Nonce: long(256), Resource: long(2048),
				Subject: long(256)}
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := whole
			tt.change(&b)
			if tt.ok || tt.noNonce {
				check.Must(t, b.Check())
			} else {
				wantCode(t, b.Check(), "artifact_malformed")
			}
			if tt.ok {
				check.Must(t, b.CheckNonce())
			} else {
				wantCode(t, b.CheckNonce(), "artifact_malformed")
			}
			if b != whole && (b.Hash() == whole.Hash() || !evidence.IsHash(b.Hash())) {
				t.Errorf("hash %q", b.Hash())
			}
			other := b
			if other.Nonce = "another"; !other.SameAction(b) ||
				b.SameAction(whole) != (b.Subject == "s" && b.Action == "a" && b.Resource == "r" &&
					b.ContentHash == h) {
				t.Error("SameAction is not about all but the nonce")
			}
		})
	}
	if b := (evidence.Binding{Subject: "\xff"}); b.Hash() != "" {
		t.Errorf("what cannot be written has the hash %s", b.Hash())
	}
}

// TestHashToken: the signature does not change the hash.
func TestHashToken(t *testing.T) {
	for token, signed := range map[string]string{"h.p.s": "h.p", "h.p.other": "h.p", "h.p.": "h.p", ".s": "", ".": "",
		"none": "none", "": ""} {
		if got := evidence.HashToken(token); got != evidence.HashBytes([]byte(signed)) {
			t.Errorf("%q is not named by the hash of %q", token, signed)
		}
	}
}

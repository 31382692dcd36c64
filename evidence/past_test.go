package evidence_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/test/check"
)

func (d *desk) certificate(t testing.TB, v custody.Version, from time.Time, lifetime time.Duration) string {
	t.Helper()
	o := d.options("registry", from)
	o.Lifetime = lifetime
	token, _ := sign(t, evidence.SignerCertificateKind(), d.registry, o,
		certificateFor(v, evidence.PurposeRequestProof, "mediator"))
	return token
}

func TestArchive(t *testing.T) {
	d := newDesk(t)
	first, err := d.key.Current(t.Context())
	check.Must(t, err)
	check.Must(t, d.key.Rotate())
	second, err := d.key.Current(t.Context())
	check.Must(t, err)
	other, err := custody.NewMemory("proof-key") // of the same name, and of another process
	check.Must(t, err)
	again, err := other.Current(t.Context())
	check.Must(t, err)
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	of := func(v custody.Version, from, minutes int) string {
		return d.certificate(t, v, at(from), time.Duration(minutes)*time.Minute)
	}
	copied := certificateFor(first, evidence.PurposeActionGrant, "mediator")
	copied.SubjectKeyID = "grant-key:v2"
	copyOf, _ := sign(t, evidence.SignerCertificateKind(), d.registry, d.options("registry", at(5)), copied)
	stranger, renamed := newDesk(t), certificateFor(first, evidence.PurposeRequestProof, "mediator")
	renamed.SubjectKeyID = "renamed-key:v1"
	forged, _ := sign(t, evidence.SignerCertificateKind(), stranger.registry, stranger.options("registry", at(-30)),
		renamed)
	copied.SubjectKeyID = "grant-key:v1"
	copyBefore, _ := sign(t, evidence.SignerCertificateKind(), d.registry, d.options("registry", at(-5)), copied)
	revokes := func(id string, minute int) string {
		o := d.options("registry", at(minute))
		return d.list(t, o, evidence.Revocation{Kind: evidence.RevokedKey, ID: id})
	}
	for _, tt := range []struct {
		name, code     string
		moment         int // minutes after noon, when the key signed
		bundle, before []string
		list           string
		lists          []string
	}{
		{"in the bundle", "", 0, []string{of(first, 0, 10)}, nil, "", nil},
		{"in the history", "", 0, []string{of(second, 5, 10)}, []string{of(first, 0, 4)}, "", nil},
		{"copied since by another role", "", 0, []string{of(first, 0, 10)}, []string{copyOf}, "", nil},
		{"copied from another role", "key_purpose", 0, []string{of(first, 0, 10)}, []string{copyBefore}, "", nil},
		{"copied from another role, with a forged certificate of before", "signature_invalid", 0,
			[]string{of(first, 0, 10)}, []string{copyBefore, forged}, "", nil},
		{"renewed since", "", 0, []string{of(first, 5, 10)}, []string{of(first, -5, 10)}, "", nil},
		{"nowhere", "key_unknown", 0, nil, nil, "", nil},
		{"before its certificate", "clock_skew", -1, []string{of(first, 0, 10)}, nil, "", nil},
		{"a second before its certificate", "", 0,
			[]string{d.certificate(t, first, noon.Add(time.Second), time.Minute)}, nil, "", nil},
		{"after its certificate", "expired", 11, []string{of(first, 0, 10)}, nil, "", nil},
		{"after its retirement", "key_retired", 5, []string{of(second, 3, 10)}, []string{of(first, 0, 4)}, "", nil},
		{"after the retirement that a renewed certificate knows of", "key_retired", 7, []string{of(second, 3, 10)},
			[]string{of(first, 0, 10), of(first, 2, 4)}, "", nil},
		{"renewed at that second", "", 5, []string{of(first, 5, 10)}, []string{of(first, 0, 4)}, "", nil},
		{"many", "", 0, []string{of(first, 0, 10)}, slices.Repeat([]string{of(first, 0, 10)}, 6000), "", nil},
		{"while two versions are certified", "", 5, []string{of(first, 0, 10), of(second, 3, 10)}, nil, "", nil},
		{"with a later version that was not there yet", "expired", 5, []string{of(second, 6, 10)}, []string{of(first, 0, 4)},
			"", nil},
		{"made anew since under its name", "", 0, []string{of(again, 5, 10)}, []string{of(first, 0, 10)}, "", nil},
		{"made anew before under its name", "signature_invalid", 6, []string{of(again, 5, 10)}, []string{of(first, 0, 10)},
			"", nil},
		{"of two of one second the last one counts", "expired", 5, []string{of(first, 0, 4)}, []string{of(first, 0, 10)}, "",
			nil},
		{"revoked since", "revoked", 0, []string{of(first, 0, 10)}, nil, revokes(first.KeyID(), 5), nil},
		{"another key is revoked since", "", 0, []string{of(first, 0, 10)}, nil, revokes("another", 5), nil},
		{"revoked in a list of before", "revoked", 0, []string{of(first, 0, 10)}, nil, revokes("another", 5),
			[]string{revokes(first.KeyID(), -60)}},
		{"a list that was over then", "revocations_stale", 0, []string{of(first, 0, 10)}, nil, revokes("another", -11), nil},
		{"no list beside those of before", "revocations_stale", 0, []string{of(first, 0, 10)}, nil, "",
			[]string{revokes("another", 0)}},
		{"a list that is none", "artifact_malformed", 0, []string{of(first, 0, 10)}, nil, "x", nil},
		{"a list of before that is none", "artifact_malformed", 0, []string{of(first, 0, 10)}, nil, revokes("another", 0),
			[]string{"x"}},
		{"a certificate that is none", "artifact_malformed", 0, []string{of(first, 0, 10)}, []string{"x"}, "", nil},
		{"a certificate of another registry", "signature_invalid", 0, []string{of(first, 0, 10)}, newDesk(t).certificates, "",
			nil},
		{"in the future", "clock_skew", 21, []string{of(first, 0, 30)}, nil, "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := func() error {
				h := evidence.History{Certificates: tt.before, Revocations: tt.lists}
				a, err := evidence.NewPastTrust([]evidence.Root{d.root},
					evidence.Bundle{Certificates: tt.bundle, Revocations: tt.list}, h, d.policy)
				if err != nil {
					return err
				}
				v, err := a.At(at(tt.moment), at(20))
				if err != nil {
					return err
				}
				_, err = evidence.Open(v, evidence.RequestProofKind(), proofBy(t, first, at(tt.moment)),
					expect("mediator", "proof-key"))
				return err
			}()
			wantCode(t, err, tt.code)
		})
	}
}

func proofBy(t *testing.T, v custody.Version, at time.Time) string {
	t.Helper()
	c := aProof()
	evidence.RequestProofKind().Stamp(&c, evidence.NewRegistered("mediator", "api", at, time.Minute),
		evidence.KeyClaims{KeyCustody: custody.ExternalMediator})
	token, err := evidence.Sign(t.Context(), v, evidence.RequestProofKind(), c)
	check.Must(t, err)
	return token
}

func TestArchiveOfNoRoot(t *testing.T) {
	d := newDesk(t)
	_, err := evidence.NewPastTrust([]evidence.Root{d.root, d.root}, evidence.Bundle{}, evidence.History{}, d.policy)
	wantCode(t, err, "trust_malformed")
}

func TestParseHistory(t *testing.T) {
	whole := `{"certificates":["` + strings.Repeat("a", evidence.MaxBundle-len(`{"certificates":[""]}`)) + `"]}`
	if _, err := evidence.ParseHistory([]byte(whole)); err != nil {
		t.Error(err)
	}
	h, err := evidence.ParseHistory([]byte(`{"certificates":["a"],"revocations":["b"],"manifests":["c"]}`))
	if err != nil || h.Certificates[0] != "a" || h.Revocations[0] != "b" || h.Manifests[0] != "c" {
		t.Errorf("%+v, %v", h, err)
	}
	for name, text := range map[string]string{
		"nothing": "", "a list": "[]", "an unknown member": `{"certificates":[],"retired":[]}`,
		"a number": `{"certificates":[1]}`,
		"too much": `{"certificates":["` + strings.Repeat("a", evidence.MaxBundle) + `"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := evidence.ParseHistory([]byte(text))
			wantCode(t, err, "trust_malformed")
		})
	}
}

func FuzzHistory(f *testing.F) {
	d := newDesk(f)
	f.Add([]byte(`{"certificates":["` + d.certificates[0] + `"]}`))
	f.Add([]byte(`{"certificates":[],"revocations":["a.b.c"],"manifests":["{}"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := evidence.ParseHistory(raw)
		if err == nil {
			_, err = evidence.NewPastTrust([]evidence.Root{d.root}, evidence.Bundle{}, h, d.policy)
		}
		if coded, ok := err.(interface{ Code() string }); err != nil && (!ok || coded.Code() == "") {
			t.Errorf("it says %v", err)
		}
	})
}

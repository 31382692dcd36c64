package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/trigger"
)

// wholeRoles are a trigger service and a control plane whose evidence a gate accepts.
type wholeRoles struct {
	Triggers
	*decide.Engine
	t   testing.TB
	kit *gatetest.Kit
}

func (w wholeRoles) Evidence(_ context.Context, eventID string, b evidence.Binding) (trigger.Evidence, error) {
	proof, receipt := w.kit.Trigger(w.t, gatetest.Plan{Event: gatetest.Event{ID: eventID}}, b)
	return trigger.Evidence{OriginProof: proof, TriggerReceipt: receipt}, nil
}

// meanwhile calls change before a gate judges.
type meanwhile struct {
	rules.Gate
	change func()
}

func (m meanwhile) Admit(ctx context.Context, r gate.AdmitRequest) (gate.Admission, error) {
	m.change()
	return m.Gate.Admit(ctx, r)
}

// newWholeRig has a gate that really judges. change is called between steps 7 and 8.
func newWholeRig(t testing.TB, k *gatetest.Kit, g rules.Gate, change func(), edits ...func(*PipelineOptions)) *postRig {
	t.Helper()
	return newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
		whole(t, k, meanwhile{g, change}, o, actions)
		for _, edit := range edits {
			edit(o)
		}
	})
}

func whole(t testing.TB, k *gatetest.Kit, g rules.Gate, o *PipelineOptions, actions []rules.Action) {
	roles := wholeRoles{o.Triggers, k.Engine(t), t, k}
	o.Triggers, o.Control, o.Verifier, o.Strict, o.EnvironmentHash, o.Now = roles, roles, k.Verifier, k.Strict,
		k.Strict.Runtime.EnvironmentHashes[0], k.Clock.Now
	o.DeploymentCertificate = func() string { return k.Deployment }
	o.Attest = signer.NewAttester(gatetest.Signer(t, k, evidence.RuntimeAttestationKind()),
		gatetest.Signer(t, k, evidence.SessionReceiptKind()), signer.Access{})
	o.Prove = gatetest.Signer(t, k, evidence.RequestProofKind())
	for i := range actions {
		actions[i].Subject, actions[i].Gate = "agent:worker-1", g
	}
}

// TestWholePost posts through a gate in this process, and through the gate of an API that takes part.
func TestWholePost(t *testing.T) {
	k := gatetest.New(t)
	used := &gatetest.Used{}
	server, err := gate.NewServer(k.Gate, used.Consume)
	must(t, err)
	mux := http.NewServeMux()
	mux.Handle("/challenge", server.Challenge())
	mux.Handle("/verify", server.Verify())
	api := httptest.NewTLSServer(mux)
	defer api.Close()
	client, err := gate.NewClient(
		gate.ClientOptions{ChallengeURL: api.URL + "/challenge", VerifyURL: api.URL + "/verify", HTTP: api.Client(),
			Now: k.Clock.Now})
	must(t, err)
	for _, tt := range []struct {
		name          string
		gate          rules.Gate
		byAPI, byPost int // keys consumed by the API, and with the intent
	}{{"in this process", k.Gate, 0, 9}, {"of an API", client, 7, 1}} {
		t.Run(tt.name, func(t *testing.T) {
			p := newWholeRig(t, k, tt.gate, func() {})
			t.Cleanup(api.Client().CloseIdleConnections)
			p.want(http.StatusCreated, "POST", "/posts", `{"a":1}`)
			if len(used.Kinds()) != tt.byAPI || len(p.record.keys) != tt.byPost {
				t.Errorf("the API has consumed %v, the intent %v", used.Kinds(), p.record.keys)
			}
		})
	}
}

// TestChangedMeanwhile changes the trust or the clock after everything was opened and signed.
func TestChangedMeanwhile(t *testing.T) {
	type row struct {
		code   string
		change func(k *gatetest.Kit)
	}
	rows := map[string]row{"the evidence gets old": {"expired", func(k *gatetest.Kit) {
		k.Clock.Advance(20 * time.Second)
	}}}
	for _, purpose := range gatetest.Roles {
		if purpose == evidence.PurposeRequestProof {
			continue // signed afterwards
		}
		rows[purpose+": key revoked"] = row{"revoked", func(k *gatetest.Kit) {
			k.Revoke(t, evidence.Revocation{Kind: evidence.RevokedKey, ID: k.Key(t, purpose).KeyID()})
			k.Verifier.SetTrust(k.Trust(t))
		}}
		rows[purpose+": key retired"] = row{"key_retired", func(k *gatetest.Kit) {
			k.Rotate(t, purpose)
			k.Verifier.SetTrust(k.TrustWithout(t, purpose, k.Vouch(t, k.Key(t, purpose), purpose, k.Issuer(purpose))))
		}}
		rows[purpose+": certificate gone"] = row{"key_unknown", func(k *gatetest.Kit) {
			k.Verifier.SetTrust(k.TrustWithout(t, purpose))
		}}
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			k := gatetest.New(t)
			p := newWholeRig(t, k, k.Gate, func() { row.change(k) })
			p.wantRefused(row.code, "POST", "/posts", `{"a":1}`)
			if len(p.record.keys) != 0 {
				t.Errorf("consumed: %v", p.record.keys)
			}
		})
	}
}

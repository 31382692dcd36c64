package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/proxy/node"
	"github.com/actionproof/mediator/proxy/session"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/trigger"
)

// reading is a node that reads requests strictly.
type reading struct {
	t     testing.TB
	asked bool
}

func (r *reading) Relay(_ context.Context, _, _ string, body []byte, caller string) ([]byte, error) {
	r.asked = true
	var ask struct {
		Nonce    string          `json:"challenge_nonce"`
		Hash     string          `json:"commitment_hash"`
		Salt     string          `json:"salt"`
		Strategy json.RawMessage `json:"strategy"`
	}
	if err := strictjson.Parse(body, &ask); err != nil {
		r.t.Errorf("the node cannot read %q: %v", body, err)
	}
	if caller == "" || (ask.Hash == "") != (ask.Strategy != nil) {
		r.t.Errorf("the node reads %q as %+v", body, ask)
	}
	return json.Marshal(
		map[string]any{"challenge_nonce": ask.Nonce, "commitment_hash": ask.Hash, "commitment_revealed": ask.Hash == ""})
}

func (r *reading) Send(context.Context, string, string, http.Header, []byte, string) (*http.Response, error) {
	return nil, errors.New("no rule led here")
}

// The node reads a relayed request as the mediator does; a refusal has a code.
func FuzzCommit(f *testing.F) {
	hash := strings.Repeat("0a", 32)
	for _, s := range []string{
		`{"challenge_nonce":"n","commitment_hash":"` + hash + `"}`,
		`{"challenge_nonce":"n","salt":"AAAAAAAAAAAAAAAAAAAAAA","strategy":{"tools":[],"hosts":[],"model":"m",` +
			`"calls":{"min":1,"max":2}}}`,
		`{"challenge_nonce":"n","commitment_hash":null,"salt":null}`, `{"challenge_nonce":"n","strategy":null,"salt":""}`,
		`{"challenge_nonce":"\ud800","commitment_hash":"` + hash + `"}`,
		`{"challenge_nonce":"n","challenge_nonce":"m"}`, `{}`, `[]`, ``,
		`{"challenge_nonce":"n","commitment_hash":"` + hash + `","strategy":null}`,
	} {
		f.Add(s)
	}
	key, err := custody.NewMemory("interaction-key")
	if err != nil {
		f.Fatal(err)
	}
	issuer, err := signer.New(interaction.CallerKind, key,
		signer.Options{Issuer: "sidecar", Audience: "node", Lifetime: interaction.CallerLifetime, Now: time.Now})
	if err != nil {
		f.Fatal(err)
	}
	s, _, err := session.NewSet(time.Now).Open(trigger.Event{ID: "evt_1"}, "runtime", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		to := &reading{t: t}
		relay := node.New(node.Options{Client: to, Issuer: issuer, Owner: strings.Repeat("o", 43), Agent: "agent"})
		_, err := relay.Ask(t.Context(), s, http.MethodPost, "/v1/challenge/commit", []byte(body))
		var coded interface{ Code() string }
		if err != nil &&
			(!errors.As(err, &coded) || !problem.Known(coded.Code()) || !to.asked && coded.Code() == "node_unavailable") {
			t.Errorf("%q: %v", body, err)
		}
	})
}

package trigger

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// standard is the scheme of https://www.standardwebhooks.com, only in the symmetric version v1.
var standard = scheme{
	idHeader: "Webhook-Id", timestampHeader: "Webhook-Timestamp", signatureHeader: "Webhook-Signature",
	signatures: func(header string) []candidate {
		var list []candidate
		for field := range strings.FieldsSeq(header) {
			digits, ok := strings.CutPrefix(field, "v1,")
			if !ok {
				continue // other versions use other kinds of secrets
			}
			if mac, err := base64.StdEncoding.DecodeString(digits); err == nil {
				list = append(list, candidate{text: field, mac: mac})
			}
		}
		return list
	},
	signature: func(mac []byte) string { return "v1," + base64.StdEncoding.EncodeToString(mac) },
	// The id may contain a full stop, but no other split of the same bytes leaves a JSON object as body.
	signed: func(d delivery, body []byte) []byte { return append([]byte(d.id+"."+d.timestamp+"."), body...) },
}

// NewStandard makes a source for Standard Webhooks. Each delivery starts a run; its type is the payload's member type.
// Secrets are whsec_ and base64, or plain text, of at least 16 bytes; several allow a rotation.
func NewStandard(name string, secrets []string) (*Webhook, error) {
	w := &Webhook{name: name, kind: evidence.TriggerSourceEvent, method: evidence.MethodWebhookSignature,
		scheme: standard}
	for _, s := range secrets {
		key := []byte(s)
		if encoded, ok := strings.CutPrefix(s, "whsec_"); ok {
			var err error
			if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
				return nil, fmt.Errorf("trigger: a secret of webhook %s is not base64 after whsec_", name)
			}
		}
		w.secrets = append(w.secrets, key)
	}
	w.classify = func(_ http.Header, payload map[string]json.RawMessage) (string, class, error) {
		return text(payload, "type"), wanted, nil
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	return w, nil
}

// NewEngine makes a source for a policy engine's decisions to act: events of kind autonomous_policy, verified by
// policy_engine_decision. The engine signs them as Standard Webhooks. A verifier of decisions could also forge them, so
// only the engine and this service may have the secret.
func NewEngine(name string, secrets []string) (*Webhook, error) {
	w, err := NewStandard(name, secrets)
	if err != nil {
		return nil, err
	}
	w.kind, w.method = evidence.TriggerAutonomousPolicy, evidence.MethodPolicyEngineDecision
	return w, nil
}

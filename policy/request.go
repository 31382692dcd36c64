package policy

import (
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Request asks for a decision and a grant for one post.
type Request struct {
	Binding         evidence.Binding `json:"binding"`
	ChallengeID     string           `json:"challengeId"`
	RuntimeID       string           `json:"runtimeId"`
	SessionID       string           `json:"sessionId"`
	EnvironmentHash string           `json:"environmentHash"`
	ManifestHash    string           `json:"manifestHash"` // the sidecar's
	OriginProof     string           `json:"originProof"`
	TriggerReceipt  string           `json:"triggerReceipt"`
	// Reputation is the agent's reputation token, if the sidecar has one.
	Reputation string `json:"reputation,omitempty"`
	Call       Call   `json:"call"`
}

// Call is the call as the sidecar sees it.
type Call struct {
	Method      string `json:"method"`
	Scheme      string `json:"scheme"`
	Host        string `json:"host"`        // with the port, unless it is the scheme's
	Path        string `json:"path"`        // escaped, without the query
	Rule        string `json:"rule"`        // the matching action rule
	ContentKind string `json:"contentKind"` // json or raw
	Size        int64  `json:"size"`        // of the body, in bytes
	// Message is set under a rule about messages.
	Message *Message `json:"message,omitempty"`
}

// Decision holds the two artifacts that allow one post.
type Decision struct {
	PolicyDecision string `json:"policyDecision"`
	Grant          string `json:"grant"`
}

// Manifests are the hashes of the control plane's manifests, current first.
type Manifests struct {
	Manifests []string `json:"manifests"`
}

// AcceptsRequest is the body of POST /v1/accepts.
type AcceptsRequest struct {
	ManifestHash string `json:"manifestHash"`
}

// Accepted holds the accepted key versions of each signing process.
type Accepted struct {
	Trigger []string `json:"trigger"` // origin proofs and trigger receipts
	Node    []string `json:"node"`    // reputation tokens
}

// AcceptedBy returns what v accepts under s.
func (s *Strict) AcceptedBy(v *evidence.Verifier) Accepted {
	return Accepted{
		Trigger: append(v.Accepts(evidence.PurposeTriggerOriginProof, s.Origin.Expected),
			v.Accepts(evidence.PurposeTriggerReceipt, s.Receipt.Expected)...),
		Node: v.Accepts(evidence.PurposeAppraiser, s.Autonomy.Expected),
	}
}

// Bounds in bytes on texts in conditions. A path may be as long as a binding's resource.
const (
	maxText = 256
	maxPath = 2048
)

// Check refuses an incomplete request, and one whose call is not the bound one: conditions on request.method and
// request.path would judge another call than the decision is signed for.
func (r *Request) Check() error {
	if err := r.Binding.CheckNonce(); err != nil {
		return err
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"challengeId", r.ChallengeID, maxText}, {"runtimeId", r.RuntimeID, maxText},
		{"sessionId", r.SessionID, maxText},
		{"call.method", r.Call.Method, maxText}, {"call.scheme", r.Call.Scheme, maxText},
		{"call.host", r.Call.Host, maxText},
		{"call.path", r.Call.Path, maxPath}, {"call.rule", r.Call.Rule, maxText},
		{"call.contentKind", r.Call.ContentKind, maxText},
	} {
		if f.value == "" || len(f.value) > f.max {
			return refusal.New("query_malformed", "%s is missing or longer than %d bytes", f.name, f.max)
		}
	}
	if r.Call.Size < 0 {
		return refusal.New("query_malformed", "call.size is negative")
	}
	if err := r.Call.Message.check(); err != nil {
		return err
	}
	resource, whole := r.Binding.Resource, true
	if does := r.Call.Message.Does(); does != "" {
		resource, whole = strings.CutSuffix(resource, " "+does)
	}
	resource, _, _ = strings.Cut(resource, "?")
	if !whole || resource != r.Call.Method+" "+r.Call.Path {
		return refusal.New("artifacts_mismatch", "the call %s %s is not the one that the binding names, %s",
			r.Call.Method, r.Call.Path, r.Binding.Resource)
	}
	return nil
}

package policy

import (
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// Request asks for a decision about one post.
type Request struct {
	Binding         evidence.Binding `json:"binding"`
	ChallengeID     string           `json:"challengeId"`
	RuntimeID       string           `json:"runtimeId"`
	SessionID       string           `json:"sessionId"`
	EnvironmentHash string           `json:"environmentHash"`
	ManifestHash    string           `json:"manifestHash"` // of the manifest that the sidecar judges the post by
	OriginProof     string           `json:"originProof"`
	TriggerReceipt  string           `json:"triggerReceipt"`
	// Reputation is the reputation token of the agent; empty where the sidecar has none.
	Reputation string `json:"reputation,omitempty"`
	Call       Call   `json:"call"`
}

// Call is the call as the sidecar sees it.
type Call struct {
	Method      string `json:"method"`
	Scheme      string `json:"scheme"`
	Host        string `json:"host"`        // with the port, where it is not the scheme's
	Path        string `json:"path"`        // as it is escaped on the wire, without the query
	Rule        string `json:"rule"`        // the action rule that matched
	ContentKind string `json:"contentKind"` // json or raw
	Size        int64  `json:"size"`        // of the body, in bytes
	// Message is what the call does, where its rule is about messages.
	Message *Message `json:"message,omitempty"`
}

// Decision are the two artifacts that allow one post.
type Decision struct {
	PolicyDecision string `json:"policyDecision"`
	Grant          string `json:"grant"`
}

// Manifests names the manifests by which a control plane decides, the one in force first.
type Manifests struct {
	Manifests []string `json:"manifests"`
}

// AcceptsRequest asks which key versions a control plane accepts under a manifest.
type AcceptsRequest struct {
	ManifestHash string `json:"manifestHash"`
}

// Accepted holds the ids of key versions that verifiers accept, by the process that signs with them.
type Accepted struct {
	Trigger []string `json:"trigger"` // origin proofs and trigger receipts
	Node    []string `json:"node"`    // reputation tokens
}

// AcceptedBy returns what v accepts under the manifest behind s.
func (s *Strict) AcceptedBy(v *evidence.Verifier) Accepted {
	return Accepted{
		Trigger: append(v.Accepts(evidence.PurposeTriggerOriginProof, s.Origin.Expected),
			v.Accepts(evidence.PurposeTriggerReceipt, s.Receipt.Expected)...),
		Node: v.Accepts(evidence.PurposeAppraiser, s.Autonomy.Expected),
	}
}

// maxText bounds every text that a condition may work on, in bytes; the path may be as long as a binding's resource.
const (
	maxText = 256
	maxPath = 2048
)

// Check refuses a request that leaves open what is asked, or whose call is not the one that is bound: rules over request.method and
// request.path would otherwise judge another call than the one that the decision is signed for.
func (r *Request) Check() error {
	if err := r.Binding.CheckNonce(); err != nil {
		return err
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"challengeId", r.ChallengeID, maxText}, {"runtimeId", r.RuntimeID, maxText}, {"sessionId", r.SessionID, maxText},
		{"call.method", r.Call.Method, maxText}, {"call.scheme", r.Call.Scheme, maxText}, {"call.host", r.Call.Host, maxText},
		{"call.path", r.Call.Path, maxPath}, {"call.rule", r.Call.Rule, maxText}, {"call.contentKind", r.Call.ContentKind, maxText},
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
		return refusal.New("artifacts_mismatch", "the call %s %s is not the one that is bound, %s", r.Call.Method, r.Call.Path, r.Binding.Resource)
	}
	return nil
}

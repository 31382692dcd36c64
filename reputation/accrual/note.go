package accrual

// These entries count for the rating alone ([Rating]). They leave the reputation unchanged but for its log head.

// Signal is a signal of the agent whose window has closed, with the node's findings at its publication.
type Signal struct {
	ID           string `json:"signal_id" form:"name:128"`
	Trace        bool   `json:"trace"`        // the node held all receipts it rests on, all of the same agent
	Sources      bool   `json:"sources"`      // one of those receipts is of an answered model call at a trusted host
	Context      bool   `json:"context"`      // a sidecar signed it, so its session and event are known
	Verification bool   `json:"verification"` // the agent had passed a verification
	Timestamp    bool   `json:"timestamp"`    // its time was close to the node's
	Schema       bool   `json:"schema"`       // it followed the published schema
}

// Cited is another agent's closed signal that rests on receipts of this agent. Only the first one of each owner is
// entered.
type Cited struct {
	By       string `json:"by" form:"agent"` // the other agent's id
	SignalID string `json:"signal_id" form:"name:128"`
}

// Violation is a breach of a rule against spam; package dispute names the rules.
type Violation struct {
	Rule string `json:"rule" form:"name:128"`
}

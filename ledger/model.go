package ledger

// ModelCall describes a model call by names and figures, without content. Absent figures were not measured.
type ModelCall struct {
	API        string   `json:"api"`
	Model      string   `json:"model,omitempty"`      // requested
	AnsweredBy string   `json:"answeredBy,omitempty"` // according to the provider
	Outcome    string   `json:"outcome"`
	Unread     string   `json:"unread,omitempty"` // why the answer was not read
	Error      string   `json:"error,omitempty"`  // the provider's code
	Streamed   bool     `json:"streamed,omitempty"`
	Hosted     []string `json:"hosted,omitempty"` // what the provider could do by itself, unseen

	// Unknown are members of the request without a class; the rule allows them.
	Unknown []string `json:"unknownMembers,omitempty"`

	// Tokens. Cached is a part of Input, Reasoning one of Output.
	Input     *Figure `json:"inputTokens,omitempty"`
	Output    *Figure `json:"outputTokens,omitempty"`
	Cached    *Figure `json:"cachedTokens,omitempty"`
	Reasoning *Figure `json:"reasoningTokens,omitempty"`
	// Calls are of the agent's tools, HostedCalls of the provider's, as it reports them.
	Calls       *Figure `json:"toolCalls,omitempty"`
	HostedCalls *Figure `json:"hostedCalls,omitempty"`
	// Microseconds from receiving the request: until its head was sent, until the answer's head and its first content
	// came, and until the answer's end.
	Sent  *Figure `json:"sentMicros,omitempty"`
	Head  *Figure `json:"headMicros,omitempty"`
	First *Figure `json:"firstMicros,omitempty"`
	End   *Figure `json:"endMicros,omitempty"`
}

// Figure is a number with its source: observed, declared by the provider, or estimated.
type Figure struct {
	N     int64  `json:"n"`
	State string `json:"state"`
}

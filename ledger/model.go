package ledger

// ModelCall describes a call to a model: names and figures, and none of its content. What is left out
// was not measured.
type ModelCall struct {
	API        string   `json:"api"`
	Model      string   `json:"model,omitempty"`      // that was asked
	AnsweredBy string   `json:"answeredBy,omitempty"` // as the provider says
	Outcome    string   `json:"outcome"`
	Unread     string   `json:"unread,omitempty"` // why the answer was not followed
	Error      string   `json:"error,omitempty"`  // the provider's code
	Streamed   bool     `json:"streamed,omitempty"`
	Hosted     []string `json:"hosted,omitempty"` // what the provider could do by itself, unseen

	// Tokens. Cached is a part of Input, Reasoning one of Output.
	Input     *Figure `json:"inputTokens,omitempty"`
	Output    *Figure `json:"outputTokens,omitempty"`
	Cached    *Figure `json:"cachedTokens,omitempty"`
	Reasoning *Figure `json:"reasoningTokens,omitempty"`
	// Calls are those of the agent's tools, HostedCalls those of the provider's, as it shows them.
	Calls       *Figure `json:"toolCalls,omitempty"`
	HostedCalls *Figure `json:"hostedCalls,omitempty"`
	// Microseconds since the request was received: until its head was sent, until the head of the answer and the first
	// piece of its content came, and until its end.
	Sent  *Figure `json:"sentMicros,omitempty"`
	Head  *Figure `json:"headMicros,omitempty"`
	First *Figure `json:"firstMicros,omitempty"`
	End   *Figure `json:"endMicros,omitempty"`
}

// Figure is a number with how it is known: observed, declared by the provider, or estimated.
type Figure struct {
	N     int64  `json:"n"`
	State string `json:"state"`
}

package verification

import (
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// observe returns the served call that a turn is about, if any. A call counts for one turn, and turns follow the order
// of their calls.
func (s *Session) observe(t Turn) (Taken, *Call) {
	seen := Taken{Hash: t.Hash, Tool: t.ToolCall}
	previous := ChainSeed
	if n := len(s.Turns); n > 0 {
		previous = s.Turns[n-1].Hash
	}
	seen.Chained = t.HashAfter(previous) == t.Hash
	if !seen.Chained { // then the hash fixes no content, and the trace could differ from the turn
		return seen, nil
	}
	last := s.lastTold()
	for i := range s.Calls {
		call := &s.Calls[i]
		if last != nil && call.Step <= last.Step || call.Tool != t.ToolCall || call.Output != hashJSON(t.Output) ||
			call.Input != hashInput(t.Input) {
			continue
		}
		seen.Served = true
		seen.Used = len(s.Turns) == 0 || last != nil && last.Turn == len(s.Turns) &&
			strings.Contains(t.Reasoning, last.Canary)
		return seen, call
	}
	return seen, nil
}

func (s *Session) lastTold() *Call {
	for i := len(s.Calls) - 1; i >= 0; i-- {
		if s.Calls[i].Turn > 0 {
			return &s.Calls[i]
		}
	}
	return nil
}

// demand refuses a turn that was not fully observed.
func (s *Session) demand(t Turn, seen Taken) error {
	switch {
	case !seen.Chained:
		return refusal.New("verification_turn", "the turn's hash does not match its content and the previous turn's hash; "+
			"send the turn with its input, output, reasoning and timestamp")
	case !seen.Served:
		return refusal.New("verification_turn",
			"the node has seen no call of %s with this turn's input and output since the previous turn: call the tool with "+
				"the sessionId; then send its arguments as input and its whole result as output, both as JSON",
			quote(t.ToolCall))
	case !seen.Used:
		return refusal.New("verification_turn", "the turn's reasoning does not name the canary in the previous turn's result")
	}
	return nil
}

// hashJSON returns the SHA-256 of the canonical form of a JSON text, or a text that is no hash.
func hashJSON(text string) string {
	hash, err := evidence.HashJSON([]byte(text))
	if err != nil {
		return "no JSON"
	}
	return hash
}

// hashInput hashes a turn's input without the session's id and an empty query. No input means {}.
func hashInput(text string) string {
	if trim(text) == "" {
		text = "{}"
	}
	canonical, err := strictjson.Canonical([]byte(text))
	if err != nil {
		return "no JSON"
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(canonical, &members); err != nil {
		return "no JSON object"
	}
	delete(members, "sessionId")
	if string(members["query"]) == `""` {
		delete(members, "query")
	}
	hash, err := evidence.HashValue(members)
	if err != nil {
		return "no JSON object"
	}
	return hash
}

package verification

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// observe returns the served call that a turn is about, if any. It was made after the turn before.
func (s *Session) observe(t Turn) (Taken, *Call) {
	seen := Taken{Hash: t.Hash, Tool: t.ToolCall, Used: len(s.Turns) == 0}
	previous, after := ChainSeed, int64(0)
	if n := len(s.Turns); n > 0 {
		previous, after = s.Turns[n-1].Hash, s.Turns[n-1].Step
		if last := s.told(n); last != nil {
			seen.Used = strings.Contains(t.Reasoning, last.Canary)
		}
	}
	seen.Chained = t.HashAfter(previous) == t.Hash
	if !seen.Chained { // then the hash fixes no content, and the trace could differ from the turn
		return seen, nil
	}
	input, output := hashInput(t.Input), hashJSON(t.Output)
	for i := range s.Calls {
		if c := &s.Calls[i]; c.Step > after && c.Tool == t.ToolCall && c.Input == input && c.Output == output {
			seen.Served = true
			return seen, c
		}
	}
	return seen, nil
}

// told returns the call that a turn was about, or nil.
func (s *Session) told(turn int) *Call {
	for i := range s.Calls {
		if s.Calls[i].Turn == turn {
			return &s.Calls[i]
		}
	}
	return nil
}

// clockTolerance is how far a turn's time may be from the node's.
const clockTolerance = time.Hour

// demand refuses a turn that was not fully observed, or whose time is absurd.
func (s *Session) demand(t Turn, seen Taken, now time.Time) error {
	switch {
	case now.Sub(time.UnixMilli(t.Timestamp)).Abs() > clockTolerance:
		return refusal.New("verification_turn", "the turn's timestamp is more than %v from the node's time, %d",
			clockTolerance, now.UnixMilli())
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
	if strings.TrimSpace(text) == "" {
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

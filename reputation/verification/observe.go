package verification

import (
	"encoding/json"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// observe compares a turn with what the node knows: the hash of the turn before it, and the calls that it served in this session. It
// returns the call that the turn tells of, if there is one. A call counts for one turn, and the turns tell of calls in the order in which
// they were served.
func (s *Session) observe(t Turn) (Taken, *Call) {
	seen := Taken{Hash: t.Hash, Tool: t.ToolCall}
	previous := ChainSeed
	if n := len(s.Turns); n > 0 {
		previous = s.Turns[n-1].Hash
	}
	seen.Chained = t.HashAfter(previous) == t.Hash
	if !seen.Chained { // then the hash fixes no content: what the turn tells now, the trace may tell otherwise
		return seen, nil
	}
	last := s.lastTold()
	for i := range s.Calls {
		call := &s.Calls[i]
		if last != nil && call.Step <= last.Step || call.Tool != t.ToolCall || call.Output != hashJSON(t.Output) || call.Input != hashInput(t.Input) {
			continue
		}
		seen.Served = true
		seen.Used = len(s.Turns) == 0 || last != nil && last.Turn == len(s.Turns) && strings.Contains(t.Reasoning, last.Canary)
		return seen, call
	}
	return seen, nil
}

// lastTold returns the latest call that a turn has told of.
func (s *Session) lastTold() *Call {
	for i := len(s.Calls) - 1; i >= 0; i-- {
		if s.Calls[i].Turn > 0 {
			return &s.Calls[i]
		}
	}
	return nil
}

// demand refuses a turn of which something was not observed.
func (s *Session) demand(t Turn, seen Taken) error {
	switch {
	case !seen.Chained:
		return refusal.New("verification_turn", "the turn's hash is not that of its content after the turn before; input, output, reasoning and timestamp have to come with it")
	case !seen.Served:
		return refusal.New("verification_turn", "no call of %s that this node served in this session, after those of the turns before, has the turn's input and output: "+
			"call the tool with the sessionId, and give its arguments and its whole result as JSON", quote(t.ToolCall))
	case !seen.Used:
		return refusal.New("verification_turn", "the turn's reasoning does not name the canary in the result of the turn before")
	}
	return nil
}

// hashJSON returns the SHA-256 of the canonical form of a JSON text, or nothing that equals another hash where it is not JSON.
func hashJSON(text string) string {
	hash, err := evidence.HashJSON([]byte(text))
	if err != nil {
		return "no JSON"
	}
	return hash
}

// hashInput returns the hash of a turn's input: the arguments of its call as JSON. The session's id and an empty query are left out, and no
// input is {}.
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

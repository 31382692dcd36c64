package verification

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Tools whose calls can count as turns in ModeObserved: the node serves them with a canary in each result.
const (
	ToolSearch  = "search_plugins"
	ToolServers = "list_mcp_servers"
)

var servedTools = []string{ToolSearch, ToolServers}

const (
	leastReasoning  = 20 // characters; shorter turns are refused
	enoughReasoning = 30 // characters; shorter turns are a violation
	maxQuoted       = 40 // characters of the agent's text in a follow-up
)

// newFollowUp makes an unpredictable question about the last turn (original: generateFollowUp).
func newFollowUp(step int64, last Turn) *FollowUp {
	begin := fmt.Sprintf("Your last turn called %s. ", quote(last.ToolCall))
	const end = " Submit one more turn about that call. Its reasoning names the tool and the canary of the result," +
		" and says in at least 30 characters what the result adds to your analysis."
	if rand.N(2) == 0 { //nolint:gosec // ChaCha8 with a secret seed
		return &FollowUp{Step: step, Tool: ToolServers, Prompt: begin + "Now call " + ToolServers + " again." + end}
	}
	word := random(4)
	return &FollowUp{Step: step, Tool: ToolSearch, Query: word,
		Prompt: begin + "Now call " + ToolSearch + " with the query " + word + "." + end}
}

// answered reports whether a turn answers the follow-up: in ModeObserved by the requested call, made after it.
func (f *FollowUp) answered(t Turn, call *Call, mode Mode) bool {
	return length(t.Reasoning) >= enoughReasoning && (mode == ModeSeed || f.observed(t, call))
}

func (f *FollowUp) observed(t Turn, call *Call) bool {
	return call != nil && call.Step > f.Step && call.Tool == f.Tool && call.Query == f.Query &&
		strings.Contains(t.Reasoning, f.Tool) && strings.Contains(t.Reasoning, call.Canary)
}

// quote quotes the start of an agent's text, as printable ASCII without quotes.
func quote(text string) string {
	kept := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '`' || r == '\\' {
			return '?'
		}
		return r
	}, text)
	return `"` + kept[:min(len(kept), maxQuoted)] + `"`
}

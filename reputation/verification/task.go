package verification

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/strictjson"
)

//go:embed tasks.json
var builtin []byte

// Task is what the agent must do. The built-in tasks are in tasks.json.
type Task struct {
	ID            string   `json:"id"`
	Prompt        string   `json:"prompt"`
	RequiredTools []string `json:"requiredTools"`
	MinTurns      int      `json:"minTurns"` // before the follow-up
	MinDurationMS int64    `json:"minDurationMs"`
}

// Tasks returns the built-in tasks.
func Tasks() []Task {
	tasks, err := ParseTasks(builtin)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return tasks
}

// ParseTasks reads a JSON list of tasks. It refuses impossible ones.
func ParseTasks(raw []byte) ([]Task, error) {
	var tasks []Task
	if err := strictjson.Parse(raw, &tasks); err != nil {
		return nil, fmt.Errorf("tasks: %w", err)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("tasks: the list is empty")
	}
	seen := make(map[string]bool)
	for i, t := range tasks {
		switch {
		case t.ID == "" || len(t.ID) > 64 || seen[t.ID]:
			return nil, fmt.Errorf("tasks: task %d needs a unique id of at most 64 bytes", i+1)
		case len(terms(t.Prompt)) == 0 || len(t.Prompt) > 4096:
			return nil, fmt.Errorf("tasks: the prompt of %s has no usable word, or more than 4096 bytes", t.ID)
		case t.MinTurns < 2 || t.MinTurns >= MaxTurns:
			return nil, fmt.Errorf("tasks: %s asks for %d turns instead of 2 to %d", t.ID, t.MinTurns, MaxTurns-1)
		case len(t.RequiredTools) == 0 || len(t.RequiredTools) > t.MinTurns:
			return nil, fmt.Errorf("tasks: %s requires %d tools in %d turns", t.ID, len(t.RequiredTools), t.MinTurns)
		case t.MinDurationMS < 0 || t.MinDurationMS > (NonceLifetime/2).Milliseconds():
			return nil, fmt.Errorf("tasks: %s asks for %v; at most %v leave time to register",
				t.ID, time.Duration(t.MinDurationMS)*time.Millisecond, NonceLifetime/2)
		}
		for _, tool := range t.RequiredTools {
			if !slices.Contains(servedTools, tool) {
				return nil, fmt.Errorf("tasks: %s requires %s, which is not one of %v", t.ID, tool, servedTools)
			}
		}
		seen[t.ID] = true
	}
	return tasks, nil
}

func (t Task) base(privileged bool) int {
	if privileged {
		return max(2, t.MinTurns-1)
	}
	return t.MinTurns
}

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

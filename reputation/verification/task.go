package verification

import (
	_ "embed"
	"fmt"
	"slices"
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

package challenge

import (
	"context"
	"fmt"
	"slices"

	"github.com/actionproof/mediator/internal/refusal"
)

// Solve answers tasks from their public form. They may come from an adversary: their number, size and work are bounded,
// and ctx is checked between them.
func Solve(ctx context.Context, tasks []Task) (map[string]string, error) {
	if len(tasks) == 0 || len(tasks) > maxTasks {
		return nil, refused("the challenge has %d tasks; it must have 1 to %d", len(tasks), maxTasks)
	}
	known := Builtin()
	answers := make(map[string]string, len(tasks))
	for _, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, refusal.New("challenge_unsolved", "the challenge was not solved in time: %w", err)
		}
		if _, twice := answers[t.ID]; twice || t.ID == "" || len(t.ID) > maxTaskID || len(t.Input) > maxInput {
			return nil, refused(
				"a task of the challenge has a missing, overlong or repeated id, or an input of over %d bytes",
				maxInput)
		}
		at := slices.IndexFunc(known, func(p Pack) bool { return p.Kind() == t.Kind })
		if at < 0 {
			return nil, refusal.New("challenge_unsolved", "no solver is known for tasks of kind %.40q", t.Kind)
		}
		text, err := known[at].Solve(ctx, t)
		if err != nil {
			return nil, fmt.Errorf("challenge: solve a task of kind %s: %w", t.Kind, err)
		}
		answers[t.ID] = answerOf(text)
	}
	return answers, nil
}

package challenge

import (
	"context"
	"encoding/json"
	"io"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Members are in canonical order.
type Task struct {
	ID    string          `json:"id"` // unique in its challenge
	Input json.RawMessage `json:"input"`
	// define, with Input, the answer text; the answer is its lowercase hex SHA-256
	Instructions string `json:"instructions"`
	Kind         string `json:"kind"`
}

// Pack is one kind of task. It must be safe for concurrent use.
type Pack interface {
	Kind() string
	// Generate makes a task from r alone, with its one answer text, and proves that there is no other.
	Generate(r io.Reader, d Difficulty) (t Task, answer string, err error)
	// Solve bounds its work and memory, and refuses a malformed, too large or ambiguous task.
	Solve(ctx context.Context, t Task) (answer string, err error)
}

// Builtin returns the four kinds of the seed.
func Builtin() []Pack { return []Pack{route{}, vm{}, mutation{}, subset{}} }

// Difficulty sets the size of tasks and their default number.
type Difficulty string

const (
	Lite     Difficulty = "lite"     // quick local checks
	Standard Difficulty = "standard" // the default
	Gauntlet Difficulty = "gauntlet" // stricter gates
)

// tasks returns zero for an unknown difficulty.
func (d Difficulty) tasks() int {
	switch d {
	case Lite:
		return 2
	case Standard:
		return 4
	case Gauntlet:
		return 6
	}
	return 0
}

// pick returns the value for a difficulty; an unknown one gets the hardest.
func pick[T any](d Difficulty, lite, standard, gauntlet T) T {
	switch d {
	case Lite:
		return lite
	case Standard:
		return standard
	default:
		return gauntlet
	}
}

const hashIt = " The answer is the lowercase hex SHA-256 of the answer text."

func answerOf(text string) string {
	var room [256]byte
	return evidence.HashBytes(append(room[:0], text...))
}

func newTask(instructions string, input any) (Task, error) {
	raw, err := json.Marshal(input)
	return Task{Instructions: instructions, Input: raw}, err
}

// decodeInput fills slices that have room for a standard task, so that they need not grow.
func decodeInput(raw []byte, v any) bool { return strictjson.ParseMembers(raw, v) == nil }

// errUnsolvable is the refusal of a task that no honest issuer makes.
func errUnsolvable(kind string) error {
	return refused("a %s task of the challenge is malformed or too large, or does not have exactly one answer", kind)
}

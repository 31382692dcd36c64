package challenge

import (
	"context"
	"encoding/json"
	"io"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Task is one public task: all that a solver sees of it. Its members are in canonical order.
type Task struct {
	ID    string          `json:"id"` // unique in its challenge
	Input json.RawMessage `json:"input"`
	// Instructions are complete: they and Input define the answer text. The answer is the lowercase hex SHA-256 of that text.
	Instructions string `json:"instructions"`
	Kind         string `json:"kind"`
}

// Pack is one kind of task. Implementations must be safe for concurrent use.
type Pack interface {
	// Kind names the kind: 1 to 32 characters of a-z, 0-9 and _. It is part of the token.
	Kind() string
	// Generate makes a task with randomness from r and nothing else, and finds the one correct answer text. It proves that there
	// is no other. The issuer fills in ID and Kind.
	Generate(r io.Reader, d Difficulty) (t Task, answer string, err error)
	// Solve finds the answer text from the public task alone. The task may come from an adversary: Solve bounds its work and
	// memory whatever the task says, and returns an error for one that is malformed, too large, or has not exactly one answer.
	Solve(ctx context.Context, t Task) (answer string, err error)
}

// Builtin returns the four kinds of the seed: route, vm, json and subset.
func Builtin() []Pack { return []Pack{route{}, vm{}, mutation{}, subset{}} }

// builtin marks the kinds whose tasks are canonical JSON (RFC 8785) when they are marshalled: plain ASCII, whole numbers, members in
// order. Hashing them needs no canonicaliser, which would cost more than all the rest of making a challenge.
type builtin struct{}

func (builtin) canonical() {}

// Difficulty is how much work a challenge asks for.
type Difficulty string

// The difficulties of the seed.
const (
	Lite     Difficulty = "lite"     // fewer, smaller tasks for quick local checks
	Standard Difficulty = "standard" // the default
	Gauntlet Difficulty = "gauntlet" // a larger work set for stricter gates
)

// tasks is how many tasks a challenge of difficulty d has unless its issuer is told otherwise; zero for what is no difficulty.
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

// pick returns the value for a difficulty. What is none gets the hardest.
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

// hashIt ends the instructions of every built-in kind.
const hashIt = " The answer is the lowercase hex SHA-256 of the answer text."

// answerOf is the answer to a task whose answer text is text.
func answerOf(text string) string {
	var room [256]byte // enough for nearly all
	return evidence.HashBytes(append(room[:0], text...))
}

// newTask makes the public form of a built-in task.
func newTask(instructions string, input any) (Task, error) {
	raw, err := json.Marshal(input)
	return Task{Instructions: instructions, Input: raw}, err
}

// decodeInput reads the input of a built-in task. The slices of v have room for a standard task, so that they need not grow.
func decodeInput(raw []byte, v any) bool { return strictjson.ParseMembers(raw, v) == nil }

// errUnsolvable is the refusal of a task that no honest issuer makes.
func errUnsolvable(kind string) error {
	return refusal.New("challenge_refused", "a %s task of the challenge is malformed, too large, or has not exactly one answer", kind)
}

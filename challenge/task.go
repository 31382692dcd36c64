package challenge

import (
	"context"
	"encoding/json"
	"io"

	"github.com/actionproof/mediator/evidence"
)

// Task is one public task: all that a solver sees of it.
type Task struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Instructions are complete: whoever reads them and Input can find the answer text. The answer is its lowercase hex SHA-256.
	Instructions string          `json:"instructions"`
	Input        json.RawMessage `json:"input"`
}

// Pack is one kind of task. A deployment can add packs of its own, which its clients have never seen.
type Pack interface {
	// Kind names the kind; it is part of the token.
	Kind() string
	// Instructions describe every task of the kind completely.
	Instructions() string
	// Generate makes a task's input with randomness from r, and the one correct answer text.
	Generate(r io.Reader, d Difficulty) (input any, answer string, err error)
	// Solve finds the answer text from the input alone. Its work is bounded whatever the input; an input that is malformed or too
	// large is an error.
	Solve(ctx context.Context, input json.RawMessage) (answer string, err error)
}

// Difficulty is how much work a challenge asks for.
type Difficulty string

// The difficulties of the seed.
const (
	Lite     Difficulty = "lite"     // fewer, smaller tasks for quick local checks
	Standard Difficulty = "standard" // the default
	Gauntlet Difficulty = "gauntlet" // larger randomised work for stricter gates
)

// defaultTasks is how many tasks each difficulty has.
var defaultTasks = map[Difficulty]int{Lite: 2, Standard: 4, Gauntlet: 6}

// pick returns the value for a difficulty.
func pick[T any](d Difficulty, lite, standard, gauntlet T) T {
	switch d {
	case Lite:
		return lite
	case Gauntlet:
		return gauntlet
	default:
		return standard
	}
}

// Builtin returns the four kinds of the seed.
func Builtin() []Pack { return []Pack{route{}, vm{}, mutation{}, subset{}} }

// answerHash is the answer that a solver sends: the hash of the answer text.
func answerHash(text string) string { return evidence.HashBytes([]byte(text)) }

// malformed is the refusal of a task that cannot be solved.
func malformed(kind string) error {
	return evidence.Refuse("challenge_malformed", "a %s task of the challenge is malformed, too large or has no answer", kind)
}

package challenge

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Challenge is a challenge as its issuer gives it out. The token verifies the answers.
type Challenge struct {
	ID           string            `json:"id"`
	Difficulty   Difficulty        `json:"difficulty"`
	Instructions string            `json:"instructions"`
	Binding      *evidence.Binding `json:"binding,omitempty"` // with the issuer's nonce; nil if unbound
	Tasks        []Task            `json:"tasks"`
	Token        string            `json:"token"`
	ExpiresAt    int64             `json:"expiresAt"` // Unix seconds
}

const instructions = `Solve every task as its own instructions say. Respond with ` +
	`{"challengeId":"...","answers":{"task_id":"64 lowercase hex characters"}}: the id of this challenge, one answer ` +
	`for each task, nothing else.`

// Bounds, in bytes unless noted.
const (
	maxTasks     = 32 // in a challenge
	maxTaskID    = 64
	maxInput     = 32 << 10 // of one task
	maxChallenge = 256 << 10
	maxResponse  = 16 << 10
)

// ParseChallenge refuses a malformed or incomplete challenge, and verifies nothing.
func ParseChallenge(raw []byte) (Challenge, error) {
	return parse(raw, "challenge", maxChallenge, func(ch Challenge) error {
		if ch.ID == "" || ch.Token == "" || len(ch.Tasks) == 0 || len(ch.Tasks) > maxTasks {
			return refused("the challenge lacks its id, its token or its tasks, or has more than %d tasks", maxTasks)
		}
		for _, t := range ch.Tasks {
			if t.ID == "" || t.Kind == "" || len(t.Input) == 0 {
				return refused("a task of the challenge lacks its id, its kind or its input")
			}
		}
		return nil
	})
}

// ParseResponse bounds the answers; it does not verify them.
func ParseResponse(raw []byte) (evidence.Response, error) {
	return parse(raw, "response", maxResponse, func(r evidence.Response) error {
		if r.ChallengeID == "" || len(r.Answers) == 0 || len(r.Answers) > maxTasks {
			return refused("the response lacks its challengeId or its answers, or has more than %d answers", maxTasks)
		}
		for id, answer := range r.Answers {
			if !evidence.IsHash(answer) {
				return refused("the answer for task %.64q is not 64 lowercase hex characters", id)
			}
		}
		return nil
	})
}

func parse[T any](raw []byte, what string, most int, check func(T) error) (T, error) {
	var v, none T
	if len(raw) > most {
		return none, refused("the %s has %d bytes; at most %d are read", what, len(raw), most)
	}
	if err := strictjson.Parse(raw, &v); err != nil {
		return none, refused("the %s is malformed: %w", what, err)
	}
	if err := check(v); err != nil {
		return none, err
	}
	return v, nil
}

func refused(format string, args ...any) error {
	return refusal.New("challenge_refused", format, args...)
}

// hashTasks hashes canonical JSON, so that others may re-encode the tasks.
func hashTasks(tasks []Task) (string, error) {
	hash, err := evidence.HashValue(tasks)
	if err != nil {
		return "", refused("the challenge's tasks are malformed: %w", err)
	}
	return hash, nil
}

// hashCanonical is [hashTasks] for tasks of this package, which encoding/json writes in canonical form: the
// canonicaliser would cost more than the rest of a challenge.
func hashCanonical(tasks []Task) (string, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(tasks)
	return evidence.HashBytes(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), err
}

// intact refuses a challenge that differs from its token.
func (ch Challenge) intact(t evidence.ChallengeToken) error {
	unbound := ch.Binding == nil && t.Binding == nil
	bound := ch.Binding != nil && t.Binding != nil && *ch.Binding == *t.Binding
	if ch.ID != t.ID || string(ch.Difficulty) != t.Difficulty || ch.ExpiresAt != t.Expires || !unbound && !bound {
		return refused("the challenge's id, difficulty, binding or expiry differs from the issued one")
	}
	hash, err := hashTasks(ch.Tasks)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(hash), []byte(t.TasksHash)) != 1 {
		return refused("the challenge's tasks differ from those that were issued")
	}
	return nil
}

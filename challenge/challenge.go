package challenge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// Challenge is what its issuer gives out: the public tasks, and the token that the answers are verified with.
type Challenge struct {
	ID           string            `json:"id"`
	Difficulty   Difficulty        `json:"difficulty"`
	Instructions string            `json:"instructions"`
	Binding      *evidence.Binding `json:"binding,omitempty"`
	Tasks        []Task            `json:"tasks"`
	Token        string            `json:"token"`
	ExpiresAt    int64             `json:"expiresAt"` // Unix seconds
}

// instructions stand on every challenge.
const instructions = `Solve every task as its own instructions say. Answer with {"challengeId":"<id>","answers":{"<task id>":"<64 lowercase hex characters>"}}: one answer for each task, nothing else.`

// Bounds on what is read.
const (
	maxTasks     = 32
	maxChallenge = 256 << 10 // bytes of a challenge as it travels
	maxResponse  = 16 << 10  // bytes of a response as it travels
)

// Options configure an [Issuer].
type Options struct {
	// Issuer and Audience are iss and aud of the token, which only the issuer itself reads. Required.
	Issuer, Audience string
	// Lifetime of a challenge; zero means 30 s.
	Lifetime time.Duration
	// Difficulty; empty means Standard.
	Difficulty Difficulty
	// Tasks is how many tasks a challenge has; zero takes the difficulty's own number. At most 32.
	Tasks int
	// Packs are the kinds of tasks; nil means [Builtin].
	Packs []Pack
	// Random is the source of randomness; nil means crypto/rand.
	Random io.Reader
	// Now is the clock; required.
	Now func() time.Time
}

// Issuer issues challenges and verifies responses to them. It keeps nothing. It is safe for concurrent use.
type Issuer struct {
	secret evidence.Secret
	o      Options
}

// NewIssuer makes an Issuer.
func NewIssuer(secret evidence.Secret, o Options) (*Issuer, error) {
	if o.Lifetime == 0 {
		o.Lifetime = 30 * time.Second
	}
	if o.Difficulty == "" {
		o.Difficulty = Standard
	}
	if o.Tasks == 0 {
		o.Tasks = defaultTasks[o.Difficulty]
	}
	if o.Packs == nil {
		o.Packs = Builtin()
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	switch {
	case o.Issuer == "" || o.Audience == "" || o.Now == nil:
		return nil, errors.New("challenge: an issuer needs a name, an audience and a clock")
	case defaultTasks[o.Difficulty] == 0:
		return nil, fmt.Errorf("challenge: %q is none of the difficulties lite, standard, gauntlet", o.Difficulty)
	case o.Tasks < 1 || o.Tasks > maxTasks:
		return nil, fmt.Errorf("challenge: %d tasks are not between 1 and %d", o.Tasks, maxTasks)
	case o.Lifetime < time.Second || o.Lifetime > evidence.ChallengeTokenKind.MaxLifetime:
		return nil, fmt.Errorf("challenge: the lifetime %s is not between 1s and %s", o.Lifetime, evidence.ChallengeTokenKind.MaxLifetime)
	}
	return &Issuer{secret: secret, o: o}, nil
}

// Create issues a challenge bound to b, whose nonce it chooses. The zero binding makes a challenge that is bound to nothing, and
// earns no capability.
func (i *Issuer) Create(_ context.Context, b evidence.Binding) (Challenge, error) {
	reg := evidence.NewRegistered(i.o.Issuer, i.o.Audience, i.o.Now(), i.o.Lifetime)
	ch := Challenge{ID: reg.ID, Difficulty: i.o.Difficulty, Instructions: instructions, ExpiresAt: reg.Expires}
	token := evidence.ChallengeToken{Difficulty: string(i.o.Difficulty)}
	if b != (evidence.Binding{}) {
		b.Nonce = evidence.NewID()
		if err := b.Check(); err != nil {
			return Challenge{}, err
		}
		ch.Binding, token.Binding, token.BindingHash = &b, &b, b.Hash()
	}
	// Different kinds first, in random order; then again from the start.
	packs := slices.Clone(i.o.Packs)
	rnd := &random{r: i.o.Random}
	rnd.shuffle(len(packs), func(a, b int) { packs[a], packs[b] = packs[b], packs[a] })
	for n := range i.o.Tasks {
		task, answer, err := i.task(packs[n%len(packs)], n)
		if err != nil {
			return Challenge{}, fmt.Errorf("challenge: make a task: %w", err)
		}
		salt := evidence.NewID()
		ch.Tasks = append(ch.Tasks, task)
		token.Answers = append(token.Answers, evidence.SaltedAnswer{ID: task.ID, Kind: task.Kind, Salt: salt, Hash: salted(salt, ch.ID, task.ID, answer)})
	}
	if rnd.err != nil {
		return Challenge{}, fmt.Errorf("challenge: no randomness: %w", rnd.err)
	}
	hash, err := hashTasks(ch.Tasks)
	if err != nil {
		return Challenge{}, err
	}
	token.TasksHash = hash
	evidence.ChallengeTokenKind.Stamp(&token, reg, evidence.KeyClaims{})
	ch.Token, err = evidence.SignMAC(i.secret, evidence.ChallengeTokenKind, token)
	return ch, err
}

func (i *Issuer) task(p Pack, n int) (Task, string, error) {
	input, text, err := p.Generate(i.o.Random, i.o.Difficulty)
	if err != nil {
		return Task{}, "", err
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return Task{}, "", err
	}
	return Task{ID: fmt.Sprintf("t%d", n+1), Kind: p.Kind(), Instructions: p.Instructions(), Input: raw}, answerHash(text), nil
}

// hashTasks is the hash of the public tasks as they travel. Marshalling is deterministic and compact, and the tasks are our own
// types, so the bytes need no further normalising.
func hashTasks(tasks []Task) (string, error) {
	raw, err := json.Marshal(tasks)
	if err != nil {
		return "", evidence.Refuse("challenge_malformed", "the challenge's tasks are not JSON")
	}
	return evidence.HashBytes(raw), nil
}

// salted is what the token keeps of an answer.
func salted(salt, challengeID, taskID, answer string) string {
	return evidence.HashBytes([]byte(salt + "\x00" + challengeID + "\x00" + taskID + "\x00" + answer))
}

// Solve answers tasks from their public form alone, for a runtime that owns the whole autonomous path (seed: solvePublicTask).
// Its work is bounded whatever the tasks say.
func Solve(ctx context.Context, tasks []Task, packs ...Pack) (map[string]string, error) {
	if len(tasks) == 0 || len(tasks) > maxTasks {
		return nil, evidence.Refuse("challenge_malformed", "the challenge has %d tasks; from 1 to %d are solved", len(tasks), maxTasks)
	}
	packs = append(Builtin(), packs...)
	answers := make(map[string]string, len(tasks))
	for _, t := range tasks {
		if err := ctx.Err(); err != nil {
			return nil, evidence.Refuse("challenge_unsolved", "the challenge was not solved in time: %w", err)
		}
		at := slices.IndexFunc(packs, func(p Pack) bool { return p.Kind() == t.Kind })
		if at < 0 {
			return nil, evidence.Refuse("challenge_unsolved", "no solver is known for tasks of kind %.40q", t.Kind)
		}
		text, err := packs[at].Solve(ctx, t.Input)
		if err != nil {
			return nil, err
		}
		if _, twice := answers[t.ID]; twice {
			return nil, evidence.Refuse("challenge_malformed", "the challenge has two tasks with the id %.40q", t.ID)
		}
		answers[t.ID] = answerHash(text)
	}
	return answers, nil
}

// ParseChallenge reads a challenge strictly.
func ParseChallenge(raw []byte) (Challenge, error) {
	var ch Challenge
	if len(raw) > maxChallenge {
		return ch, evidence.Refuse("challenge_malformed", "the challenge has %d bytes; at most %d are read", len(raw), maxChallenge)
	}
	if err := evidence.ParseStrict(raw, &ch); err != nil {
		return Challenge{}, evidence.Refuse("challenge_malformed", "the challenge is malformed: %w", err)
	}
	if ch.ID == "" || ch.Token == "" || len(ch.Tasks) == 0 || len(ch.Tasks) > maxTasks {
		return Challenge{}, evidence.Refuse("challenge_malformed", "the challenge lacks its id, its token or its tasks")
	}
	return ch, nil
}

// ParseResponse reads a response strictly.
func ParseResponse(raw []byte) (evidence.Response, error) {
	var r evidence.Response
	if len(raw) > maxResponse {
		return r, evidence.Refuse("response_malformed", "the response has %d bytes; at most %d are read", len(raw), maxResponse)
	}
	if err := evidence.ParseStrict(raw, &r); err != nil {
		return evidence.Response{}, evidence.Refuse("response_malformed", "the response is malformed: %w", err)
	}
	return r, nil
}

package challenge

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/actionproof/mediator/evidence"
)

// DefaultLifetime is from a challenge's issue to its expiry.
const DefaultLifetime = 30 * time.Second

// Options configure an [Issuer].
type Options struct {
	// iss and aud of the token; required
	Issuer, Audience string
	// required
	Now func() time.Time
	// 1 s to 10 min; zero means [DefaultLifetime]
	Lifetime time.Duration
	// empty means Standard
	Difficulty Difficulty
	// at most 32; zero means the difficulty's: 2, 4 or 6
	Tasks int
	// crypto/rand if nil; others are for tests
	Random io.Reader
}

// Issuer stores nothing. It is safe for concurrent use if Options.Random is.
type Issuer struct {
	secret evidence.Secret
	o      Options
}

// NewIssuer authenticates tokens with secret: replicas must share it.
func NewIssuer(secret evidence.Secret, o Options) (*Issuer, error) {
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	o.Difficulty = cmp.Or(o.Difficulty, Standard)
	o.Tasks = cmp.Or(o.Tasks, o.Difficulty.tasks())
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if err := errors.Join(secret.Check(), o.valid()); err != nil {
		return nil, err
	}
	return &Issuer{secret: secret, o: o}, nil
}

func (o Options) valid() error {
	longest := evidence.ChallengeTokenKind().MaxLifetime
	switch {
	case o.Issuer == "" || o.Audience == "" || o.Now == nil:
		return errors.New("challenge: Issuer, Audience and Now are required")
	case o.Difficulty.tasks() == 0:
		return fmt.Errorf("challenge: Difficulty %q is none of lite, standard, gauntlet", o.Difficulty)
	case o.Tasks < 1 || o.Tasks > maxTasks:
		return fmt.Errorf("challenge: Tasks is %d, not between 1 and %d", o.Tasks, maxTasks)
	case o.Lifetime < time.Second || o.Lifetime > longest:
		return fmt.Errorf("challenge: Lifetime is %s, not between 1s and %s", o.Lifetime, longest)
	}
	return nil
}

// Create issues a challenge bound to b. The zero binding makes an unbound challenge, which never earns a capability.
func (i *Issuer) Create(ctx context.Context, b evidence.Binding) (Challenge, error) {
	if err := ctx.Err(); err != nil {
		return Challenge{}, err
	}
	rnd := &random{r: bufio.NewReaderSize(i.o.Random, 1<<10)} // a challenge takes hundreds of small draws
	now := i.o.Now()
	reg := evidence.NewRegistered(i.o.Issuer, i.o.Audience, now, i.o.Lifetime)
	reg.ID = evidence.OrderedID(now, [10]byte(rnd.bytes(16)[:10]))
	ch := Challenge{
		ID: reg.ID, Difficulty: i.o.Difficulty, Instructions: instructions, ExpiresAt: reg.Expires,
		Tasks: make([]Task, i.o.Tasks),
	}
	token := evidence.ChallengeToken{Difficulty: string(i.o.Difficulty),
		Answers: make([]evidence.SaltedAnswer, i.o.Tasks)}
	if b != (evidence.Binding{}) {
		b.Nonce = rnd.id()
		if err := b.Check(); err != nil {
			return Challenge{}, err
		}
		ch.Binding, token.Binding, token.BindingHash = &b, &b, b.Hash()
	}
	if err := i.fill(&ch, &token, rnd); err != nil {
		return Challenge{}, err
	}
	evidence.ChallengeTokenKind().Stamp(&token, reg, evidence.KeyClaims{})
	var err error
	if ch.Token, err = evidence.SignMAC(i.secret, evidence.ChallengeTokenKind(), token); err != nil {
		return Challenge{}, err
	}
	return ch, nil
}

func (i *Issuer) fill(ch *Challenge, token *evidence.ChallengeToken, rnd *random) error {
	packs := Builtin()
	shuffle(rnd, packs) // different kinds first, in random order
	for n := range ch.Tasks {
		p, id := packs[n%len(packs)], "t"+strconv.Itoa(n+1)
		t, text, err := p.Generate(rnd.r, i.o.Difficulty)
		if err != nil {
			return fmt.Errorf("challenge: generate a task of kind %s: %w", p.Kind(), err)
		}
		t.ID, t.Kind = id, p.Kind()
		salt := rnd.id()
		ch.Tasks[n] = t
		token.Answers[n] = evidence.SaltedAnswer{ID: id, Kind: t.Kind, Salt: salt,
			Hash: salted(salt, ch.ID, id, answerOf(text))}
	}
	if rnd.err != nil {
		return fmt.Errorf("challenge: no randomness: %w", rnd.err)
	}
	var err error
	token.TasksHash, err = hashCanonical(ch.Tasks)
	return err
}

func salted(salt, challengeID, taskID, answer string) string {
	text := make([]byte, 0, 256)
	for _, part := range [...]string{salt, challengeID, taskID} {
		text = append(append(text, part...), 0)
	}
	return evidence.HashBytes(append(text, answer...))
}

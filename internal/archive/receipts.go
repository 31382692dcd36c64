package archive

import (
	"context"
	"iter"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Receipts is where the interaction receipts of sessions are. It returns those of a session from a number on, in their order and limit of
// them at most; none where it has none.
type Receipts func(ctx context.Context, session string, from int64, limit int) ([]string, error)

// ReceiptsOf returns a source of one session's receipts, which are in their order.
func ReceiptsOf(tokens []string) Receipts {
	return func(_ context.Context, _ string, from int64, limit int) ([]string, error) {
		if len(tokens) == 0 {
			return nil, nil
		}
		first, err := evidence.UnverifiedClaims(interaction.Kind, tokens[0])
		if err != nil {
			return nil, err
		}
		at := min(max(0, from-first.Chain.SequenceNumber), int64(len(tokens)))
		return tokens[at:][:min(limit, len(tokens)-int(at))], nil
	}
}

const (
	readAtOnce = 500     // receipts
	maxSession = 1 << 20 // receipts of all sessions together that one verification keeps in mind
)

// CheckReceipts is the name of the check of a record's interaction receipts.
const CheckReceipts = "interaction receipts"

// sessions verifies the interaction receipts that records rest on: of each session the whole chain, up to what its records name.
type sessions struct {
	from   Receipts // nil: there are none
	alone  bool     // they came with one record: they may be the end of its chain, and all of them are verified
	now    time.Time
	chains map[string]*interaction.Chain // by session
	count  int
}

func newSessions(from Receipts, now time.Time) *sessions {
	return &sessions{from: from, now: now, chains: make(map[string]*interaction.Chain)}
}

// named returns what the session receipt of a record says of the chain; nil if it says nothing. It verifies nothing.
func named(r ledger.Record) *evidence.InteractionHead {
	c, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind, artifact(r, "sessionReceipt"))
	if err != nil {
		return nil
	}
	return c.Interactions
}

// verify verifies the receipts of a record's session up to the one that its session receipt names, and holds the two against each other.
// The session receipt is verified already. It returns no chain where there are no receipts.
func (s *sessions) verify(ctx context.Context, t *Trust, r ledger.Record, head evidence.InteractionHead) (*interaction.Chain, error) {
	if s.alone {
		return s.verifyAll(ctx, t, r, head)
	}
	chain := s.chains[r.Session]
	if chain == nil {
		chain = interaction.NewChain(t.opener(s.now), t.expected(r))
		s.chains[r.Session] = chain
	}
	for chain.Len() < head.Number {
		n, err := s.read(ctx, chain, r, head.Number-chain.Len())
		if err != nil {
			return chain, err
		}
		if n == 0 && chain.Len() == 0 {
			return nil, nil
		}
		if n == 0 {
			break
		}
	}
	return chain, holds(chain, r, head)
}

// verifyAll verifies the receipts that came with a record: the end of its session's chain, with what has come since.
func (s *sessions) verifyAll(ctx context.Context, t *Trust, r ledger.Record, head evidence.InteractionHead) (*interaction.Chain, error) {
	chain := interaction.NewTail(t.opener(s.now), t.expected(r))
	for {
		n, err := s.read(ctx, chain, r, readAtOnce)
		if err != nil {
			return chain, err
		}
		if n == 0 && chain.Len() == 0 {
			return nil, nil
		}
		if n == 0 {
			return chain, holds(chain, r, head)
		}
	}
}

// read adds the next receipts of a record's session to its chain, at most so many, and holds the record's own against it.
func (s *sessions) read(ctx context.Context, chain *interaction.Chain, r ledger.Record, most int64) (int, error) {
	tokens, err := s.from(ctx, r.Session, chain.Len()+1, int(min(readAtOnce, most)))
	if err != nil {
		return 0, err
	}
	if s.count += len(tokens); s.count > maxSession {
		return 0, refusal.New("interaction_chain_too_long", "more than %d receipts are to be verified at once", maxSession)
	}
	for _, token := range tokens {
		o, err := chain.Add(token)
		if err != nil {
			return 0, err
		}
		if c := o.Claims(); c.Post != nil && c.RequestID == r.ID {
			if err := holdsPost(c.Post, r); err != nil {
				return 0, err
			}
		}
	}
	return len(tokens), nil
}

// holds holds a chain against a record, and against what the record's session receipt names.
func holds(chain *interaction.Chain, r ledger.Record, head evidence.InteractionHead) error {
	last := chain.Last()
	if last.EventID != "" && last.EventID != r.Event {
		return refusal.New("interaction_session", "the receipts are of a session of event %.80q, and the record of one of %.80q", last.EventID, r.Event)
	}
	return chain.Names(head)
}

// holdsPost refuses the receipt of a post that names other artifacts than the post's record has.
func holdsPost(p *interaction.PostMade, r ledger.Record) error {
	if p.BindingHash != r.BindingHash {
		return refusal.New("record_mismatch", "the receipt of the post names another binding than the record")
	}
	for _, a := range p.Artifacts {
		if evidence.HashToken(artifact(r, a.Name)) != a.Hash {
			return refusal.New("record_mismatch", "the receipt of the post names another %.60s than the record has", a.Name)
		}
	}
	return nil
}

// expected is whose chain the receipts of a record are.
func (t *Trust) expected(r ledger.Record) interaction.Expected {
	return interaction.Expected{Owner: t.owner(), Session: r.Session, Agent: r.Subject}
}

// owner is how receipts name the owner of what t answers for.
func (t *Trust) owner() string { return interaction.Owner(t.Roots[0].Public) }

// opener opens receipts, each by the manifest that it names and by the certificates of its time.
func (t *Trust) opener(now time.Time) interaction.Opener {
	by := make(map[*manifest]interaction.Opener)
	return func(token string, c interaction.Receipt) (o evidence.Opened[interaction.Receipt], err error) {
		if t.foreign {
			return o, t.notPinned("receipt")
		}
		m, err := t.manifest(c.PolicyID, "receipt")
		if err != nil {
			return o, err
		}
		if by[m] == nil {
			past, err := t.past(m)
			if err != nil {
				return o, err
			}
			by[m] = interaction.Past(past, m.strict.Interaction, now)
		}
		return by[m](token, c)
	}
}

// Interactions is what the session receipt of a record names of its session's interaction receipts.
type Interactions struct {
	evidence.InteractionHead
	// Verified: the receipts from First up to that one are there, and are valid. An export has them from the first on.
	Verified bool  `json:"verified"`
	First    int64 `json:"first,omitempty"`
}

// JudgedReceipts is the result of verifying interaction receipts by themselves.
type JudgedReceipts struct {
	Last   interaction.Receipt
	Head   string // hash of the last
	Chain  bool   // they are the chain of a session, from its first receipt on; otherwise it is one receipt from the middle of one
	Closed bool   // the last closes the session; otherwise receipts may be missing at the end
}

// JudgeReceipts verifies the receipts of one session: all from number 1 on, or a single one of whatever number. An error of tokens ends it. Of a
// chain it calls each, unless that is nil, with each receipt in turn.
func (a Archive) JudgeReceipts(tokens iter.Seq2[string, error], now time.Time, each func(hash string, r *interaction.Receipt)) (j JudgedReceipts, err error) {
	var chain *interaction.Chain
	var t *Trust
	for token, err := range tokens {
		if err != nil {
			return j, err
		}
		if t == nil {
			c, err := evidence.UnverifiedClaims(interaction.Kind, token)
			if err != nil {
				return j, err
			}
			if t, err = a.ofOwner(c.Owner); err != nil {
				return j, err
			}
			chain = interaction.NewChain(t.opener(now), interaction.Expected{Owner: t.owner()})
			if c.Chain.SequenceNumber > 1 {
				if j, err = t.judgeReceipt(token, c, now); err != nil {
					return j, err
				}
				continue
			}
		}
		o, err := chain.Add(token)
		if err != nil {
			return j, err
		}
		j = JudgedReceipts{Last: o.Claims(), Head: o.Hash(), Chain: true, Closed: chain.Closed()}
		if each != nil {
			each(j.Head, &j.Last)
		}
	}
	if t == nil {
		return j, refusal.New("evidence_malformed", "there is no receipt")
	}
	return j, nil
}

// judgeReceipt verifies a receipt from the middle of a chain.
func (t *Trust) judgeReceipt(token string, c interaction.Receipt, now time.Time) (j JudgedReceipts, err error) {
	o, err := t.opener(now)(token, c)
	return JudgedReceipts{Last: o.Claims(), Head: o.Hash()}, err
}

// ofOwner returns the trust whose registry an owner is named by.
func (a Archive) ofOwner(owner string) (*Trust, error) {
	for _, t := range a {
		if t.owner() == owner {
			return t, nil
		}
	}
	return nil, refusal.New("interaction_owner", "the receipt names the owner %s, whose key registry is not pinned", owner)
}

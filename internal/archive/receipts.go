package archive

import (
	"context"
	"crypto/sha256"
	"errors"
	"iter"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// Receipts returns interaction receipts of a session in order, from a number on and at most limit.
type Receipts func(ctx context.Context, session string, from int64, limit int) ([]string, error)

// ReceiptsOf returns a source of one session's receipts, in order.
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

const receiptsCheck = "interaction receipts"

// sessions verifies the interaction receipts that records rest on: each session's chain up to the last receipt that its
// records name.
type sessions struct {
	from   Receipts // nil without receipts
	alone  bool     // they came with one record: they may be the end of its chain, and all of them are verified
	now    time.Time
	chains map[string]*session // by id
	count  int                 // receipts
	once   map[[16]byte]bool   // hashes of the records' ids and bindings
}

type session struct {
	*interaction.Chain
	posts map[string]madePost // by id: posts with a receipt whose record has not come yet
	ids   map[string]string   // of these posts, by binding
}

func newSessions(from Receipts, now time.Time) *sessions {
	return &sessions{from: from, now: now, chains: make(map[string]*session), once: make(map[[16]byte]bool)}
}

// named returns the head of the chain that a record's session receipt names, unverified, or nil.
func named(r ledger.Record) *evidence.InteractionHead {
	c, err := evidence.UnverifiedClaims(evidence.SessionReceiptKind(), artifact(r, "sessionReceipt"))
	if err != nil {
		return nil
	}
	return c.Interactions
}

// verify verifies the receipts of a record's session up to the one that its verified session receipt names and to the
// post's own, and compares them with the record. Without receipts it returns no chain.
func (s *sessions) verify(ctx context.Context, t *Trust, r ledger.Record, head evidence.InteractionHead) (*session,
	*madePost, error) {
	chain := s.chains[r.Session]
	if chain == nil {
		begin := interaction.NewChain
		if s.alone {
			begin = interaction.NewTail
		}
		want := interaction.Expected{Owner: t.owner(), Session: r.Session, Agent: r.Subject}
		chain = &session{begin(t.opener(s.now), want), make(map[string]madePost), make(map[string]string)}
		s.chains[r.Session] = chain
	}
	for s.wants(chain, r, head) {
		n, err := s.read(ctx, chain, r, head)
		if errors.Is(err, refusal.New("roots_not_pinned", "")) && chain.Len() > 0 && chain.Len() >= head.Number {
			break // a later start under other roots made the rest: it says nothing about the record
		}
		if err != nil {
			return chain, nil, err
		}
		if n == 0 {
			break
		}
	}
	if chain.Len() == 0 && (head.Number > 0 || s.alone) {
		return nil, nil, nil
	}
	if err := holds(chain.Chain, r, head); err != nil {
		return chain, nil, err
	}
	post, ok := chain.posts[r.ID]
	switch id := chain.ids[r.BindingHash]; {
	case id != "" && id != r.ID:
		return chain, nil,
			refusal.New("record_mismatch", "the receipt of the post names the id %.80q, but the record names %.80q", id,
				r.ID)
	case !ok:
		return chain, nil, nil
	}
	delete(chain.posts, r.ID)
	delete(chain.ids, r.BindingHash)
	return chain, &post, post.check(r)
}

func (s *sessions) wants(chain *session, r ledger.Record, head evidence.InteractionHead) bool {
	_, own := chain.posts[r.ID]
	_, other := chain.ids[r.BindingHash]
	return s.alone || chain.Len() < head.Number || !own && !other && r.State.Outcome()
}

// readAfter bounds the receipts read after the named one to find the post's own, which is among the next.
const readAfter = 16

func (s *sessions) read(ctx context.Context, chain *session, r ledger.Record, head evidence.InteractionHead) (int,
	error) {
	limit := readAtOnce
	if !s.alone {
		limit = int(min(readAtOnce, max(readAfter, head.Number-chain.Len())))
	}
	tokens, err := s.from(ctx, r.Session, chain.Len()+1, limit)
	if err != nil {
		return 0, err
	}
	if s.count += len(tokens); s.count > maxSession {
		return 0, refusal.New("session_full", "at most %d receipts can be verified at once", maxSession)
	}
	for _, token := range tokens {
		o, err := chain.Add(token)
		if err != nil {
			return 0, err
		}
		if c := o.Claims(); c.Post != nil {
			chain.posts[c.RequestID], chain.ids[c.Post.BindingHash] = newMadePost(&c), c.RequestID
		}
	}
	return len(tokens), nil
}

func holds(chain *interaction.Chain, r ledger.Record, head evidence.InteractionHead) error {
	last := chain.Last()
	if last.EventID != "" && last.EventID != r.Event {
		return refusal.New("chain_broken",
			"the receipts come from a session of event %.80q, but the record from a session of event %.80q",
			last.EventID, r.Event)
	}
	return chain.Names(head)
}

// first refuses a second record with an id or a binding: each post has one record.
func (s *sessions) first(r ledger.Record) error {
	for _, what := range []struct{ name, value string }{{"id", r.ID}, {"binding", r.BindingHash}} {
		sum := sha256.Sum256([]byte(what.name + " " + what.value))
		key := [16]byte(sum[:])
		switch {
		case what.value == "":
			continue
		case s.once[key]:
			return refusal.New("record_mismatch", "there is another record with this %s", what.name)
		}
		s.once[key] = true
	}
	return nil
}

func (t *Trust) owner() string { return interaction.Owner(t.Roots[0].Public) }

// opener opens each receipt by the manifest that it names and the certificates of its time.
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
			past, err := t.believedBy(m)
			if err != nil {
				return o, err
			}
			by[m] = interaction.Past(past, m.strict.Interaction, now)
		}
		return by[m](token, c)
	}
}

// Interactions describes the interaction receipts that the session receipt of a record names.
type Interactions struct {
	evidence.InteractionHead
	// Verified means that the receipts from First up to the head are valid. An export has them from the first on.
	Verified bool  `json:"verified"`
	First    int64 `json:"first,omitempty"`
}

// JudgedReceipts is the result of verifying interaction receipts by themselves.
type JudgedReceipts struct {
	Last   interaction.Receipt `json:"-"`      // the last that is more than a hash
	Number int64               `json:"number"` // of Last
	Head   string              `json:"head"`   // hash of Last
	// all from the first on are valid; otherwise one receipt from the middle is
	Chain bool `json:"chain"`
	// Last closes the session; otherwise receipts may be missing at the end
	Closed bool  `json:"closed"`
	Hidden int64 `json:"closedReceipts"` // receipts that are only hashes: a later receipt shows that they exist
	After  int64 `json:"closedAfter"`    // hashes that no receipt names, so anybody can add them
	// Lost receipts follow Last: the next start made them under other roots, for calls that a crash had left open.
	Lost         int64 `json:"lostReceipts"`
	LostVerified bool  `json:"lostVerified"` // their roots are pinned, and they are valid and continue the chain
}

// HiddenReceipt is the prefix of a receipt's hash in place of the receipt.
const HiddenReceipt = "closed:"

// Hide replaces a post's receipt by its hash, because its output_clean_hash, a SHA-256 of the content, confirms a right
// guess. Any other receipt stays.
func Hide(token string) (string, error) {
	c, err := evidence.UnverifiedClaims(interaction.Kind, token)
	if err != nil || c.Post == nil {
		return token, err
	}
	return HiddenReceipt + evidence.HashToken(token), nil
}

// JudgeReceipts verifies the receipts of one session: all from number 1 on, or any single one. [Hide] may have replaced
// some. It calls a non-nil each with each receipt of a chain in turn; then none may be hidden or lost.
func (a Archive) JudgeReceipts(tokens iter.Seq2[string, error], now time.Time,
	each func(hash string, r *interaction.Receipt)) (JudgedReceipts, error) {
	j := receiptJudge{archive: a, now: now, each: each}
	for token, err := range tokens {
		if err == nil {
			err = j.add(token)
		}
		if err != nil {
			return j.JudgedReceipts, err
		}
	}
	if j.t == nil {
		return j.JudgedReceipts, refusal.New("evidence_malformed", "there is no receipt")
	}
	j.Closed = j.Chain && j.chain.Closed()
	if j.LostVerified = j.lost != nil; j.LostVerified {
		j.Closed = j.lost.Closed()
	}
	return j.JudgedReceipts, nil
}

type receiptJudge struct {
	JudgedReceipts
	archive     Archive
	now         time.Time
	each        func(hash string, r *interaction.Receipt)
	t           *Trust // of the first receipt
	chain, lost *interaction.Chain
	hidden      []string // before the first receipt
}

// add adds a receipt or the hash of one.
func (j *receiptJudge) add(token string) error {
	if j.Number > 0 && !j.Chain {
		return refusal.New("chain_incomplete",
			"the receipts start with number %d of the session: give them from number 1 on, or only this one", j.Number)
	}
	if hash, is := strings.CutPrefix(token, HiddenReceipt); is && j.each == nil {
		return j.addHidden(hash)
	}
	c, err := evidence.UnverifiedClaims(interaction.Kind, token)
	switch {
	case j.t == nil && err != nil:
		return err
	case j.t == nil:
		return j.begin(token, c)
	case err == nil && j.chain.Len() > 0 && c.Owner != j.t.owner() && j.each == nil:
		return j.addLost(token, c)
	case j.Lost > 0:
		return refusal.New("chain_broken",
			"a receipt follows the receipts that were made under other roots after a crash; those must be the last")
	}
	return j.addNext(token)
}

func (j *receiptJudge) addHidden(hash string) (err error) {
	switch {
	case j.lost != nil:
		err = j.lost.AddClosed(hash)
	case j.Lost > 0: // nothing continues the chain
	case j.chain != nil:
		err = j.chain.AddClosed(hash)
	case !evidence.IsHash(hash) || len(j.hidden) == interaction.MaxReceipts:
		err = refusal.New("evidence_malformed",
			"the hash of a hidden receipt is not a SHA-256, or there are too many hidden receipts")
	default:
		j.hidden = append(j.hidden, hash)
	}
	if err == nil {
		j.After++
	}
	return err
}

// begin adds the first receipt that is more than a hash.
func (j *receiptJudge) begin(token string, c interaction.Receipt) (err error) {
	if j.t, err = j.archive.ofOwner(token, c); err != nil {
		return err
	}
	open := j.t.opener(j.now)
	if c.Chain.SequenceNumber > 1 && len(j.hidden) == 0 { // it comes from the middle
		o, err := open(token, c)
		if err == nil {
			j.Last, j.Head, j.Number = o.Claims(), o.Hash(), c.Chain.SequenceNumber
		}
		return err
	}
	j.chain = interaction.NewChain(open, interaction.Expected{Owner: j.t.owner()})
	for _, hash := range j.hidden {
		if err := j.chain.AddClosed(hash); err != nil {
			return err
		}
	}
	return j.addNext(token)
}

func (j *receiptJudge) addNext(token string) error {
	o, err := j.chain.Add(token)
	if err != nil {
		return err
	}
	j.Last, j.Head, j.Number, j.Chain = o.Claims(), o.Hash(), j.chain.Len(), true
	if j.Hidden, j.After = j.Hidden+j.After, 0; j.each != nil {
		j.each(j.Head, &j.Last)
	}
	return nil
}

// addLost adds a receipt that follows the chain under other roots: see [JudgedReceipts]. It stays unverified, as do all
// after it, if these roots are not pinned.
func (j *receiptJudge) addLost(token string, c interaction.Receipt) error {
	if j.Lost == 0 || j.lost != nil {
		if err := j.verifyLost(token, c); err != nil {
			return err
		}
	}
	if j.Lost++; j.lost != nil {
		j.Hidden, j.After = j.Hidden+j.After, 0
	}
	return nil
}

func (j *receiptJudge) verifyLost(token string, c interaction.Receipt) error {
	if j.chain.Closed() {
		return refusal.New("chain_broken",
			"a receipt made under other roots follows receipt %d, which closes the session", j.chain.Len())
	}
	t, err := j.archive.ofOwner(token, c)
	if err != nil {
		j.lost = nil
		return nil //nolint:nilerr // they stay unverified
	}
	if j.lost == nil {
		last := j.chain.Last()
		if c.Chain.SequenceNumber != j.chain.Len()+1 || c.Chain.PreviousReceiptHash != j.chain.Head() {
			return refusal.New("chain_broken", "receipt %d was made under other roots and does not follow receipt %d",
				c.Chain.SequenceNumber, j.chain.Len())
		}
		j.lost = interaction.NewTail(t.opener(j.now),
			interaction.Expected{Owner: t.owner(), Session: last.Chain.SessionID, Agent: last.Agent})
	}
	if left := c.Outcome == interaction.OutcomeIndeterminate || c.Closing != nil &&
		c.Closing.Reason == interaction.ClosedLost; !left {
		return refusal.New("roots_not_pinned",
			"receipt %d was made under other roots, but says neither that its call is indeterminate nor "+
				"that its session was lost", c.Chain.SequenceNumber)
	}
	_, err = j.lost.Add(token)
	return err
}

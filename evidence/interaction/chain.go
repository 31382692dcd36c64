package interaction

import (
	"errors"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

// MaxReceipts bounds a chain.
const MaxReceipts = 1 << 17

// Expected names a chain. An empty Owner refuses every receipt; for an empty Session or Agent the first receipt's
// counts.
type Expected struct {
	Owner   string // of the pinned key registry; see [Owner]
	Session string
	Agent   string
}

// Opener opens one receipt, whose claims are c if the signature is right.
type Opener func(token string, c Receipt) (evidence.Opened[Receipt], error)

// Past returns an [Opener] that uses the certificates of the second of each receipt's iat. now is today's time.
func Past(trust *evidence.PastTrust, want evidence.Expected, now time.Time) Opener {
	var verifier *evidence.Verifier
	var at int64
	return func(token string, c Receipt) (o evidence.Opened[Receipt], err error) {
		if verifier == nil || at != c.IssuedAt {
			if verifier, err = trust.At(time.Unix(c.IssuedAt, 0), now); err != nil {
				return o, err
			}
			at = c.IssuedAt
		}
		o, err = evidence.Open(verifier, Kind, token, want)
		if errors.Is(err, refusal.New("signature_invalid", "")) { // by the key before a restart in this second
			if before, bad := trust.At(time.Unix(c.IssuedAt-1, 0), now); bad == nil {
				return evidence.Open(before, Kind, token, want)
			}
		}
		return o, err
	}
}

// Chain verifies one session's receipts in order. It keeps only their hashes and request ids.
type Chain struct {
	open    Opener
	want    Expected
	tail    bool  // may begin with any receipt
	before  int64 // number of receipts before the first added one
	last    Receipt
	first   Receipt
	hashes  []string         // of the added receipts, in order
	numbers map[string]int64 // of receipts, by request
}

// NewChain starts before receipt 1; [NewTail] starts anywhere.
func NewChain(open Opener, want Expected) *Chain {
	return &Chain{open: open, want: want, numbers: make(map[string]int64)}
}

// NewTail is NewChain for the end of a chain, whose first added receipt may have any number.
func NewTail(open Opener, want Expected) *Chain {
	c := NewChain(open, want)
	c.tail = true
	return c
}

// Add verifies and returns the next receipt. After an error the chain is unchanged.
func (c *Chain) Add(token string) (o evidence.Opened[Receipt], err error) {
	claims, err := evidence.UnverifiedClaims(Kind, token)
	if err != nil {
		return o, err
	}
	if c.want.Owner == "" || c.want.Owner != claims.Owner { // checked first: another owner's key can have the same id
		return o, refusal.New("roots_not_pinned",
			"the receipt names the owner %q, but the pinned key registry belongs to the owner %s", claims.Owner,
			c.want.Owner)
	}
	if o, err = c.open(token, claims); err != nil {
		return evidence.Opened[Receipt]{}, err
	}
	r := o.Claims()
	if err := c.follows(&r, o.Hash()); err != nil {
		return evidence.Opened[Receipt]{}, err
	}
	if len(c.hashes) == 0 {
		c.first, c.before = r, r.Chain.SequenceNumber-1
	}
	c.hashes = append(c.hashes, o.Hash())
	c.numbers[r.RequestID] = r.Chain.SequenceNumber
	c.last = r
	return o, nil
}

// AddClosed adds the next receipt by its hash alone, which the receipt after it must name.
func (c *Chain) AddClosed(hash string) error {
	switch {
	case !evidence.IsHash(hash):
		return refusal.New("evidence_malformed", "the hash of a hidden receipt is not a SHA-256")
	case c.Closed():
		return refusal.New("chain_broken", "a hidden receipt follows receipt %d, which closes the session", c.Len())
	case len(c.hashes) == MaxReceipts:
		return refusal.New("session_full", "the chain is full: it already has %d receipts", MaxReceipts)
	}
	c.hashes = append(c.hashes, hash)
	return nil
}

// Head returns the last receipt's hash, or "".
func (c *Chain) Head() string { return c.hash(c.Len()) }

func (c *Chain) follows(r *Receipt, hash string) error {
	number, count, begun := r.Chain.SequenceNumber, c.Len(), len(c.hashes) > 0
	session, agent := c.want.Session, c.want.Agent
	if begun {
		session, agent = c.last.Chain.SessionID, c.last.Agent
	}
	if c.tail && !begun {
		count = number - 1
	}
	switch {
	case session != "" && session != r.Chain.SessionID:
		return refusal.New("chain_broken", "the receipt belongs to session %.80q, but the chain to session %.80q",
			r.Chain.SessionID, session)
	case agent != "" && agent != r.Agent:
		return refusal.New("chain_broken", "the receipt is about agent %.80q, but the chain is about agent %.80q",
			r.Agent, agent)
	case begun && c.last.Closing != nil:
		return refusal.New("chain_broken", "receipt %d follows receipt %d, which closes the session", number, count)
	case len(c.hashes) == MaxReceipts:
		return refusal.New("session_full", "the chain is full: it already has %d receipts", MaxReceipts)
	case number > count+1:
		return refusal.New("chain_incomplete", "receipt %d follows receipt %d: the receipts between them are missing",
			number, count)
	case number <= count && c.hash(number) != hash && number > c.before:
		return refusal.New("chain_broken", "there are two receipts with the number %d", number)
	case number <= count:
		return refusal.New("chain_broken", "receipt %d comes after receipt %d, out of order", number, count)
	case begun && r.Chain.PreviousReceiptHash != c.hash(count):
		return refusal.New("chain_broken", "receipt %d does not name the hash of receipt %d, the one before it", number,
			count)
	}
	if other, ok := c.numbers[r.RequestID]; ok {
		return refusal.New("chain_broken", "receipts %d and %d are both about the call %.80q", other, number,
			r.RequestID)
	}
	if c.last.RequestID == "" { // no receipt, or all were added by hash
		return nil
	}
	return c.agrees(r)
}

// agrees refuses a receipt that contradicts its predecessor: clock and counts never fall.
func (c *Chain) agrees(r *Receipt) error {
	number, before, now := r.Chain.SequenceNumber, c.last.Session, r.Session
	switch {
	case r.EventID != c.last.EventID || r.RuntimeID != c.last.RuntimeID || now.OpenedMS != before.OpenedMS:
		return refusal.New("chain_broken",
			"receipt %d and the one before it name different events, runtimes or opening times of the session", number)
	case r.IssuedAt < c.last.IssuedAt:
		return refusal.New("chain_broken", "receipt %d was signed %d s earlier than the one before it", number,
			c.last.IssuedAt-r.IssuedAt)
	case now.Calls < before.Calls || now.CallsObserved < before.CallsObserved || now.BytesOut < before.BytesOut ||
		now.BytesOutObserved < before.BytesOutObserved:
		return refusal.New("chain_broken",
			"receipt %d counts fewer calls or bytes in the session than the one before it", number)
	}
	return nil
}

// Len returns the last receipt's number, also of a tail.
func (c *Chain) Len() int64 { return c.before + int64(len(c.hashes)) }

// First returns the number of the first added receipt, or 1.
func (c *Chain) First() int64 { return c.before + 1 }

func (c *Chain) hash(number int64) string {
	switch at := number - c.before - 1; {
	case at >= 0 && at < int64(len(c.hashes)):
		return c.hashes[at]
	case at == -1 && number > 0:
		return c.first.Chain.PreviousReceiptHash
	}
	return ""
}

// Last returns zero claims for an empty chain.
func (c *Chain) Last() Receipt { return c.last }

// Closed reports whether the last receipt closes the session: an open chain may lack receipts at its end.
func (c *Chain) Closed() bool { return c.last.Closing != nil }

// Names checks a post's session receipt against the chain, which may have grown since: the named receipt exists; and
// each call that was open has no receipt before it and, in a closed chain, one after it.
func (c *Chain) Names(head evidence.InteractionHead) error {
	none := head.Number == 0 && head.HeadHash == "" // as a session receipt writes it
	if there := head.Number > 0 && head.HeadHash != "" && c.hash(head.Number) == head.HeadHash; !none && !there {
		return refusal.New("chain_broken",
			"the session receipt names receipt %d with the hash %.80s, which is not in the chain of receipts %d to %d",
			head.Number, head.HeadHash, c.First(), c.Len())
	}
	for _, id := range head.OpenCalls {
		number, ok := c.numbers[id]
		switch {
		case ok && number <= head.Number:
			return refusal.New("chain_broken",
				"the session receipt says that the call %.80q was open after receipt %d, but receipt %d has ended it",
				id, head.Number, number)
		case !ok && c.Closed():
			return refusal.New("chain_broken",
				"the call %.80q was open after receipt %d, but the chain was closed without a receipt for it", id,
				head.Number)
		}
	}
	return nil
}

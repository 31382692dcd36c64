package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
)

const (
	// maxBatch and maxBatchBytes bound the receipts of one request.
	maxBatch      = 200
	maxBatchBytes = 1 << 20
	// maxClaimed is how many sessions are claimed at once, for one pass, which begins no request after maxPass.
	maxClaimed = 64
	maxPass    = time.Minute
	// lease is how long a claimed session belongs to this process: longer than a pass takes.
	lease = maxPass + requestTimeout + 20*time.Second
	// lookPeriod is how often the sender looks whether this process has stored receipts, and restPeriod how often it looks for what other
	// processes have left.
	lookPeriod, restPeriod = 500 * time.Millisecond, 30 * time.Second
	// firstPause and lastPause bound the pauses after attempts that failed.
	firstPause, lastPause = time.Second, time.Minute
	// busyPause is how long a session waits that the node cannot take now, and refusedPause one that it refuses: somebody may mend the
	// reason.
	busyPause, refusedPause = 10 * time.Second, time.Hour
	// behindOthers puts a session that got no answer behind the others: the next pass begins with those.
	behindOthers = firstPause / 2
	// settleTimeout bounds the keeping of how far a pass came, also of the last one.
	settleTimeout = 5 * time.Second
	// maxReason bounds what is kept of a node's reason, in bytes.
	maxReason = 300
)

// Node takes receipts. [Client] is one.
type Node interface {
	HandOver(ctx context.Context, session string, receipts []string) (Taken, error)
}

// Ledger has the receipts, and keeps how far they were handed over. [ledger.Queue] does.
type Ledger interface {
	ledger.Deliveries
	Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
	// Stored returns how many receipts this process has stored.
	Stored() int
}

// Sender hands the receipts in a ledger over to a node: those of each session in their order, for as long as it takes. Nobody waits for it,
// and it holds no more than one batch in memory. What a crash leaves open is handed over again; the node takes each receipt once.
//
// Processes that share a ledger share the work. A session whose receipts the node refuses is left alone for an
// hour. One whose receipts get no answer is tried after the others. Neither holds up another.
type Sender struct {
	node   Node
	ledger Ledger
	now    func() time.Time
	log    *zap.Logger

	sent    atomic.Int64           // receipts that the node has acknowledged
	away    atomic.Pointer[string] // why the last pass failed; nil if it did not
	backlog atomic.Pointer[ledger.Backlog]
}

// NewSender makes a sender. All is required.
func NewSender(node Node, l Ledger, now func() time.Time, log *zap.Logger) *Sender {
	return &Sender{node: node, ledger: l, now: now, log: log}
}

// Run hands receipts over until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	var looks sync.WaitGroup
	looks.Go(func() { s.watch(ctx) })
	defer looks.Wait()
	pause := time.Duration(0)
	for {
		stored := s.ledger.Stored()
		claimed, err := s.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case later(err) > 0:
			wait(ctx, later(err))
			continue
		case err != nil:
			s.failed(err)
			pause = min(max(2*pause, firstPause), lastPause)
			wait(ctx, pause/2+rand.N(pause/2+1)) //nolint:gosec // so that many sidecars do not come back at once
			continue
		}
		if s.away.Swap(nil) != nil {
			s.log.Info("the node takes receipts again")
		}
		pause = 0
		if claimed > 0 {
			continue
		}
		for until := s.now().Add(restPeriod); s.ledger.Stored() == stored && s.now().Before(until) && wait(ctx, lookPeriod); {
		}
	}
}

// Drain hands over what is stored now, until the node does not answer or ctx ends: for a process that ends, once Run has.
func (s *Sender) Drain(ctx context.Context) {
	for ctx.Err() == nil {
		if claimed, err := s.pass(ctx); err != nil || claimed == 0 {
			return // the rest is handed over after the next start
		}
	}
}

// failed notes that a pass has failed, and says the first of several failures in the log.
func (s *Sender) failed(err error) {
	why := err.Error()
	if s.away.Swap(&why) == nil {
		s.log.Warn("receipts cannot be handed over to the node now: they stay in the ledger until they can", zap.Error(err))
	}
}

// later returns how long a node wants to be left alone that has had too many requests; 0 for any other error.
func later(err error) time.Duration {
	var said *problem.Error
	if !errors.As(err, &said) || said.Details.Status != http.StatusTooManyRequests {
		return 0
	}
	return min(max(time.Second, time.Duration(said.RetryAfter())*time.Second), lastPause)
}

// wait waits, and reports whether ctx has not ended meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// pass hands over a batch of each of some sessions, and returns how many they were.
func (s *Sender) pass(ctx context.Context) (int, error) {
	now := s.now()
	claimed, err := s.ledger.ClaimDeliveries(ctx, now, now.Add(lease), maxClaimed)
	if err != nil || len(claimed) == 0 {
		return 0, err
	}
	for i := range claimed {
		d := &claimed[i]
		d.Due = s.now() // where nothing comes of it, it is given back
		if err == nil && ctx.Err() == nil && d.Due.Sub(now) < maxPass {
			if err = s.handOver(ctx, d); err != nil {
				d.Due = s.now().Add(behindOthers) // the failure may be of this session's receipts alone
			}
		}
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return len(claimed), errors.Join(err, s.ledger.SettleDeliveries(settling, claimed...))
}

// handOver hands over the next batch of a session, and notes in d what became of it. An error says that the node or the ledger does not
// answer.
func (s *Sender) handOver(ctx context.Context, d *ledger.Delivery) error {
	batch, err := s.ledger.Chain(ctx, d.Session, d.Number+1, maxBatch)
	if err != nil || len(batch) == 0 { // they were removed meanwhile
		return err
	}
	if first := batch[0].Number; first != d.Number+1 {
		s.refuse(d, fmt.Sprintf("the ledger has no receipt %d any more", d.Number+1))
		return nil
	}
	var tokens []string
	size := 0
	for _, r := range batch {
		if size += len(r.Token); size > maxBatchBytes && len(tokens) > 0 {
			break
		}
		tokens = append(tokens, r.Token)
	}
	taken, err := s.node.HandOver(ctx, d.Session, tokens)
	if err != nil {
		return err
	}
	last := batch[len(tokens)-1]
	acknowledged := min(taken.Next-1, last.Number) // of a batch that is refused the node may have taken the first ones
	if acknowledged > d.Number {
		s.sent.Add(acknowledged - d.Number)
		d.Number = acknowledged
	}
	switch {
	case taken.Refused != nil:
		s.refused(d, taken)
	case d.Number < last.Number:
		s.refuse(d, fmt.Sprintf("the node has refused nothing up to receipt %d, and wants receipt %d next", last.Number, taken.Next))
	default:
		if d.Refused != "" {
			s.log.Info("the node takes the receipts of a session again", zap.String("session", d.Session))
		}
		d.Refused, d.Whole = "", last.Call == last.Session
	}
	return nil
}

// refused notes what the node has said in place of taking receipts.
func (s *Sender) refused(d *ledger.Delivery, taken Taken) {
	said := taken.Refused.Details
	switch {
	case said.Status == http.StatusTooManyRequests || said.Status >= http.StatusInternalServerError:
		d.Due = s.now().Add(min(max(busyPause, time.Duration(taken.Refused.RetryAfter())*time.Second), refusedPause))
	case said.Code == "chain_incomplete" && taken.Next > 0 && taken.Next <= d.Number: // the node was put back
		s.log.Warn("the node asks again for receipts of a session that it has acknowledged", zap.String("session", d.Session), zap.Int64("next", taken.Next))
		d.Number, d.Due = taken.Next-1, s.now().Add(busyPause)
	default:
		s.refuse(d, said.Code+": "+said.Detail)
	}
}

// refuse leaves a session alone, and says why in the log unless it was said before.
func (s *Sender) refuse(d *ledger.Delivery, why string) {
	why = strings.ToValidUTF8(why[:min(len(why), maxReason)], "")
	if d.Refused != why {
		s.log.Error("the node refuses the receipts of a session: they are handed over again in an hour", zap.String("session", d.Session), zap.String("reason", why))
	}
	d.Refused, d.Due = why, s.now().Add(refusedPause)
}

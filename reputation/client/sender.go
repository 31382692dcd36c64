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

	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
)

const (
	// maxBatch and maxBatchBytes bound one request.
	maxBatch      = 200
	maxBatchBytes = 1 << 20
	// maxClaimed bounds the sessions of one pass, and maxPass the time in which a pass starts requests.
	maxClaimed = 64
	maxPass    = time.Minute
	// lease is the time for which this process owns a claimed session: longer than a pass takes.
	lease = maxPass + requestTimeout + 20*time.Second
	// gatherPause lets receipts of this process gather. restPeriod is the time between checks for those of others.
	gatherPause, restPeriod = 500 * time.Millisecond, 30 * time.Second
	// firstPause and lastPause bound the pauses after failures.
	firstPause, lastPause = time.Second, time.Minute
	// busyPause delays a session that the node cannot take now, refusedPause one that it refuses.
	busyPause, refusedPause = 10 * time.Second, time.Hour
	// behindOthers delays a session without an answer, so that the next pass starts with the others.
	behindOthers = firstPause / 2
	// settleTimeout bounds recording the result of a pass.
	settleTimeout = 5 * time.Second
	// maxReason bounds the stored reason of a refusal, in bytes.
	maxReason = 300
)

// Node takes receipts. [Client] is one.
type Node interface {
	HandOver(ctx context.Context, session string, receipts []string) (Taken, error)
}

// Ledger holds the receipts and the progress of their delivery. [ledger.Queue] implements it.
type Ledger interface {
	ledger.Deliveries
	Chain(ctx context.Context, session string, from int64, limit int) ([]ledger.Receipt, error)
	// Stored counts the receipts that this process has stored. It waits while they are known, until ctx ends.
	Stored(ctx context.Context, known int) int
}

// Sender delivers the receipts in a ledger to a node, each session's in order, and retries for as long as it takes.
// Processes that share a ledger share the work. No session delays another. After a crash it may deliver again; the node
// takes each receipt once.
type Sender struct {
	node   Node
	ledger Ledger
	now    func() time.Time
	log    *zap.Logger

	sent    atomic.Int64
	away    atomic.Pointer[string] // why the last pass failed, or nil
	backlog atomic.Pointer[ledger.Backlog]
}

// NewSender makes a sender. All arguments are required.
func NewSender(node Node, l Ledger, now func() time.Time, log *zap.Logger) *Sender {
	return &Sender{node: node, ledger: l, now: now, log: log}
}

// Run delivers receipts until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	var looks sync.WaitGroup
	looks.Go(func() { s.watch(ctx) })
	defer looks.Wait()
	pause := time.Duration(0)
	for {
		stored := s.ledger.Stored(ctx, -1)
		more, err := s.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case later(err) > 0:
			_ = every.Sleep(ctx, later(err))
			continue
		case err != nil:
			s.failed(err)
			pause = min(max(2*pause, firstPause), lastPause)
			_ = every.Sleep(ctx, pause/2+rand.N(pause/2+1)) //nolint:gosec // spreads the retries of many sidecars
			continue
		}
		if s.away.Swap(nil) != nil {
			s.log.Info("the node takes receipts again")
		}
		pause = 0
		if more {
			continue
		}
		rest, cancel := context.WithTimeout(ctx, restPeriod)
		if s.ledger.Stored(rest, stored) != stored {
			_ = every.Sleep(ctx, gatherPause)
		}
		cancel()
	}
}

// Drain delivers what is stored, until the node does not answer or ctx ends. Call it after Run has returned.
func (s *Sender) Drain(ctx context.Context) {
	for ctx.Err() == nil {
		if more, err := s.pass(ctx); err != nil || !more {
			return // the next process delivers the rest
		}
	}
}

// failed records a failed pass and logs the first of several.
func (s *Sender) failed(err error) {
	why := err.Error()
	if s.away.Swap(&why) == nil {
		s.log.Warn("the node does not take receipts now: they stay in the ledger", zap.Error(err))
	}
}

// later returns the pause that a node demands after too many requests, or 0.
func later(err error) time.Duration {
	var said *problem.Error
	if !errors.As(err, &said) || said.Details.Status != http.StatusTooManyRequests {
		return 0
	}
	return min(max(time.Second, time.Duration(said.RetryAfter())*time.Second), lastPause)
}

// pass delivers one batch of each claimed session and reports whether there may be more.
func (s *Sender) pass(ctx context.Context) (more bool, err error) {
	now := s.now()
	claimed, err := s.ledger.ClaimDeliveries(ctx, now, now.Add(lease), maxClaimed)
	if err != nil || len(claimed) == 0 {
		return false, err
	}
	more = len(claimed) == maxClaimed
	for i := range claimed {
		d := &claimed[i]
		d.Due = s.now() // returned at once unless something comes of it
		if err != nil || ctx.Err() != nil || d.Due.Sub(now) >= maxPass {
			more = true
			continue
		}
		var full bool
		if full, err = s.handOver(ctx, d); err != nil {
			d.Due = s.now().Add(behindOthers) // the cause may be this session alone
		}
		more = more || full
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	return more, errors.Join(err, s.ledger.SettleDeliveries(settling, claimed...))
}

// handOver delivers the next batch of a session and records the result in d. It reports whether the batch was full. An
// error means that the node or the ledger did not answer.
func (s *Sender) handOver(ctx context.Context, d *ledger.Delivery) (full bool, err error) {
	batch, err := s.ledger.Chain(ctx, d.Session, d.Number+1, maxBatch)
	if err != nil || len(batch) == 0 { // pruned meanwhile
		return false, err
	}
	if first := batch[0].Number; first != d.Number+1 {
		s.refuse(d, fmt.Sprintf("the ledger no longer has receipt %d", d.Number+1))
		return false, nil
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
		return false, err
	}
	last := batch[len(tokens)-1]
	acknowledged := min(taken.Next-1, last.Number) // the node may have taken the start of a refused batch
	if acknowledged > d.Number {
		s.sent.Add(acknowledged - d.Number)
		d.Number = acknowledged
	}
	switch {
	case taken.Refused != nil:
		s.refused(d, taken)
	case d.Number < last.Number:
		s.refuse(d, fmt.Sprintf("the node refused no receipt up to %d, but did not take them all: it wants receipt %d next",
			last.Number,
			taken.Next))
	default:
		if d.Refused != "" {
			s.log.Info("the node takes the receipts of a session again", zap.String("session", d.Session))
		}
		d.Refused, d.Whole = "", last.Call == last.Session
	}
	return len(batch) == maxBatch || len(tokens) < len(batch), nil
}

func (s *Sender) refused(d *ledger.Delivery, taken Taken) {
	said := taken.Refused.Details
	switch {
	case said.Status == http.StatusTooManyRequests || said.Status >= http.StatusInternalServerError:
		d.Due = s.now().Add(min(max(busyPause, time.Duration(taken.Refused.RetryAfter())*time.Second), refusedPause))
	// the node was restored from a backup
	case said.Code == "chain_incomplete" && taken.Next > 0 && taken.Next <= d.Number:
		s.log.Warn("the node asks again for receipts that it had acknowledged",
			zap.String("session", d.Session), zap.Int64("next", taken.Next))
		d.Number, d.Due = taken.Next-1, s.now().Add(busyPause)
	default:
		s.refuse(d, said.Code+": "+said.Detail)
	}
}

func (s *Sender) refuse(d *ledger.Delivery, why string) {
	why = strings.ToValidUTF8(why[:min(len(why), maxReason)], "")
	if d.Refused != why {
		s.log.Error("the node refuses the receipts of a session: the next try is in an hour",
			zap.String("session", d.Session), zap.String("reason", why))
	}
	d.Refused, d.Due = why, s.now().Add(refusedPause)
}

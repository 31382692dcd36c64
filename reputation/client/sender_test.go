package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/test/check"
)

type node struct {
	mu      sync.Mutex
	kept    map[string][]string
	away    error
	refused map[string]*problem.Error // by session
	failed  map[string]error          // by session, in place of an answer
	takes   time.Duration             // each handover
	calls   int
	again   int // receipts that were handed over again
}

func newNode() *node {
	return &node{kept: make(map[string][]string), refused: make(map[string]*problem.Error), failed: make(map[string]error)}
}

func (n *node) HandOver(_ context.Context, session string, receipts []string) (client.Taken, error) {
	time.Sleep(n.takes)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if err := cmp.Or(n.away, n.failed[session]); err != nil {
		return client.Taken{}, err
	}
	kept := n.kept[session]
	next := func() int64 { return int64(len(kept)) + 1 }
	if why := n.refused[session]; why != nil {
		return client.Taken{Next: next(), Refused: why}, nil
	}
	for _, r := range receipts {
		if slices.Contains(kept, r) {
			n.again++
			continue
		}
		if r != token(session, next()) {
			n.kept[session] = kept
			return client.Taken{Next: next(),
				Refused: &problem.Error{Details: problem.Details{Code: "chain_incomplete", Status: 409}}}, nil
		}
		kept = append(kept, r)
	}
	n.kept[session] = kept
	return client.Taken{Next: next()}, nil
}

func (n *node) do(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func (n *node) wantAll(t *testing.T, session string, count int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := len(n.kept[session]); got != count {
		t.Errorf("the node has %d receipts of %s, want %d", got, session, count)
	}
}

func token(session string, number int64) string {
	return fmt.Sprintf("e30.%s-%d.%s", session, number, strings.Repeat("x", 6000))
}

type stand struct {
	t     *testing.T
	queue *ledger.Queue
	node  *node
	log   *observer.ObservedLogs
	last  map[string]int64
	*client.Sender
	stop func()
}

type lossy struct {
	*ledger.Queue
	fail func() error
}

func (l lossy) SettleDeliveries(ctx context.Context, all ...ledger.Delivery) error {
	if err := l.fail(); err != nil {
		return err
	}
	return l.Queue.SettleDeliveries(ctx, all...)
}

func begin(t *testing.T, fail func() error) *stand {
	t.Helper()
	l, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"),
		sqlite.Options{Now: time.Now, Retention: 2 * time.Hour})
	check.Must(t, err)
	core, logs := observer.New(zap.InfoLevel)
	s := &stand{t: t, node: newNode(), log: logs, last: make(map[string]int64)}
	s.queue = ledger.NewQueue(l, func(r ledger.Record, err error) { t.Errorf("%s is lost: %v", r.ID, err) })
	if fail == nil {
		fail = func() error { return nil }
	}
	s.Sender = client.NewSender(s.node, lossy{s.queue, fail}, time.Now, zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	s.stop = func() { cancel(); <-ended }
	t.Cleanup(func() {
		s.stop()
		if err := s.queue.Close(); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait() // else it could deliver the first of the receipts that a test is about to add
	return s
}

func (s *stand) add(session string, count int) {
	s.t.Helper()
	for range count {
		s.last[session]++
		n := s.last[session]
		r := ledger.Receipt{Session: session, Number: n, Call: fmt.Sprintf("post_%s_%d", session, n), Signed: time.Now(),
			Token: token(session, n)}
		if err := s.queue.AddReceiptLater(r); err != nil {
			s.t.Fatal(err)
		}
	}
	s.settle(session)
}

func (s *stand) settle(session string) {
	s.t.Helper()
	if err := s.queue.SettleReceipts(s.t.Context(), session); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) end(session string) {
	s.t.Helper()
	s.last[session]++
	err := s.queue.AddReceiptLater(
		ledger.Receipt{Session: session, Number: s.last[session], Call: session, Signed: time.Now(),
			Token: token(session, s.last[session])})
	if err != nil {
		s.t.Fatal(err)
	}
	s.settle(session)
}

func (s *stand) wantStatus(undelivered, refused int64) client.Status {
	s.t.Helper()
	got, err := s.Status(s.t.Context())
	if err != nil || got.Undelivered != undelivered || got.Refused != refused {
		s.t.Errorf("%+v, %v, want %d undelivered and %d refused", got, err, undelivered, refused)
	}
	return got
}

func (s *stand) lines(message string) int {
	return s.log.FilterMessageSnippet(message).Len()
}

func TestReceiptsAreHandedOverInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.add("ses_1", 450)
		s.add("ses_2", 3)
		time.Sleep(time.Second)
		s.node.wantAll(t, "ses_1", 450)
		s.node.wantAll(t, "ses_2", 3)
		s.add("ses_1", 1)
		s.end("ses_1")
		time.Sleep(time.Second)
		s.node.wantAll(t, "ses_1", 452)
		s.wantStatus(0, 0)
		if s.node.again != 0 {
			t.Errorf("%d receipts were handed over again", s.node.again)
		}
	})
}

func TestReceiptsOfSteadyPostsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.takes = 20 * time.Millisecond
		const posts = 300
		for range posts {
			s.add("ses_1", 1)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		s.node.wantAll(t, "ses_1", posts)
		if s.node.calls > 10 {
			t.Errorf("the node got %d requests for %d posts in three seconds", s.node.calls, posts)
		}
	})
}

func TestNodeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.add("ses_1", 1)
		time.Sleep(time.Second)
		s.node.do(func() { s.node.away, s.node.calls = errors.New("nobody there"), 0 })
		began := time.Now()
		s.add("ses_1", 200)
		s.add("ses_2", 5)
		time.Sleep(time.Hour)
		s.node.wantAll(t, "ses_1", 1)
		s.node.do(func() {
			if n := s.node.calls; n < 60 || n > 150 {
				t.Errorf("the node was asked %d times in an hour", n)
			}
			s.node.away = nil
		})
		if got := s.wantStatus(205, 0); got.Away == "" || got.Oldest == nil || got.Oldest.Sub(began).Abs() > time.Second {
			t.Errorf("%+v", got)
		}
		wantMetrics(t, s, 0, 205)
		time.Sleep(2 * time.Minute)
		s.node.wantAll(t, "ses_1", 201)
		s.node.wantAll(t, "ses_2", 5)
		if s.lines("does not take receipts now") != 1 || s.lines("takes receipts again") != 1 || s.node.again != 0 {
			t.Errorf("%v, %d again", s.log.All(), s.node.again)
		}
		wantMetrics(t, s, 1, 0)
	})
}

func wantMetrics(t *testing.T, s *stand, reachable, undelivered float64) {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	s.Register(r)
	families, err := r.Gather()
	check.Must(t, err)
	got := make(map[string]float64)
	for _, f := range families {
		got[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
	}
	if got["mediator_node_reachable"] != reachable || got["mediator_receipts_undelivered"] != undelivered {
		t.Errorf("%v, want %v reachable and %v undelivered", got, reachable, undelivered)
	}
	if since := got["mediator_receipts_undelivered_since_seconds"]; since == 0 || undelivered == 0 &&
		since != float64(time.Now().Unix()) {
		t.Errorf("%v", got)
	}
}

func TestCursorIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := 2
		s := begin(t, func() error {
			if failures--; failures >= 0 {
				return errors.New("the disk is full")
			}
			return nil
		})
		s.add("ses_1", 30)
		time.Sleep(time.Minute)
		s.node.wantAll(t, "ses_1", 30)
		s.wantStatus(0, 0)
		if s.node.again != 60 {
			t.Errorf("%d receipts were handed over again, want 60", s.node.again)
		}
	})
}

func TestRefusedSession(t *testing.T) {
	fork := &problem.Error{
		Details: problem.Details{Code: "chain_broken", Status: 403, Detail: strings.Repeat("two histories ", 100)}}
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.do(func() { s.node.refused["ses_1"] = fork })
		s.add("ses_1", 3)
		s.add("ses_2", 3)
		time.Sleep(10 * time.Second)
		s.node.wantAll(t, "ses_2", 3)
		if got := s.wantStatus(3, 1); !strings.HasPrefix(got.Reason, "chain_broken: two histories") ||
			len(got.Reason) > 300 || got.Away != "" {
			t.Errorf("%+v", got)
		}
		s.add("ses_2", 2)
		time.Sleep(59 * time.Minute)
		s.node.do(func() {
			if s.node.calls != 3 {
				t.Errorf("the node was asked %d times, want 3", s.node.calls)
			}
		})
		time.Sleep(90 * time.Minute)
		if n := s.lines("refuses the receipts of a session"); n != 1 {
			t.Errorf("it was said %d times", n)
		}
		s.node.do(func() { delete(s.node.refused, "ses_1") })
		time.Sleep(61 * time.Minute)
		s.node.wantAll(t, "ses_1", 3)
		s.wantStatus(0, 0)
		if s.lines("takes the receipts of a session again") != 1 {
			t.Error("nobody is told that the session goes on")
		}
	})
}

func TestSessionWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.do(func() { s.node.failed["ses_1"] = errors.New("413 Request Entity Too Large") })
		for i := range 5 {
			s.add(fmt.Sprintf("ses_%d", i+1), 3)
		}
		time.Sleep(10 * time.Minute)
		for i := range 4 {
			s.node.wantAll(t, fmt.Sprintf("ses_%d", i+2), 3)
		}
		s.node.do(func() { delete(s.node.failed, "ses_1") })
		time.Sleep(2 * time.Minute)
		s.node.wantAll(t, "ses_1", 3)
		s.wantStatus(0, 0)
	})
}

func TestBusyNode(t *testing.T) {
	for _, status := range []int{429, 503} {
		synctest.Test(t, func(t *testing.T) {
			s := begin(t, nil)
			s.node.do(func() {
				s.node.refused["ses_1"] = &problem.Error{
					Details: problem.Details{Code: "rate_limited", Status: status, RetryAfter: 20}}
			})
			s.add("ses_1", 3)
			time.Sleep(15 * time.Second)
			s.wantStatus(3, 0)
			s.node.do(func() { delete(s.node.refused, "ses_1") })
			time.Sleep(time.Minute)
			s.node.wantAll(t, "ses_1", 3)
		})
	}
}

func TestTooManyRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.do(func() {
			s.node.away = &problem.Error{Details: problem.Details{Code: "rate_limited", Status: 429, RetryAfter: 20}}
		})
		s.add("ses_1", 3)
		time.Sleep(15 * time.Second)
		if got := s.wantStatus(3, 0); got.Away != "" || len(s.log.All()) != 0 {
			t.Errorf("%+v, %v", got, s.log.All())
		}
		s.node.do(func() {
			if s.node.calls != 1 {
				t.Errorf("the node was asked %d times", s.node.calls)
			}
			s.node.away = nil
		})
		time.Sleep(10 * time.Second)
		s.node.wantAll(t, "ses_1", 3)
	})
}

func TestNodeWasPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.add("ses_1", 10)
		time.Sleep(time.Second)
		s.node.do(func() { s.node.kept["ses_1"] = s.node.kept["ses_1"][:4] })
		s.add("ses_1", 1)
		time.Sleep(time.Minute)
		s.node.wantAll(t, "ses_1", 11)
		s.wantStatus(0, 0)
	})
}

func TestPrunedBeforeDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.do(func() { s.node.away = errors.New("nobody there") })
		s.add("ses_1", 7)
		time.Sleep(3 * time.Hour)
		check.Must(t, s.queue.Prune(t.Context(), time.Now()))
		time.Sleep(time.Minute)
		if got := s.wantStatus(0, 0); got.Pruned != 7 || s.lines("expired before") != 1 {
			t.Errorf("%+v, %v", got, s.log.All())
		}
	})
}

func TestLargeReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.node.do(func() { s.node.away = errors.New("nobody there") })
		s.add("ses_1", 200) // of which 174 have 1 MiB
		s.node.do(func() { s.node.away, s.node.calls = nil, 0 })
		time.Sleep(2 * time.Minute)
		s.node.wantAll(t, "ses_1", 200)
		s.node.do(func() {
			if s.node.calls != 2 {
				t.Errorf("%d requests for 200 receipts, want 2", s.node.calls)
			}
		})
	})
}

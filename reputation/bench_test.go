package reputation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/store"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

func BenchmarkReputationRead(b *testing.B) {
	agents, err := strconv.Atoi(os.Getenv("AGENTS"))
	if err != nil {
		agents = 100
	}
	n := nodetest.New(b, gatetest.New(b), nil)
	began := time.Now()
	agent := func(name string) accrual.Agent { return accrual.Agent{Owner: n.Kit.Owner(b), Subject: "agent:" + name} }
	const sessions, receipts, long = 5, 20, 10_000
	filled, ctx := errgroup.WithContext(b.Context())
	filled.SetLimit(64) // which share their commits
	for i := range agents {
		filled.Go(func() error { return fill(ctx, n.Store, agent(strconv.Itoa(i)), sessions, receipts) })
	}
	must(b, filled.Wait())
	must(b, fill(b.Context(), n.Store, agent("long"), long, 1))
	b.Logf("%d agents and %d receipts were stored in %s", agents+1, agents*sessions*receipts+long,
		time.Since(began).Round(time.Second))
	read := func(b *testing.B, node http.Handler, name string) time.Duration {
		began, answer, id := time.Now(), httptest.NewRecorder(), agent(name).String()
		node.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/v1/reputation/"+url.PathEscape(id), nil))
		took := time.Since(began)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), id) {
			b.Fatalf("%d %s", answer.Code, answer.Body)
		}
		return took
	}
	reads := func(b *testing.B) {
		node := newAPI(b, n)
		var took, alone []time.Duration
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for b.Loop() {
			before, whole := waited(b), read(b, node, strconv.Itoa(rand.IntN(agents)))
			took, alone = append(took, whole), append(alone, whole-(waited(b)-before))
		}
		for unit, all := range map[string][]time.Duration{"p99-µs": took, "p99-alone-µs": alone} {
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)*99/100].Microseconds()), unit)
		}
	}
	b.Run("quiet", reads)
	b.Run("beside 2,000 receipts a second", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		var delivers errgroup.Group
		delivers.Go(func() error {
			for range every.Tick(ctx, 100*time.Millisecond) {
				if err := n.Store.Append(context.WithoutCancel(ctx), delivery(agent("busy"), "ses_"+evidence.NewID(), 200)); err !=
					nil {
					return err
				}
			}
			return nil
		})
		reads(b)
		cancel()
		must(b, delivers.Wait())
	})
	b.Run("a log of 10,000 sessions that is not in memory", func(b *testing.B) {
		for b.Loop() {
			read(b, newAPI(b, n), "long")
		}
	})
}

func waited(b *testing.B) time.Duration {
	b.Helper()
	raw, err := os.ReadFile("/proc/thread-self/schedstat")
	must(b, err)
	var ran, waits int64
	_, err = fmt.Sscan(string(raw), &ran, &waits)
	must(b, err)
	return time.Duration(waits)
}

func newAPI(b *testing.B, n *nodetest.Node) http.Handler {
	b.Helper()
	return api.Handler(nodetest.New(b, n.Kit, n.Store).Service,
		api.Options{Now: time.Now, Log: zap.NewNop(), Rate: 1 << 20})
}

func delivery(agent accrual.Agent, session string, receipts int) store.Addition {
	a := store.Addition{Owner: agent.Owner, Agent: agent.Subject, Session: session, At: gatetest.Start,
		MaxSessions: 1 << 40, MaxReceipts: 1 << 40}
	token := strings.Repeat("x", 3<<10)
	for i := range receipts {
		id := fmt.Sprintf("%s %d", session, i)
		a.Receipts = append(a.Receipts,
			store.Receipt{Number: int64(i) + 1, Hash: evidence.HashBytes([]byte(id)), Request: id, Token: token})
	}
	return a
}

func fill(ctx context.Context, s *store.Store, agent accrual.Agent, sessions, receipts int) error {
	log, err := accrual.NewAccount(agent)
	if err != nil {
		return err
	}
	for i := range sessions {
		a := delivery(agent, fmt.Sprintf("ses_%s_%d", agent.Subject, i), receipts)
		a.Closing = true
		e := accrual.Entry{At: a.At.Unix(), Session: &accrual.Session{
			ID: a.Session, EventID: "evt_" + a.Session, Score: accrual.Round(30 + 40*rand.Float64()), Coverage: 1,
			ScoringHash: autonomy.ScoringHash, Interactions: 10, Hosts: []string{nodetest.Host},
		}}
		if _, err := log.Add(e); err != nil {
			return err
		}
		text, err := e.Encode()
		if err != nil {
			return err
		}
		if err := s.Append(ctx, a); err != nil {
			return err
		}
		state, err := s.Session(ctx, agent.Owner, a.Session)
		if err != nil {
			return err
		}
		if err := s.Enter(ctx, state,
			&store.Entry{Agent: agent.String(), Number: log.Log().Entries, Head: log.Log().Head,
				Text: string(text)}); err != nil {
			return err
		}
	}
	return nil
}

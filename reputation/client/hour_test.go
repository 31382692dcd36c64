package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
	"github.com/actionproof/mediator/proxy/reputations"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/reputation/client"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

type road struct {
	node http.Handler

	mu    sync.Mutex // guards what follows
	away  bool
	lossy bool // every fifth answer is lost: what was asked for has been done
	asked int
	most  int // receipts of one delivery
}

// RoundTrip implements [http.RoundTripper].
func (r *road) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, errors.New("nobody there")
	}
	r.asked++
	answer := httptest.NewRecorder()
	r.node.ServeHTTP(answer, req)
	if r.lossy && r.asked%5 == 0 {
		return nil, errors.New("the connection broke")
	}
	return answer.Result(), nil
}

func (r *road) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, err := io.ReadAll(req.Body)
		var body struct{ Receipts []string }
		if err == nil && len(raw) > 0 {
			err = json.Unmarshal(raw, &body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.most = max(r.most, len(body.Receipts))
		again := req.Clone(req.Context())
		again.Body = io.NopCloser(bytes.NewReader(raw))
		next.ServeHTTP(w, again)
	})
}

func (r *road) set(away, lossy bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away, r.lossy = away, lossy
}

type whole struct {
	t      *testing.T
	kit    *gatetest.Kit
	node   *nodetest.Node
	road   *road
	client *client.Client
	engine *decide.Engine

	path   string // of the sidecar's ledger
	queue  *ledger.Queue
	sender *client.Sender
	cache  *reputations.Cache
	end    func() // ends the sidecar
}

func newWhole(t *testing.T) *whole {
	t.Helper()
	rules, err := decide.ParseRules(configs.PolicyReputation())
	check.Must(t, err)
	k := gatetest.NewAt(t, time.Now(), gatetest.Autonomous, func(m *policy.Manifest) {
		m.RuntimePolicy.RequiredPolicyHash, m.AgentSessionReceiptPolicy.RequiredPolicyHash = rules.Hash(), rules.Hash()
		m.AutonomyPolicy.ScoringHash = autonomy.ScoringHash
	})
	k.Rules = rules
	k.Appraise(t)
	w := &whole{t: t, kit: k, road: &road{}, engine: k.Engine(t), path: filepath.Join(t.TempDir(), "ledger.db")}
	w.node = nodetest.New(t, k, nil, func(o *reputation.Options) { o.Now = time.Now })
	w.road.node = w.road.counted(api.Handler(w.node.Service, api.Options{Now: time.Now, Log: zap.NewNop()}))
	w.client = client.New("http://node", &http.Client{Transport: w.road})
	w.start()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *whole) reputation(ctx context.Context) (string, error) {
	w.kit.Clock.Set(time.Now())
	return w.client.Reputation(ctx, accrual.Agent{Owner: w.kit.Owner(w.t), Subject: agentOfKit}.String())
}

func (w *whole) start() {
	w.t.Helper()
	l, err := sqlite.Open(w.t.Context(), w.path, sqlite.Options{Now: time.Now})
	check.Must(w.t, err)
	w.queue = ledger.NewQueue(l, func(r ledger.Record, err error) { w.t.Errorf("%s is lost: %v", r.ID, err) })
	w.cache = reputations.New(reputations.Options{Ask: w.reputation, Now: time.Now, Log: zap.NewNop()})
	w.sender = client.NewSender(w.client, w.queue, time.Now, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	var sends sync.WaitGroup
	sends.Go(func() { w.sender.Run(ctx) })
	w.end = func() {
		cancel()
		sends.Wait()
		w.cache.Close()
		check.Must(w.t, w.queue.Close())
	}
}

func (w *whole) session(id string, calls int) {
	w.t.Helper()
	w.kit.Clock.Set(time.Now())
	s := w.node.Calls(w.t, id, calls)
	s.Close(w.t)
	for i, token := range s.Receipts {
		r := ledger.Receipt{Session: id, Number: int64(i) + 1, Call: fmt.Sprintf("post_%s_%d", id, i), Signed: time.Now(),
			Token: token}
		if i == calls {
			r.Call = id
		}
		check.Must(w.t, w.queue.AddReceiptLater(r))
	}
	check.Must(w.t, w.queue.SettleReceipts(w.t.Context(), id))
}

func (w *whole) post() string {
	w.t.Helper()
	token := w.cache.Token(w.t.Context(), w.kit.Strict.Autonomy.MaxAge)
	w.kit.Clock.Set(time.Now())
	b := gatetest.Binding()
	b.Nonce = "nonce"
	proof, receipt := w.kit.Trigger(w.t, gatetest.Plan{}, b)
	d, err := w.engine.Decide(w.t.Context(), policy.Request{
		Binding: b, ChallengeID: "challenge", RuntimeID: "worker-1", SessionID: "session",
		EnvironmentHash: w.kit.Strict.Runtime.EnvironmentHashes[0],
		ManifestHash:    w.kit.Strict.ManifestHash, OriginProof: proof, TriggerReceipt: receipt, Reputation: token,
		Call: policy.Call{Method: "POST", Scheme: "https", Host: "api.example.com", Path: "/posts", Rule: "posts",
			ContentKind: "json", Size: 100},
	})
	if err != nil {
		return refusal.CodeOf(err)
	}
	claims, err := evidence.UnverifiedClaims(evidence.PolicyDecisionKind(), d.PolicyDecision)
	check.Must(w.t, err)
	if claims.ReputationHash != evidence.HashToken(token) {
		w.t.Errorf("the decision names the reputation %s", claims.ReputationHash)
	}
	return claims.Rule
}

const agentOfKit = "agent:worker-1"

func TestAnHourWithoutTheNode(t *testing.T) {
	full.Only(t, "time to sign, hand over and score 10,000 receipts")
	sessions, calls := 60, 167
	if raceDetector {
		calls = 80
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(gatetest.Start))
		w := newWhole(t)
		if got := w.post(); got != "newcomers" {
			t.Fatalf("a new agent's post: %s", got)
		}
		w.road.set(true, false)
		began := time.Now()
		for i := range sessions {
			w.session(fmt.Sprintf("ses_%02d", i), calls)
			want := "newcomers"
			if time.Since(began) > accrual.Lifetime-10*time.Second {
				want = "reputation_missing"
			}
			if got := w.post(); got != want {
				t.Errorf("after %s a post is decided by %s, want %s", time.Since(began), got, want)
			}
			time.Sleep(time.Minute)
		}
		all := int64(sessions * (calls + 1))
		w.end()
		w.start()
		if s, err := w.sender.Status(t.Context()); err != nil || s.Undelivered != all || s.Pruned != 0 {
			t.Fatalf("%+v, %v, want %d receipts to be kept", s, err, all)
		}
		if got := w.post(); got != "reputation_missing" {
			t.Errorf("a post of a sidecar that knows no reputation: %s", got)
		}

		w.road.set(false, true)
		ctx, cancel := context.WithCancel(t.Context())
		var runs sync.WaitGroup
		runs.Go(func() { _ = w.node.Run(ctx) })
		defer runs.Wait()
		defer cancel()
		for s := (client.Status{Undelivered: all}); s.Undelivered > 0; {
			if time.Since(began) > 3*time.Hour {
				t.Fatalf("not handed over: %+v", s)
			}
			time.Sleep(10 * time.Second)
			var err error
			s, err = w.sender.Status(t.Context())
			check.Must(t, err)
		}
		time.Sleep(10 * time.Minute) // the node looks for closed sessions, and the sidecar asks for another reputation
		for i := range sessions {
			if n := w.node.Count(t, fmt.Sprintf("ses_%02d", i)); n != calls+1 {
				t.Errorf("the node has %d receipts of session %d", n, i)
			}
		}
		if w.road.most != min(200, calls+1) {
			t.Errorf("%d receipts were handed over at once", w.road.most)
		}
		w.road.set(false, false)
		w.post() // asks for the next reputation, if an answer was lost
		time.Sleep(10 * time.Second)
		got := w.post()
		said, err := w.client.Reputation(t.Context(), w.kit.Agent(t).String())
		check.Must(t, err)
		c, err := evidence.UnverifiedClaims(accrual.Kind, said)
		check.Must(t, err)
		if n := int64(sessions); c.Log.Entries != n || c.TotalSessions != n || c.TotalInteractions != n ||
			c.Tier != accrual.TierBuilding {
			t.Errorf("%+v", c.Reputation)
		}
		if got != "building" {
			t.Errorf("a post of an agent of the tier %s is decided by %s", c.Tier, got)
		}
	})
}

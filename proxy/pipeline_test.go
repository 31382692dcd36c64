package proxy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/observe"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/look"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/trigger"
)

func TestPostIsForwardedOnce(t *testing.T) {
	p := newPostRig(t, created, nil)
	const body = "{ \"b\":1,\n\"a\":2 }"
	resp, answer := p.send("POST", "/posts", body, "Authorization", "Bearer the-agents-own", "Cookie", "a=b",
		"X-Goog-Api-Key", "mine", "Api-Key", "mine", "Idempotency-Key", "mine", "ActionProof-Capability", "forged",
		"ActionProof-Caller", "forged", "X-Keep", "kept")
	if resp.StatusCode != http.StatusCreated || answer != "made" {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if len(p.sent) != 1 || p.body[0] != body {
		t.Fatalf("the upstream saw %d calls, %q", len(p.sent), p.body)
	}
	for name, want := range map[string]string{"Authorization": "Bearer " + secretToken, "Cookie": "", "X-Goog-Api-Key": "",
		"Api-Key": "", "Idempotency-Key": "cap_1", "Actionproof-Capability": "", "Actionproof-Request-Proof": "",
		"Actionproof-Caller": "", "X-Keep": "kept"} {
		if got := strings.Join(p.sent[0].Header.Values(name), "|"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	rec := p.wantLast(1, ledger.Record{State: ledger.StateForwarded, Status: 201,
		ID: resp.Header.Get("ActionProof-Post"), Flow: flowPost, Resource: "POST /posts"})
	e, o := p.roles.asked.Envelope, p.roles.asked.Opened
	for token, opened := range map[string]string{
		e.OriginProof: o.OriginProof.Token(), e.TriggerReceipt: o.TriggerReceipt.Token(),
		e.PolicyDecision: o.PolicyDecision.Token(),
		e.Grant:          o.Grant.Token(), e.Attestation: o.Attestation.Token(),
		e.SessionReceipt: o.SessionReceipt.Token(),
	} {
		if token == "" || opened != token {
			t.Errorf("the gate has to open %q again: %q was opened", token, opened)
		}
	}
	hash, err := evidence.HashJSON([]byte(`{"a":2,"b":1}`))
	must(t, err)
	if rec.ContentHash != hash || len(rec.Artifacts) != 10 {
		t.Errorf("content %s, %d artifacts", rec.ContentHash, len(rec.Artifacts))
	}
	var steps []string
	for _, s := range rec.Steps {
		steps = append(steps, s.Name)
	}
	if got := strings.Join(steps, " "); got !=
		"session match deployment content challenge trigger decision attest gate credential proof "+
			"consume upstream relay" {
		t.Errorf("steps: %s", got)
	}
	raw, err := json.Marshal(rec)
	must(t, err)
	if strings.Contains(string(raw), secretToken) {
		t.Error("the record holds the credential")
	}
}

func TestEvidenceHeadersGoOnlyToWhoReadsThem(t *testing.T) {
	p := newPostRig(t, created, takesPart)
	p.send("POST", "/posts", "{}")
	if p.sent[0].Header.Get("ActionProof-Capability") != "capability" ||
		p.sent[0].Header.Get("ActionProof-Request-Proof") == "" {
		t.Errorf("got %v", p.sent[0].Header)
	}
}

// TestTaintedSession is refused for good and recorded as tainted, even if it also contradicts the manifest.
func TestTaintedSession(t *testing.T) {
	p := newPostRig(t, created, nil)
	watch := observe.NewWatcher(nil, time.Now, func(*observe.Run, look.Finding) {})
	launcher := exec.Command("sleep", "1000")
	must(t, launcher.Start())
	t.Cleanup(func() { _ = launcher.Process.Kill() })
	p.session.Run = watch.Begin("evt_1", observe.Launch{PID: launcher.Process.Pid})
	p.want(http.StatusCreated, "POST", "/posts", "{}")
	rec, _ := p.record.last()
	if i := slices.IndexFunc(rec.Checks, func(k ledger.Check) bool { return k.Name == CheckUnattended }); i >= 0 {
		t.Errorf("the record says of a run that is not isolated that it is unattended: %+v", rec.Checks)
	}
	must(t, launcher.Process.Kill())
	_ = launcher.Wait()
	for range 2 {
		p.wantRefused("session_tainted", "POST", "/posts", "{}")
		p.roles.fail["deployment"] = refusal.New("deployment_contradicted", "by this session")
	}
	rec, _ = p.record.last()
	if !strings.Contains(rec.Reason,
		fmt.Sprintf("process %d (sleep) was to launch the agent and has ended", launcher.Process.Pid)) {
		t.Errorf("the reason is %q", rec.Reason)
	}
	if tokenIn(rec, "sessionReceipt") == "" {
		t.Error("the record lacks the session receipt")
	}
	if _, _, err := p.sessions.Open(trigger.Event{ID: "evt_2"}, "worker-1", nil); err != nil ||
		len(p.sessions.Runs()) != 2 {
		t.Errorf("%d runs, %v", len(p.sessions.Runs()), err)
	}
}

func TestEachStepFailsClosed(t *testing.T) {
	refusal := refusal.New("policy_denied", "refused by the test")
	for _, step := range []string{"deployment", "challenge", "trigger", "decision", "gate", "proof"} {
		t.Run(step, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			p.roles.fail[step] = refusal
			p.wantRefused("policy_denied", "POST", "/posts", "{}")
			if rec, _ := p.record.last(); step == "decision" {
				// The signatures made meanwhile are on record.
				for _, name := range []string{"runtimeAttestation", "sessionReceipt"} {
					if tokenIn(rec, name) == "" {
						t.Errorf("the record lacks the %s", name)
					}
				}
			}
			delete(p.roles.fail, step)
			p.want(http.StatusCreated, "POST", "/posts", "{}")
		})
	}
	other := evidence.HashBytes([]byte("other"))
	for name, tt := range map[string]struct {
		code  string
		spoil func(p *postRig)
	}{
		"an error without a code": {"internal", func(p *postRig) {
			p.roles.fail["gate"] = errors.New("secret detail " + secretToken)
		}},
		"a panic": {"internal", func(p *postRig) { p.roles.panics = true }},
		"a key used before": {"replayed", func(p *postRig) {
			p.record.fail = &ledger.ConsumedError{Key: ledger.Key{Kind: "capability", ID: "cap_1"}}
		}},
		"a refusal while the ledger is away": {"policy_denied", func(p *postRig) {
			p.roles.fail["gate"], p.record.away = refusal, true
		}},
		"an intent while the ledger is away": {"ledger_unavailable", func(p *postRig) {
			p.record.fail, p.record.away = ledger.Unavailable("begin", errors.New("no connection")), true
		}},
		"evidence for another event": {"artifacts_mismatch", func(p *postRig) { p.roles.otherEvent = true }},
		"a receipt for another binding": {"artifacts_mismatch", func(p *postRig) {
			p.roles.receiptOf = func(c *evidence.TriggerReceipt) { c.BindingHash = other }
		}},
		"a receipt for another origin proof": {"artifacts_mismatch", func(p *postRig) {
			p.roles.receiptOf = func(c *evidence.TriggerReceipt) { c.OriginProofHash = other }
		}},
		"a grant for another decision": {"artifacts_mismatch", func(p *postRig) {
			p.roles.grantOf = func(c *evidence.ActionGrant) { c.PolicyDecisionHashes = []string{other} }
		}},
		"a grant for several decisions": {"artifacts_mismatch", func(p *postRig) {
			p.roles.grantOf = func(c *evidence.ActionGrant) {
				c.PolicyDecisionHashes = append(c.PolicyDecisionHashes, other)
			}
		}},
		"a receipt by an unknown key": {"signature_invalid", func(p *postRig) {
			registry, err := custody.NewMemory("registry")
			must(t, err)
			p.roles.receipt = newIssuer(t, registry, new([]string), evidence.TriggerReceiptKind(), "receipt")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			tt.spoil(p)
			p.wantRefused(tt.code, "POST", "/posts", "{}")
			if rec, _ := p.record.last(); strings.Contains(fmt.Sprint(rec), secretToken) {
				t.Error("the record holds an error without a code")
			}
		})
	}
}

// A fault while the intent is written leaves a failed post if the intent is durable, otherwise a refused one.
func TestIntentInDoubt(t *testing.T) {
	for code, spoil := range map[string]func(*memoryRecord){
		"internal":           func(m *memoryRecord) { m.panics = true },
		"ledger_unavailable": func(m *memoryRecord) { m.fail = ledger.Unavailable("commit", errors.New("lost")) },
	} {
		for kept, state := range map[bool]ledger.State{true: ledger.StateFailed, false: ledger.StateRefused} {
			p := newPostRig(t, created, nil)
			spoil(p.record)
			p.record.kept = kept
			_, answer := p.send("POST", "/posts", "{}")
			rec, n := p.record.last()
			if !strings.Contains(answer, `"code":"`+code+`"`) || n != 1 || rec.State != state || rec.Code != code ||
				len(p.sent) != 0 {
				t.Errorf("%s, kept %t: got %s, %d calls sent, %d records, %+v", code, kept, answer, len(p.sent), n, rec)
			}
		}
	}
}

func TestPanicWhileItIsSent(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Transport = faulty{} })
	for i, call := range []struct{ method, path string }{{"POST", "/posts"}, {"PUT", "/inference"}} {
		if _, answer := p.send(call.method, call.path, "{}"); !strings.Contains(answer, `"code":"indeterminate"`) {
			t.Errorf("%s: got %s", call.path, answer)
		}
		p.wantLast(i+1, ledger.Record{State: ledger.StateIndeterminate, Code: "indeterminate"})
	}
}

func TestCallsThatAreRefused(t *testing.T) {
	p := newPostRig(t, created, nil)
	for _, tt := range []struct {
		name, code, method, path, body string
		header                         []string
	}{
		{"no rule", "action_unmatched", "POST", "/other", "{}", nil},
		{"another method", "action_unmatched", "DELETE", "/posts", "", nil},
		{"upper case", "action_unmatched", "POST", "/Posts", "{}", nil},
		{"a slash after it", "action_unmatched", "POST", "/posts/", "{}", nil},
		{"two slashes", "request_malformed", "POST", "//posts", "{}", nil},
		{"a needless escape", "request_malformed", "POST", "/%70osts", "{}", nil},
		{"an escaped dot segment", "request_malformed", "POST", "/x/%2e%2e/posts", "{}", nil},
		{"a query", "override_refused", "POST", "/posts?a=b", "{}", nil},
		{"an empty query", "override_refused", "POST", "/posts?", "{}", nil},
		{"a method override", "override_refused", "POST", "/posts", "{}", []string{"X-HTTP-Method-Override", "DELETE"}},
		{"a path base", "override_refused", "POST", "/posts", "{}", []string{"X-Forwarded-PathBase", "/other"}},
		{"a second spelling of the signed digest", "override_refused", "POST", "/posts", "{}",
			[]string{"Content_Digest", "sha-256=:AAAA:"}},
		{"an upgrade", "egress_denied", "GET", "/", "", []string{"Connection", "Upgrade", "Upgrade", "websocket"}},
		{"no JSON", "content_malformed", "POST", "/posts", "{", nil},
		{"a duplicate key", "content_malformed", "POST", "/posts", `{"a":1,"\u0061":2}`, nil},
		{"a number without a canonical form", "content_malformed", "POST", "/posts", `{"a":9007199254740993}`, nil},
		{"deep nesting", "content_malformed", "POST", "/posts", strings.Repeat("[", 101) + strings.Repeat("]", 101), nil},
		{"an encoded body", "content_malformed", "POST", "/posts", "{}", []string{"Content-Encoding", "gzip"}},
		{"two types", "content_malformed", "POST", "/posts", "{}", []string{"Content-Type", "text/plain"}},
		{"a large body", "content_too_large", "POST", "/posts", `"` + strings.Repeat("x", 1<<20) + `"`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.T = t
			p.wantRefused(tt.code, tt.method, tt.path, tt.body, tt.header...)
		})
	}
}

// An agent can be refused as often as it likes.
func TestRecordsOfRefusalsAreSmall(t *testing.T) {
	p := newPostRig(t, created, nil)
	long := strings.Repeat("A", 30_000)
	p.wantRefused("action_unmatched", long, "/"+long, "")
	if rec, _ := p.record.last(); len(rec.Method) > 40 || len(rec.Path) > 1100 ||
		!strings.HasPrefix(rec.Path, "/AAA") || !strings.HasSuffix(rec.Path, "…") {
		t.Errorf("the record holds a method of %d bytes and a path of %d", len(rec.Method), len(rec.Path))
	}
	p.wantRefused("not_found", long, ownURL+"/"+long, "")
	p.wantRefused("artifact_malformed", "POST", "/query?"+long, "{}")
	raw, err := json.Marshal(p.record.posts)
	must(t, err)
	if len(raw) > 6<<10 {
		t.Errorf("the three records have %d bytes", len(raw))
	}
	p.send("GET", "/"+long, "")
	if rec, _ := p.record.last(); len(rec.Path) != 1+len(long) {
		t.Errorf("the path of a call that was sent is cut to %d bytes", len(rec.Path))
	}
}

func TestQueryIsPartOfTheResource(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.send("POST", "/query?a=b", "{}")
	p.wantLast(1, ledger.Record{Resource: "POST /query?a=b", State: ledger.StateForwarded})
}

// A post refused after its event has paid is given back, unless an API that takes part has seen it.
func TestRefusedPostsAreGivenBack(t *testing.T) {
	for _, tt := range []struct {
		step        string
		back, shown bool // by our own gate, and by an API that takes part
	}{
		{"deployment", false, false}, {"challenge", false, false}, {"trigger", false, false}, // the event has not paid
		{"decision", true, true}, {"gate", true, false}, {"proof", true, false},
	} {
		for _, presents := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.step, presents), func(t *testing.T) {
				p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) { actions[0].TakesPart = presents })
				p.roles.fail[tt.step] = refusal.New("policy_denied", "refused by the test")
				p.roles.unsentAt = func() {
					p.wantLast(1, ledger.Record{State: ledger.StateRefused, Code: "policy_denied"}) // durable before
				}
				p.wantRefused("policy_denied", "POST", "/posts", "{}")
				if want := presents && tt.shown || !presents && tt.back; (len(p.roles.unsent) == 1) != want {
					t.Errorf("given back %q", p.roles.unsent)
				}
			})
		}
	}
}

// TestUnwitnessed: a post waits for its witnesses after its intent is durable. Without them it fails, and goes nowhere.
func TestUnwitnessed(t *testing.T) {
	for _, presents := range []bool{false, true} {
		var away error
		var p *postRig
		p = newPostRig(t, created, func(o *PipelineOptions, actions []rules.Action) {
			actions[0].TakesPart = presents
			o.Witnessed = func(_ context.Context, post ledger.Record) error {
				p.record.mu.Lock()
				defer p.record.mu.Unlock()
				if state := p.record.posts[post.ID].State; state != ledger.StateForwarding {
					t.Errorf("the post that waits for witnesses is %q", state)
				}
				if len(p.sent) != 0 {
					t.Error("the post went out before witnesses saw it")
				}
				return away
			}
		})
		away = refusal.New("log_unwitnessed", "nobody cosigns")
		p.roles.unsentAt = func() {
			p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "log_unwitnessed"}) // durable before
		}
		resp, answer := p.send("POST", "/posts", "{}")
		p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "log_unwitnessed"})
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(answer, `"code":"log_unwitnessed"`) ||
			len(p.sent) != 0 || len(p.roles.unsent) == 1 == presents {
			t.Errorf("got %d %s, %d calls sent, given back %q", resp.StatusCode, answer, len(p.sent), p.roles.unsent)
		}
		away = nil
		p.want(http.StatusCreated, "POST", "/posts", "{}")
		p.wantLast(2, ledger.Record{State: ledger.StateForwarded, Status: http.StatusCreated})
	}
}

func TestOutcomes(t *testing.T) {
	t.Run("the upstream cannot be reached", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.upstream.Close()
		p.roles.unsentAt = func() {
			p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "upstream_unreachable"}) // durable before
		}
		_, answer := p.send("POST", "/posts", "{}")
		rec := p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "upstream_unreachable"})
		if !strings.Contains(answer, "upstream_unreachable") || !strings.Contains(answer, "connection refused") {
			t.Errorf("got %s", answer)
		}
		if want := "evt_1 worker-1 create_post " + rec.BindingHash; !slices.Equal(p.roles.unsent, []string{want}) {
			t.Errorf("given back %q, want %q", p.roles.unsent, want)
		}
	})
	t.Run("the upstream cannot be reached, nor the ledger", func(t *testing.T) {
		p := newPostRig(t, created, nil)
		p.upstream.Close()
		p.roles.admitted = func() { p.record.away = true } // once the post is on its way
		p.send("POST", "/posts", "{}")
		if len(p.roles.unsent) != 0 {
			t.Errorf("given back, although the outcome is not durable: %q", p.roles.unsent)
		}
	})
	t.Run("the upstream of an API that takes part cannot be reached", func(t *testing.T) {
		p := newPostRig(t, created, takesPart)
		p.upstream.Close()
		p.send("POST", "/posts", "{}")
		p.wantLast(1, ledger.Record{State: ledger.StateFailed, Code: "upstream_unreachable"})
		if len(p.roles.unsent) != 0 {
			t.Errorf("given back %q", p.roles.unsent)
		}
	})
	t.Run("the process was suspended, and the capability has ended", func(t *testing.T) {
		for _, presents := range []bool{false, true} { // an API that takes part judges by itself
			p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) {
				actions[0].TakesPart = presents
			})
			p.roles.late = 2 * time.Minute
			p.send("POST", "/posts", "{}")
			want := ledger.Record{State: ledger.StateFailed, Code: "expired"}
			if presents {
				want = ledger.Record{State: ledger.StateForwarded, Status: http.StatusCreated}
			}
			p.wantLast(1, want)
			if len(p.sent) == 1 != presents || len(p.roles.unsent) == 1 == presents {
				t.Errorf("%d calls sent, given back %q", len(p.sent), p.roles.unsent)
			}
		}
	})
	t.Run("an address that may not be dialled", func(t *testing.T) {
		p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
			o.Transport = upstream.NewTransport(
				upstream.Options{Dialer: upstream.Dialer{Resolver: names{hostOf(0): {loopback}}}})
		})
		p.wantRefused("egress_address_denied", "GET", "/x", "")
		p.send("POST", "/posts", "{}") // its intent is durable, so it has an outcome
		p.wantLast(2, ledger.Record{State: ledger.StateFailed, Code: "egress_address_denied"})
	})
	t.Run("the upstream is lost after it was sent", func(t *testing.T) {
		p := newPostRig(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil)
		p.upstream.Config.ErrorLog = nil
		p.send("POST", "/posts", "{}")
		p.wantLast(1, ledger.Record{State: ledger.StateIndeterminate, Code: "upstream_lost"})
		if len(p.sent) != 1 {
			t.Errorf("%d calls arrived", len(p.sent))
		}
	})
	t.Run("the upstream refuses the client certificate after it was sent", func(t *testing.T) {
		p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Transport = refusesClient{} })
		p.send("POST", "/posts", "{}")
		p.wantLast(1, ledger.Record{State: ledger.StateIndeterminate, Code: "upstream_client_refused"})
		if len(p.roles.unsent) != 0 {
			t.Errorf("given back %q", p.roles.unsent)
		}
	})
	t.Run("the agent goes away", func(t *testing.T) {
		arrived, answer := make(chan struct{}), make(chan struct{})
		p := newPostRig(t, func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-answer
			w.WriteHeader(http.StatusCreated)
		}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := p.client.Do(p.request(ctx, "POST", "/posts", "{}")); err == nil {
				resp.Body.Close()
			}
		}()
		<-arrived
		cancel()
		<-done
		close(answer)
		if rec := p.wait(1); rec.State != ledger.StateForwarded || rec.Status != 201 {
			t.Errorf("got %+v", rec)
		}
	})
}

// leftTriggers answers once the agent has left.
type leftTriggers struct {
	*fakeRoles
	asked  chan struct{}
	answer error
}

func (l leftTriggers) Evidence(ctx context.Context, _ string, _ evidence.Binding) (trigger.Evidence, error) {
	close(l.asked)
	<-ctx.Done()
	return trigger.Evidence{}, l.answer
}

// When the agent leaves, no other party is blamed, and a verdict is kept.
func TestAgentLeavesEarly(t *testing.T) {
	for code, want := range map[string]string{"process_unavailable": "client_gone", "event_closed": "event_closed"} {
		t.Run(code, func(t *testing.T) {
			left := leftTriggers{asked: make(chan struct{}), answer: refusal.New(code, "said the trigger service")}
			p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
				left.fakeRoles = o.Triggers.(*fakeRoles)
				o.Triggers = left
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-left.asked; cancel() }()
			if resp, err := p.client.Do(p.request(ctx, "POST", "/posts", "{}")); err == nil {
				resp.Body.Close() // it came while the client left
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			must(t, p.Proxy.Shutdown(context.Background())) // waits for running calls
			if rec := p.wantLast(1, ledger.Record{Code: want, State: ledger.StateRefused}); len(p.sent) != 0 ||
				!strings.Contains(rec.Reason, "said the trigger service") {
				t.Errorf("%d calls arrived, %s", len(p.sent), rec.Reason)
			}
		})
	}
}

func TestAgentSolves(t *testing.T) {
	p := newPostRig(t, created, nil)
	ask := func() challenge.Challenge {
		var d problem.Details
		must(t, json.Unmarshal([]byte(p.want(http.StatusPreconditionRequired, "POST", "/solve", "{}")), &d))
		ch, err := challenge.ParseChallenge(d.Challenge)
		must(t, err)
		return ch
	}
	ch := ask()
	answers, err := challenge.Solve(context.Background(), ch.Tasks)
	must(t, err)
	raw, err := json.Marshal(evidence.Response{ChallengeID: ch.ID, Answers: answers})
	must(t, err)
	response := base64.RawURLEncoding.EncodeToString(raw)
	const token, answer = "ActionProof-Challenge", "ActionProof-Response"
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token)
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token, answer, response, answer, response)
	p.wantRefused("challenge_refused", "POST", "/solve", "{}", token, ch.Token, answer, "no base64!")
	p.wantRefused("challenge_refused", "POST", "/solve", `{"other":1}`, token, ch.Token, answer, response)
	p.want(http.StatusCreated, "POST", "/solve", "{}", token, ch.Token, answer, response)
	if h := p.sent[0].Header; h.Get(token) != "" || h.Get(answer) != "" {
		t.Error("the answer went to the upstream")
	}
}

func TestEgress(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.send("PUT", "/inference", "{}", "Authorization", "Bearer the-agents-own")
	if got := p.sent[0].Header.Get("Authorization"); got != "Bearer "+secretToken {
		t.Errorf("the credential was not injected: %s", got)
	}
	p.send("GET", "/x", "", "Authorization", "Bearer the-agents-own")
	if got := p.sent[1].Header.Get("Authorization"); got != "Bearer the-agents-own" {
		t.Errorf("a rule without a credential changed the agent's own: %s", got)
	}
	p.wantLast(2, ledger.Record{Flow: flowEgress, State: ledger.StateForwarded, Rule: "reads"})
}

// A call is not sent if its record might be lost.
func TestNoRoomForARecord(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.record.full = ledger.Unavailable("keep another record", errors.New("it is away"))
	p.wantRefused("ledger_unavailable", "GET", "/x", "")
	p.wantRefused("ledger_unavailable", "PUT", "/inference", "{}")
	p.wantRefused("ledger_unavailable", "POST", "/posts", "{}")
	p.record.full = nil
	p.want(http.StatusCreated, "GET", "/x", "")
}

func TestAnswerBeforeTheRequestEnds(t *testing.T) {
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		for first := make([]byte, 5); ; {
			n, err := io.ReadFull(r.Body, first)
			if n == 0 || err != nil {
				return
			}
			_, _ = w.Write(first)
			flush(w)
		}
	}, nil)
	body, request := io.Pipe()
	req, err := http.NewRequest("PUT", p.base+"/inference", body)
	must(t, err)
	req.ContentLength = 15
	req.Header.Set("X-Unread", "1")
	go func() { _, _ = request.Write([]byte("one..")) }()
	resp, err := p.client.Do(req)
	must(t, err)
	defer resp.Body.Close()
	for _, want := range []string{"one..", "two..", "three"} {
		if want != "one.." {
			_, err = request.Write([]byte(want))
			must(t, err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	must(t, request.Close())
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Error(err)
	}
}

func TestSessionEndsInsideATunnel(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.send("GET", "/x", "")
	p.sessions.Close(p.session.ID)
	p.wantRefused("session_required", "GET", "/x", "")
	resp, _ := p.send("GET", "/x", "")
	if resp.StatusCode != http.StatusProxyAuthRequired || resp.Header.Get("Proxy-Authenticate") == "" {
		t.Errorf("got %d %v", resp.StatusCode, resp.Header)
	}
}

func TestSessionEndsWhileItsPostIsVerified(t *testing.T) {
	p := newPostRig(t, created, nil)
	p.roles.admitted = func() { p.sessions.Close(p.session.ID) }
	p.wantRefused("session_required", "POST", "/posts", "{}")
	p.session = p.sessions.OpenStanding(trigger.Event{ID: "evt_2"}, "worker-1", "")
	// not the call's session
	p.roles.admitted = func() { p.sessions.OpenStanding(trigger.Event{ID: "evt_3"}, "worker-1", "") }
	p.wantRefused("session_required", "POST", "/posts", "{}")
}

func TestInternalPages(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) { o.Standing = true })
	if _, body := p.send("GET", ownURL+"/v1/event", ""); !strings.Contains(body, `"id":"evt_1"`) {
		t.Errorf("got %s", body)
	}
	if _, body := p.send("GET", ownURL+"/v1/ca.pem", ""); body != "CA" {
		t.Errorf("got %s", body)
	}
	p.wantRefused("not_found", "GET", ownURL+"/v1/sessions", "")
	p.wantRefused("not_found", "POST", ownURL+"/v1/event", "{}")
	p.wantRefused("query_malformed", "GET", ownURL+"/v1/event/next?wait=1h", "")
	if _, body := p.send("GET", ownURL+"/v1/event/next?wait=1s", ""); !strings.Contains(body, `"id":"evt_next"`) {
		t.Errorf("got %s", body)
	}
	if _, open := p.sessions.Get(p.session.ID); open {
		t.Error("the earlier session is still open")
	}
	if len(p.roles.done) != 1 || p.roles.done[0] != "evt_1" {
		t.Errorf("ended events: %v", p.roles.done)
	}
	p.roles.fail["claim"] = refusal.New("event_none", "none")
	p.wantRefused("event_none", "GET", ownURL+"/v1/event/next?wait=0s", "")
	if _, body := p.send("GET", ownURL+"/v1/event", ""); !strings.Contains(body, `"id":"evt_next"`) ||
		len(p.roles.done) != 1 {
		t.Errorf("after waiting in vain: %s, ended events: %v", body, p.roles.done)
	}
	p.sessions.CloseStanding("")
	p.wantRefused("session_required", "GET", ownURL+"/v1/event", "")

	single := newPostRig(t, created, nil)
	single.wantRefused("event_closed", "GET", ownURL+"/v1/event/next", "")
}

// Clients that send everything before they read still get the refusal.
func TestRefusalOfALargeBody(t *testing.T) {
	for _, tt := range []struct {
		name, path, code string
		size             int
	}{
		{"no rule", "/elsewhere", "action_unmatched", 16 << 20},
		{"larger than the action takes", "/posts", "content_too_large", 16 << 20},
		{"the connection is good for more", "/elsewhere", "action_unmatched", 1 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPostRig(t, created, nil)
			host := strings.TrimPrefix(p.base, "https://")
			c := p.MustTunnel(host)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
				tt.path, host, tt.size)
			resp := roundTripRaw(t, c, head+strings.Repeat(" ", tt.size))
			var d problem.Details
			raw, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, json.Unmarshal(raw, &d)); err != nil || d.Code != tt.code {
				t.Fatalf("got %q, %v; want %s", raw, err, tt.code)
			}
			if resp.Close {
				return
			}
			if resp := roundTripRaw(t, c, "GET /after HTTP/1.1\r\nHost: "+host+"\r\n\r\n"); resp.StatusCode !=
				http.StatusCreated {
				t.Errorf("after the refusal: %s", resp.Status)
			}
		})
	}
}

func TestTimeoutOfAnAnswer(t *testing.T) {
	answered := func(within time.Duration) bool {
		p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusCreated)
			must(t, http.NewResponseController(w).Flush())
			<-r.Context().Done()
		}, func(o *PipelineOptions, _ []rules.Action) { o.Timeouts.Forward = within })
		resp, err := p.client.Post(p.base+"/posts", "application/json", strings.NewReader("{}"))
		must(t, err)
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return false
		}
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("the answer looks whole")
		}
		if post, _ := p.record.last(); post.State != ledger.StateForwarded || post.Code != "upstream_timeout" {
			t.Errorf("the record says %s, %s", post.State, post.Code)
		}
		return true
	}
	// a busy machine needs longer to begin the answer
	for within := 100 * time.Millisecond; !answered(within); within *= 4 {
		if within > time.Minute {
			t.Fatal("no answer begins")
		}
	}
}

// refusesClient is an upstream that takes a connection, and then says that it does not take the client certificate.
type refusesClient struct{}

func (refusesClient) RoundTrip(r *http.Request) (*http.Response, error) {
	httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
	return nil, refusal.New("upstream_client_refused", "bad certificate")
}

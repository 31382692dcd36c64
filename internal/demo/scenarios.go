package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/demo/agent"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy"
	"github.com/actionproof/mediator/trigger"
)

// play plays a scenario and returns the result: the status or the code of a refusal, and more if that is not enough.
type play func(ctx context.Context) (string, error)

type scenario struct {
	name, expect string
	play         play
}

func (d *Demo) scenarios() []scenario {
	aware, plain := "https://"+d.own.Aware()+"/posts", "https://"+d.own.Plain()+"/posts"
	solved, unnamed := "https://"+d.own.Plain()+"/solved", "https://"+d.own.Plain()+"/other"
	verifiedOnly, tiers := "https://"+d.own.Plain()+"/verified", "https://"+d.own.Plain()+"/tiers"
	tools := "https://" + d.own.Plain() + "/mcp"
	generate := []string{"POST", "http://" + proxy.InternalHost + "/v1/generate", "--body", prompt}
	body := func(text string) string { return `{"title":"Agent update","body":"` + text + `"}` }
	return []scenario{
		{"a webhook leads to a post to the API that takes part", "201",
			d.agent(d.keepFirst, "POST", aware, "--body", body("one"))},
		{"a webhook leads to a post to the API that knows nothing, credential injected", "201, token injected",
			d.agent(d.injected, "POST", plain, "--body", body("two"))},
		{"a schedule leads to a post", "201",
			d.scheduled(plain, body("three"))},
		{"the agent solves the challenge itself", "201",
			d.agent(nil, "POST", solved, "--solve", "--body", body("four"))},
		{"a read that an egress rule allows", "200",
			d.agent(nil, "GET", plain)},
		{"an agent posts that was never verified, where the policy demands it", "policy_denied",
			d.rated(nil, "POST", verifiedOnly, "--body", body("six"))},
		{"an agent passes a verification, as a script, and registers its plugin by a post", wholeVerification,
			d.verified},
		{"the agent posts again, now that it was verified", "201",
			d.rated(nil, "POST", verifiedOnly, "--body", body("six"))},
		{"no session", "session_required",
			d.withoutSession("POST", plain, "--body", body("x"))},
		{"an event that a human asked for", "human_involved",
			d.session(func(ctx context.Context) (string, error) {
				return d.own.Webhook(ctx, "workflow_dispatch", `{"sender":{"login":"alice"}}`)
			})},
		{"an event that the agent's side reported itself", "trigger_unverified",
			d.session(d.report)},
		{"a second post on the same event", "event_closed",
			d.agent(nil, "POST", plain, "--times", "2", "--body", body("five"))},
		{"a second session on the same event", "event_closed",
			d.session(d.usedEvent)},
		{"content altered on the way to the API", "artifacts_mismatch",
			d.steal(aware, func(p *seenPost) { p.body = []byte(body("altered")) })},
		{"the same request a second time", "replayed",
			d.steal(aware, func(*seenPost) {})},
		{"a stolen bearer token straight to the API", "proof_missing",
			d.steal(aware, func(p *seenPost) { p.header = http.Header{"Authorization": p.header["Authorization"]} })},
		{"a post that no rule names", "action_unmatched",
			d.agent(nil, "POST", unnamed, "--body", body("x"))},
		{"an agent calls a tool that posts", "200, a post",
			d.agent(wasPost, "POST", tools, "--tool", "create_note")},
		{"an agent calls a tool that no rule names", "action_unmatched",
			d.agent(nil, "POST", tools, "--tool", "get_note,delete_notes")},
		{"a human answers a tool, and the agent posts", "session_tainted",
			d.agent(nil, "POST", tools, "--tool", "ask,create_note")},
		{"an agent thinks: it asks a model, calls the tool that the model wants, and posts", thoughtExpected,
			d.agent(d.didThink, "POST", plain, "--think")},
		{"an agent sends a prompt to the mediator, which asks the model", "200, with its receipt",
			d.agent(d.sameReceipt, generate...)},
		{"an agent keeps to what it has committed to, and is scored",
			"200, calls scored: 1, challenges passed: 1 of 1",
			d.commits(agent.Promised)},
		{"an agent calls the model more often than it has committed to, and is scored",
			"200, calls scored: 2, challenges passed: 0 of 1",
			d.commits(agent.Promised + 1)},
		{"an agent of the tier new posts a few words, which the policy allows it", "201, tier new",
			d.rated(d.tier, "POST", tiers, "--body", body(strings.Repeat("x", fewWords/2)))},
		{"an agent of the tier new posts many words, which the policy denies it", "policy_denied",
			d.rated(nil, "POST", tiers, "--body", body(strings.Repeat("x", 2*fewWords)))},
		{"a read from a private address", "egress_address_denied",
			d.agent(nil, "GET", "http://10.0.0.1/data")},
		{"another host inside a tunnel than the CONNECT names", "target_mismatch",
			d.agent(nil, "POST", plain, "--host", d.own.Aware(), "--body", body("x"))},
		{"an event that is too old", "event_closed",
			d.session(d.oldEvent)},
		{"a manifest with one control flipped", "deployment_unsafe",
			d.flippedControl},
	}
}

func (d *Demo) run(ctx context.Context, call ...string) (trial.Answer, error) {
	event, err := d.own.DeliverRelease(ctx)
	if err != nil {
		return trial.Answer{}, err
	}
	return d.own.Run(ctx, event, call...)
}

type see func(ctx context.Context, r trial.Answer) (string, error)

// agent plays an agent that a webhook starts. also adds to the result of a call that was not refused.
func (d *Demo) agent(also see, args ...string) play {
	return func(ctx context.Context) (string, error) {
		r, err := d.run(ctx, args...)
		return outcome(ctx, r, err, also)
	}
}

func outcome(ctx context.Context, r trial.Answer, err error, also see) (string, error) {
	if err != nil || r.Code != "" || also == nil {
		return r.Outcome(), err
	}
	more, err := also(ctx, r)
	return r.Outcome() + more, err
}

func wasPost(_ context.Context, r trial.Answer) (string, error) {
	if r.Post == "" {
		return "", nil
	}
	return ", a post", nil
}

func (d *Demo) keepFirst(ctx context.Context, r trial.Answer) (string, error) {
	return "", d.record(ctx, r.Post, &d.First)
}

func (d *Demo) injected(context.Context, trial.Answer) (string, error) {
	posts := d.plain.seen()
	if len(posts) != 1 || posts[0].header.Get("Authorization") != "Bearer "+trial.Token {
		return "", nil
	}
	return ", token injected", nil
}

func (d *Demo) scheduled(url, body string) play {
	return func(ctx context.Context) (string, error) {
		var event string
		var err error
		came := func(ctx context.Context) bool {
			var events []trigger.Event
			if err = admin.Get(ctx, d.triggerService(), "/v1/events", &events); err != nil {
				return true
			}
			at := slices.IndexFunc(events, func(e trigger.Event) bool {
				return e.Kind == evidence.TriggerScheduled && e.State == trigger.Received &&
					time.Until(e.ExpiresAt) > trial.MaxAge/2
			})
			if at >= 0 {
				event = events[at].ID
			}
			return at >= 0
		}
		if !eventually(ctx, came) {
			return "", errors.New("no scheduled event came")
		}
		if err != nil {
			return "", err
		}
		r, err := d.own.Run(ctx, event, "POST", url, "--body", body)
		return r.Outcome(), err
	}
}

func (d *Demo) withoutSession(args ...string) play {
	return func(ctx context.Context) (string, error) {
		args := append([]string{"demo", "agent"}, args...)
		cmd := exec.CommandContext(ctx, d.own.Self, args...) //nolint:gosec // this program itself
		cmd.Env = launch.Environment(os.Environ(), "http://"+d.own.Listen, filepath.Join(d.own.Dir, "ca.pem"))
		r, err := trial.LastAnswer(cmd)
		return r.Outcome(), err
	}
}

func (d *Demo) session(event func(context.Context) (string, error)) play {
	return func(ctx context.Context) (string, error) {
		id, err := event(ctx)
		if err != nil {
			return "", err
		}
		return d.own.OpenSession(ctx, id)
	}
}

func (d *Demo) report(ctx context.Context) (string, error) {
	event := map[string]string{"kind": evidence.TriggerUnknown, "method": evidence.MethodSelfReported, "source": "demo"}
	var kept struct {
		EventID string `json:"eventId"`
	}
	err := admin.Call(ctx, d.triggerService(), http.MethodPost, "/v1/events", event, &kept)
	return kept.EventID, err
}

func (d *Demo) triggerService() string { return "unix:" + d.own.Stack.Socket("trigger") }

func (d *Demo) usedEvent(ctx context.Context) (string, error) {
	event, err := d.own.DeliverRelease(ctx)
	if err != nil {
		return "", err
	}
	_, err = d.own.OpenSession(ctx, event)
	return event, err
}

func (d *Demo) oldEvent(ctx context.Context) (string, error) {
	return d.old, every.Sleep(ctx, time.Until(d.oldAt.Add(trial.MaxAge+100*time.Millisecond)))
}

// steal plays a thief who changes an accepted request, which has its bearer token, and sends it to the API again. It
// returns the code of the API's refusal.
func (d *Demo) steal(url string, change func(*seenPost)) play {
	return func(ctx context.Context) (string, error) {
		made, err := d.run(ctx, "POST", url, "--body", `{"title":"Agent update","body":"worth stealing"}`)
		if err != nil || made.Outcome() != "201" {
			return made.Outcome(), err
		}
		posts := d.aware.seen()
		stolen := posts[len(posts)-1]
		change(&stolen)
		at := "https://" + d.own.AwareAddr + "/posts"
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(stolen.body))
		if err != nil {
			return "", err
		}
		req.Header = stolen.header
		resp, err := d.direct.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusCreated {
			return "accepted", nil
		}
		var refused *problem.Error
		if err := problem.Read(resp); !errors.As(err, &refused) {
			return "", err
		}
		return refused.Code(), nil
	}
}

func (d *Demo) record(ctx context.Context, id string, into *admin.Record) error {
	return admin.Get(ctx, d.own.Stack.Admin(), "/v1/posts/"+id, into)
}

const thoughtExpected = "201, model complete, tool ok, model complete, post forwarded, 3 receipts"

// didThink keeps the record of the post of the agent that thinks, and adds its earlier calls.
func (d *Demo) didThink(ctx context.Context, r trial.Answer) (did string, err error) {
	eventually(ctx, func(ctx context.Context) bool { // receipts follow a little later
		if err = d.record(ctx, r.Post, &d.Thought); err != nil {
			return true
		}
		did, err = d.did(ctx, d.Thought.Session)
		did += fmt.Sprintf(", %d receipts", len(d.Thought.Receipts))
		return err != nil || r.Outcome()+did == thoughtExpected
	})
	return did, err
}

func (d *Demo) did(ctx context.Context, session string) (all string, err error) {
	query := ledger.Query{Session: session, OldestFirst: true}
	for r, err := range admin.Records(ctx, d.own.Stack.Admin(), query) {
		switch {
		case err != nil:
			return "", err
		case r.Model != nil:
			all += ", model " + r.Model.Outcome
		case r.Message != "":
			all += ", tool " + r.Result
		default:
			all += ", " + r.Flow + " " + string(r.State)
		}
	}
	return all, nil
}

func (d *Demo) flippedControl(ctx context.Context) (string, error) {
	flipped, err := trial.New(filepath.Join(d.own.Dir, "flipped"))
	if err != nil {
		return "", err
	}
	if err := devstack.Prepare(flipped.Dir, flippedFiles(flipped)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	config := filepath.Join(flipped.Dir, devstack.SidecarFile)
	//nolint:gosec // this program itself
	said, err := exec.CommandContext(ctx, d.own.Self, "serve", "--config", config).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !bytes.Contains(said, []byte("(deployment_unsafe)")) {
		return "", fmt.Errorf("the sidecar ended with %w: %s", err, said)
	}
	return "deployment_unsafe", nil
}

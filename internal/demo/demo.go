// Package demo plays every scenario of a post with real processes, and compares what happened with what was expected.
//
//	demo.go        the scenarios
//	tools.go       an MCP server, and the agent that calls its tools
//	model.go       the provider of a model
//	think.go       the agent that thinks
//	score.go       the agent that takes a challenge of the node, and its score
//	verify.go      the agent that passes a verification
//	tiers.go       the agent whose tier decides what it may post
//	disputes.go    the agents of two owners that dispute each other, and the arbiter
//	other.go       the deployment of the other owner
//	deployment.go  the three processes and the two APIs, and what an agent, an API owner and a thief do with them
//	agent.go       the demo's agent
//	api.go         the demo's two APIs
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/dispute"
)

// Deployment is a deployment in a temporary folder: the three processes and two APIs. Each scenario starts an agent.
type Deployment struct {
	Dir          string
	Self         string // a copy of this program that the agent's user can start
	Listen       string // the proxy port
	Hooks        string // the address for webhooks
	AwareAddr    string
	PlainAddr    string
	Stack        *devstack.Stack
	DirectClient *http.Client // goes past the mediator, as a thief would
	processes    []*exec.Cmd
	Deliveries   int
	old          string           // an event that is too old for the last scenarios
	oldAt        time.Time        // when it arrived
	other        *Deployment      // of another owner, which has no node of its own
	arbiter      keyring.RootKey  // decides disputes at the node
	contested    dispute.Contract // by which the other owner's agent disputes a signal of this one's
	firstPost    string           // the id of the record whose evidence is drawn
	// Thought is the record of the post of the agent that thinks, with the receipts of what the agent did before.
	Thought admin.Record
}

// User returns the user of the demo's agents. Two demos at once need different users, because each takes processes of
// its agents' user that it has not started for strangers. Debian and systemd leave these numbers free.
func User() int { return 60578 + os.Getpid()%600 }

// MaxAge is how long the demo's events are good for: long enough for a slow machine, short enough to wait for.
const MaxAge = 20 * time.Second

// patience bounds the wait for what follows soon: a machine that does much else takes long.
const patience = 3 * time.Minute

// eventually tries until a try succeeds, and reports whether one has in time: what processes do is seen a little later.
func eventually(ctx context.Context, try func(ctx context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !try(ctx) {
		if waitFor(ctx, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

func waitFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// scenario is one play: the expected result, and how to play it.
type scenario struct {
	name, expect string
	play         func(ctx context.Context) (string, error)
}

// Result is the result of a scenario.
type Result struct {
	Scenario string  `json:"scenario"`
	Expected string  `json:"expected"`
	Happened string  `json:"happened"`
	OK       bool    `json:"ok"`
	Millis   float64 `json:"ms"`
}

// Play plays the scenarios in order and calls each with every result. It returns the record of the first post.
func (d *Deployment) Play(ctx context.Context, each func(Result)) (first ledger.Record, err error) {
	for _, s := range d.scenarios() {
		each(playOne(ctx, s))
	}
	if d.firstPost != "" {
		err = admin.Get(ctx, d.Stack.Admin(), "/v1/posts/"+d.firstPost, &first)
	}
	return first, err
}

func playOne(ctx context.Context, s scenario) Result {
	began := time.Now()
	happened, err := s.play(ctx)
	if err != nil {
		happened = "error: " + err.Error()
	}
	return Result{s.name, s.expect, happened, happened == s.expect, float64(time.Since(began).Microseconds()) / 1000}
}

// scenarios returns the scenarios in order.
func (d *Deployment) scenarios() []scenario {
	aware, plain, tools := "https://"+d.Aware()+"/posts", "https://"+d.Plain()+"/posts", "https://"+d.Plain()+"/mcp"
	body := func(text string) string { return `{"title":"Agent update","body":"` + text + `"}` }
	return []scenario{
		{"a webhook leads to a post to the API that takes part", "201", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", aware, "--body", body("one"))
			d.firstPost = r.Post
			return r.Outcome(), err
		}},
		{"a webhook leads to a post to the API that knows nothing, credential injected", "201, token injected", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--body", body("two"))
			if err != nil {
				return "", err
			}
			posts, err := d.Seen(ctx, d.PlainAddr)
			if err != nil || len(posts) != 1 || posts[0].Authorization != "Bearer "+Token {
				return r.Outcome(), err
			}
			return r.Outcome() + ", token injected", nil
		}},
		{"a schedule leads to a post", "201", func(ctx context.Context) (string, error) {
			event, err := d.scheduled(ctx)
			if err != nil {
				return "", err
			}
			r, err := d.Run(ctx, event, "POST", plain, "--body", body("three"))
			return r.Outcome(), err
		}},
		{"the agent solves the challenge itself", "201", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", "https://"+d.Plain()+"/solved", "--solve", "--body", body("four"))
			return r.Outcome(), err
		}},
		{"a read that an egress rule allows", "200", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "GET", plain)
			return r.Outcome(), err
		}},
		{"an agent posts that was never verified, where the policy demands it", "policy_denied", d.postVerified},
		{"an agent passes a verification, as a script, and registers its plugin by a post", wholeVerification, d.verified},
		{"the agent posts again, now that it was verified", "201", d.postVerified},
		{"the agent publishes a signal, and an agent of another owner disputes it through its own sidecar", "two posts, the dispute pending", d.accused},
		{"the arbiter decides while the signal can still be disputed", "challenger_wins, provisional", d.decided},
		{"the other agent publishes a signal in turn, and the agent disputes it through its own sidecar", "two posts, the dispute pending", d.accuses},
		{"no session", "session_required", func(ctx context.Context) (string, error) {
			r, err := d.agent(ctx, "http://"+d.Listen, "POST", plain, "--body", body("x"))
			return r.Outcome(), err
		}},
		{"an event that a human asked for", "human_involved", func(ctx context.Context) (string, error) {
			event, err := d.Webhook(ctx, "workflow_dispatch", `{"sender":{"login":"alice"}}`)
			if err != nil {
				return "", err
			}
			return d.OpenSession(ctx, event)
		}},
		{"an event that the agent's side reported itself", "trigger_unverified", func(ctx context.Context) (string, error) {
			event, err := d.report(ctx)
			if err != nil {
				return "", err
			}
			return d.OpenSession(ctx, event)
		}},
		{"a second post on the same event", "event_closed", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--times", "2", "--body", body("five"))
			return r.Outcome(), err
		}},
		{"a second session on the same event", "event_closed", func(ctx context.Context) (string, error) {
			event, err := d.DeliverRelease(ctx)
			if err != nil {
				return "", err
			}
			if _, err := d.OpenSession(ctx, event); err != nil {
				return "", err
			}
			return d.OpenSession(ctx, event)
		}},
		{"content altered on the way to the API", "artifacts_mismatch", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(p *SeenPost) { p.Body = json.RawMessage(body("altered")) })
		}},
		{"the same request a second time", "replayed", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(*SeenPost) {})
		}},
		{"a stolen bearer token straight to the API", "proof_missing", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(p *SeenPost) { p.Header = http.Header{} })
		}},
		{"a post that no rule names", "action_unmatched", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", "https://"+d.Plain()+"/other", "--body", body("x"))
			return r.Outcome(), err
		}},
		{"an agent calls a tool that posts", "200, a post", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", tools, "--tool", "create_note")
			if r.Post == "" {
				return r.Outcome(), err
			}
			return r.Outcome() + ", a post", err
		}},
		{"an agent calls a tool that no rule names", "action_unmatched", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", tools, "--tool", "get_note,delete_notes")
			return r.Outcome(), err
		}},
		{"a human answers a tool, and the agent posts", "session_tainted", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", tools, "--tool", "ask,create_note")
			return r.Outcome(), err
		}},
		{"an agent thinks: it asks a model, calls the tool that the model wants, and posts", thoughtExpected, d.thought},
		{"an agent sends a prompt to the mediator, which asks the model", "200, with its receipt", d.generated},
		{"an agent keeps to what it has committed to, and is scored", "calls scored: 1, challenges passed: 1 of 1", func(ctx context.Context) (string, error) { return d.scored(ctx, promised) }},
		{"an agent calls the model more often than it has committed to, and is scored", "calls scored: 2, challenges passed: 0 of 1", func(ctx context.Context) (string, error) { return d.scored(ctx, promised+1) }},
		{"an agent of the tier new posts a few words, which the policy allows it", "201, tier new", func(ctx context.Context) (string, error) { return d.byTier(ctx, fewWords/2) }},
		{"an agent of the tier new posts many words, which the policy denies it", "policy_denied", func(ctx context.Context) (string, error) { return d.byTier(ctx, 2*fewWords) }},
		{"a read from a private address", "egress_address_denied", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "GET", "http://10.0.0.1/data")
			return r.Outcome(), err
		}},
		{"another host inside a tunnel than the CONNECT names", "target_mismatch", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--host", d.Aware(), "--body", body("x"))
			return r.Outcome(), err
		}},
		{"an event that is too old", "event_closed", func(ctx context.Context) (string, error) {
			if err := waitFor(ctx, time.Until(d.oldAt.Add(MaxAge+100*time.Millisecond))); err != nil {
				return "", err
			}
			return d.OpenSession(ctx, d.old)
		}},
		{"once the signal is final, the reputations of both agents show who has won", "lost 1, disputed; won 1", d.settled},
		{"a manifest with one control flipped", "deployment_unsafe", d.flippedControl},
	}
}

// Token is the API credential, which the agent never holds.
const Token = "demo-token-that-only-the-mediator-has"

// New sets everything up. If New fails, the result still holds what it has started.
func New(ctx context.Context) (*Deployment, error) {
	dir, err := os.MkdirTemp("", "mediator-demo-")
	if err != nil {
		return nil, err
	}
	d := &Deployment{Dir: dir}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the agent's user passes through to the CA's certificate
		return d, err
	}
	for _, at := range []*string{&d.Listen, &d.Hooks, &d.AwareAddr, &d.PlainAddr} {
		if *at, err = freeport.Address(); err != nil {
			return d, err
		}
	}
	content := d.Files(Rules)
	askForTiers(content)
	verifyAgents(content)
	if err := d.dispute(content); err != nil {
		return d, err
	}
	if err := devstack.Prepare(dir, content); err != nil {
		return d, err
	}
	if err := errors.Join(files.WriteAbsent(filepath.Join(dir, "secrets", "api-token"), []byte(Token)), WriteCertificates(dir, AwareHost, PlainHost), d.CopySelf()); err != nil {
		return d, err
	}
	if d.other, err = d.newOther(); err != nil {
		return d, err
	}
	if err := d.start(ctx); err != nil {
		return d, err
	}
	if err := d.startAPIs(ctx); err != nil {
		return d, err
	}
	if d.old, err = d.DeliverRelease(ctx); err != nil {
		return d, err
	}
	d.oldAt = time.Now()
	return d, nil
}

// start starts the processes of both owners at the same time. The node is ready only once the key registries of both are there.
func (d *Deployment) start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, of := range []*Deployment{d, d.other} {
		group.Go(func() (err error) {
			of.Stack, err = devstack.Start(ctx, of.Dir)
			return err
		})
	}
	return group.Wait()
}

// anyPort is the line of the development file by which any port may be connected to.
var anyPort = regexp.MustCompile(`(?m)^confine: \{anyPort: true\}.*\n`)

// Files returns the demo's configuration: the configuration of mediator dev, with other addresses and the given rules.
func (d *Deployment) Files(rules string) map[string][]byte {
	edit := func(raw []byte, oldnew ...string) []byte {
		return []byte(strings.NewReplacer(oldnew...).Replace(string(raw)))
	}
	dev := configs.Dev
	serve, _, _ := strings.Cut(string(dev[devstack.SidecarFile]), "session: {standing: true}")
	// The demo ends with its processes, and so does its CA. It knows its hosts and ports, and is held to them.
	serve = strings.NewReplacer("dir: ca, ", "", ", unconstrained: true", "").Replace(serve)
	serve = anyPort.ReplaceAllString(serve, "")
	var agent string
	if os.Geteuid() == 0 { // only root can give the agent a user of its own
		agent = fmt.Sprintf("\nagent: {uid: %d}\n", User())
	}
	serve = strings.Replace(serve, "127.0.0.1:8181", d.Listen, 1) + agent + strings.NewReplacer("AWARE", d.Aware(), "PLAIN", d.Plain()).Replace(rules)
	return map[string][]byte{
		devstack.SidecarFile: []byte(serve),
		devstack.TriggerFile: append(edit(dev[devstack.TriggerFile], "127.0.0.1:8182", d.Hooks, "sources:", "maxAge: "+MaxAge.String()+"\nsources:\n  - name: tick\n    schedule: {cron: \"@every 1s\"}",
			"  - name: hourly\n    schedule: {cron: \"0 * * * *\"}\n", ""), agent...),
		devstack.ControlFile:    append(slices.Clone(dev[devstack.ControlFile]), agent...),
		devstack.ReputationFile: append(edit(dev[devstack.ReputationFile], "believedHosts: [", "believedHosts: [\""+d.Plain()+"\", "), agent...),
		devstack.PolicyFile:     dev[devstack.PolicyFile],
		devstack.ManifestFile:   edit(dev[devstack.ManifestFile], "allowedSources: [", "allowedSources: [tick, "),
	}
}

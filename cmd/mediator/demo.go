package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/freeport"
)

func demoCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "demo", Short: "Play every scenario with real processes, and print what was expected beside what happened", Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runDemo(c.Context(), asJSON, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object for each scenario")
	c.AddCommand(demoAgentCommand(), demoAPICommand())
	return c
}

// demo is a deployment of its own in a temporary folder: the three processes, two APIs, and an agent for each scenario.
type demo struct {
	dir        string
	self       string // a copy of this program that the agent's user can start
	listen     string // the proxy port
	hooks      string // where webhooks arrive
	awareAddr  string
	plainAddr  string
	stack      *stack
	direct     *http.Client // past the mediator, as a thief would
	processes  []*exec.Cmd
	deliveries int
	old        string    // an event that has become too old by the end
	oldAt      time.Time // when it arrived
	firstPost  string    // the record whose evidence is drawn
}

// demoUser is the user of the demo's agents. Two demos at once have different ones, for processes of that user which it has not started
// are strangers to each; the numbers are left free by Debian and by systemd.
func demoUser() int { return 60578 + os.Getpid()%600 }

// demoMaxAge is how long the demo's events are good for: long enough for a slow machine, short enough to wait for.
const demoMaxAge = 8 * time.Second

// scenario is one play: what should happen, and how to make it happen.
type scenario struct {
	name, expect string
	play         func(ctx context.Context) (string, error)
}

// played is how a scenario went.
type played struct {
	Scenario string  `json:"scenario"`
	Expected string  `json:"expected"`
	Happened string  `json:"happened"`
	OK       bool    `json:"ok"`
	Millis   float64 `json:"ms"`
}

func runDemo(ctx context.Context, asJSON bool, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	d, err := newDemo(ctx)
	if d != nil {
		defer d.stop()
	}
	if err != nil {
		return err
	}
	var all []played
	for _, s := range d.scenarios() {
		p := d.playOne(ctx, s)
		if asJSON {
			writeJSONLine(stdout, p)
		}
		all = append(all, p)
	}
	good := 0
	for _, p := range all {
		if p.OK {
			good++
		}
	}
	if !asJSON {
		printPlayed(stdout, all)
		if err := d.printEvidence(ctx, stdout); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "demo: %d scenarios, %d as expected\n", len(all), good)
	}
	if good != len(all) {
		d.printLogs(stderr)
		return errRefused
	}
	return nil
}

func (d *demo) playOne(ctx context.Context, s scenario) played {
	began := time.Now()
	happened, err := s.play(ctx)
	if err != nil {
		happened = "error: " + err.Error()
	}
	return played{s.name, s.expect, happened, happened == s.expect, float64(time.Since(began).Microseconds()) / 1000}
}

func printPlayed(w io.Writer, all []played) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tSCENARIO\tEXPECTED\tHAPPENED\tMS")
	for _, p := range all {
		mark := "ok"
		if !p.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%.0f\n", mark, p.Scenario, p.Expected, p.Happened, p.Millis)
	}
	t.Flush()
}

// scenarios are what the demo plays, in order.
func (d *demo) scenarios() []scenario {
	aware, plain := "https://"+d.aware()+"/posts", "https://"+d.plain()+"/posts"
	body := func(text string) string { return `{"title":"Agent update","body":"` + text + `"}` }
	return []scenario{
		{"a webhook leads to a post to the API that takes part", "201", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", aware, "--body", body("one"))
			d.firstPost = r.Post
			return r.outcome(), err
		}},
		{"a webhook leads to a post to the API that knows nothing, credential injected", "201, token injected", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--body", body("two"))
			if err != nil {
				return "", err
			}
			posts, err := d.seen(ctx, d.plainAddr)
			if err != nil || len(posts) != 1 || posts[0].Authorization != "Bearer "+demoToken {
				return r.outcome(), err
			}
			return r.outcome() + ", token injected", nil
		}},
		{"a schedule leads to a post", "201", func(ctx context.Context) (string, error) {
			event, err := d.scheduled(ctx)
			if err != nil {
				return "", err
			}
			r, err := d.run(ctx, event, "POST", plain, "--body", body("three"))
			return r.outcome(), err
		}},
		{"the agent solves the challenge itself", "201", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", "https://"+d.plain()+"/solved", "--solve", "--body", body("four"))
			return r.outcome(), err
		}},
		{"a read that an egress rule allows", "200", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "GET", plain)
			return r.outcome(), err
		}},
		{"no session", "407", func(ctx context.Context) (string, error) {
			r, err := d.agent(ctx, "http://"+d.listen, "POST", plain, "--body", body("x"))
			return r.outcome(), err
		}},
		{"an event that a human asked for", "trigger_human", func(ctx context.Context) (string, error) {
			event, err := d.webhook(ctx, "workflow_dispatch", `{"sender":{"login":"alice"}}`)
			if err != nil {
				return "", err
			}
			return d.openSession(ctx, event)
		}},
		{"an event that the agent's side reported itself", "trigger_unverified", func(ctx context.Context) (string, error) {
			event, err := d.report(ctx)
			if err != nil {
				return "", err
			}
			return d.openSession(ctx, event)
		}},
		{"a second post on the same event", "event_budget_spent", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--times", "2", "--body", body("five"))
			return r.outcome(), err
		}},
		{"a second session on the same event", "event_claimed", func(ctx context.Context) (string, error) {
			event, err := d.release(ctx)
			if err != nil {
				return "", err
			}
			if _, err := d.openSession(ctx, event); err != nil {
				return "", err
			}
			return d.openSession(ctx, event)
		}},
		{"content altered on the way to the API", "capability_binding_mismatch", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(p *seenPost) { p.Body = json.RawMessage(body("altered")) })
		}},
		{"the same request a second time", "replayed", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(*seenPost) {})
		}},
		{"a stolen bearer token straight to the API", "proof_missing", func(ctx context.Context) (string, error) {
			return d.steal(ctx, func(p *seenPost) { p.Header = http.Header{} })
		}},
		{"a post that no rule names", "action_unmatched", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", "https://"+d.plain()+"/other", "--body", body("x"))
			return r.outcome(), err
		}},
		{"a read from a private address", "egress_address_denied", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "GET", "http://10.0.0.1/data")
			return r.outcome(), err
		}},
		{"another host inside a tunnel than the CONNECT names", "target_mismatch", func(ctx context.Context) (string, error) {
			r, err := d.byWebhook(ctx, "POST", plain, "--host", d.aware(), "--body", body("x"))
			return r.outcome(), err
		}},
		{"an event that is too old", "event_expired", func(ctx context.Context) (string, error) {
			select {
			case <-time.After(time.Until(d.oldAt.Add(demoMaxAge + 100*time.Millisecond))):
			case <-ctx.Done():
				return "", ctx.Err()
			}
			return d.openSession(ctx, d.old)
		}},
		{"a manifest with one control flipped", "deployment_unsafe", d.flippedControl},
	}
}

// demoToken is the API credential that the agent never holds.
const demoToken = "demo-token-that-only-the-mediator-has"

// newDemo sets everything up. What it has started is in the result even when it fails.
func newDemo(ctx context.Context) (*demo, error) {
	dir, err := os.MkdirTemp("", "mediator-demo-")
	if err != nil {
		return nil, err
	}
	d := &demo{dir: dir}
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // the agent's user passes through to the CA's certificate
		return d, err
	}
	for _, at := range []*string{&d.listen, &d.hooks, &d.awareAddr, &d.plainAddr} {
		if *at, err = freeport.Address(); err != nil {
			return d, err
		}
	}
	if err := prepareDir(dir, d.files(demoRules)); err != nil {
		return d, err
	}
	if err := errors.Join(writeAbsent(filepath.Join(dir, "secrets", "api-token"), []byte(demoToken)), writeDemoCertificates(dir, awareHost, plainHost), d.copySelf()); err != nil {
		return d, err
	}
	if d.stack, err = startStack(ctx, dir); err != nil {
		return d, err
	}
	if err := d.startAPIs(ctx); err != nil {
		return d, err
	}
	if d.old, err = d.release(ctx); err != nil {
		return d, err
	}
	d.oldAt = time.Now()
	return d, nil
}

// files are the demo's configuration: that of mediator dev, with other addresses and the given rules.
func (d *demo) files(rules string) map[string][]byte {
	edit := func(raw []byte, oldnew ...string) []byte {
		return []byte(strings.NewReplacer(oldnew...).Replace(string(raw)))
	}
	dev := configs.Dev
	serve, _, _ := strings.Cut(string(dev[serveFile]), "session: {standing: true}")
	var agent string
	if os.Geteuid() == 0 { // only then the agent gets a user of its own, whose reach there is something to say about
		agent = fmt.Sprintf("\nagent: {uid: %d}\n", demoUser())
	}
	serve = strings.Replace(serve, "127.0.0.1:8181", d.listen, 1) + agent + strings.NewReplacer("AWARE", d.aware(), "PLAIN", d.plain()).Replace(rules)
	return map[string][]byte{
		serveFile: []byte(serve),
		triggerFile: append(edit(dev[triggerFile], "127.0.0.1:8182", d.hooks, "sources:", "maxAge: "+demoMaxAge.String()+"\nsources:\n  - name: tick\n    schedule: {cron: \"@every 1s\"}",
			"  - name: hourly\n    schedule: {cron: \"0 * * * *\"}\n", ""), agent...),
		controlFile:  append(slices.Clone(dev[controlFile]), agent...),
		policyFile:   dev[policyFile],
		manifestFile: edit(dev[manifestFile], "allowedSources: [", "allowedSources: [tick, "),
	}
}

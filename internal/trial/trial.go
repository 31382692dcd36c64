// Package trial sets up a deployment in one folder, for the demo and for tests: mediator dev on free ports, signed
// webhooks, and agents started by mediator run.
package trial

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/problem"
)

// Deployment is a deployment in one folder, in front of two APIs that its user serves.
type Deployment struct {
	Dir        string
	Self       string // a copy of this program that the agent's user can start
	Listen     string // address of the proxy
	Hooks      string // address for webhooks
	AwareAddr  string // address of the API that verifies evidence
	PlainAddr  string // address of the API that does not
	Stack      *devstack.Stack
	Deliveries int // webhooks sent so far
}

// New returns a deployment in dir with a free port at each address. It writes and starts nothing.
func New(dir string) (*Deployment, error) {
	d := &Deployment{Dir: dir, Stack: devstack.New(dir)}
	for _, at := range []*string{&d.Listen, &d.Hooks, &d.AwareAddr, &d.PlainAddr} {
		var err error
		if *at, err = freeport.Address(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// The names of the APIs. They do not resolve; the sidecar's configuration has their addresses.
const (
	AwareHost = "aware.demo.test"
	PlainHost = "plain.demo.test"
)

// Token is the API credential, which the agent never holds.
const Token = "demo-token-that-only-the-mediator-has"

// MaxAge is the greatest age of events: enough for a slow machine, and short enough to wait for.
const MaxAge = 20 * time.Second

// User returns the user of the agents, a number that Debian and systemd leave free. Each process has another one: to a
// deployment, other processes of its agents' user are strangers.
func User() int { return 60578 + os.Getpid()%600 }

// Aware returns the host and port of the API that verifies evidence.
func (d *Deployment) Aware() string { return AwareHost + ":" + portOf(d.AwareAddr) }

// Plain returns the host and port of the API that does not.
func (d *Deployment) Plain() string { return PlainHost + ":" + portOf(d.PlainAddr) }

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// untried are lines of mediator dev's configuration that a trial does without.
var untried = regexp.MustCompile(`(?m)^(confine: \{anyPort: true\}|transparencyLog: ).*\n`)

// Files returns the configuration of mediator dev with other addresses, a constrained CA in memory, no transparency
// log, and these rules, in which AWARE and PLAIN become the hosts of the APIs.
func (d *Deployment) Files(rules string) map[string][]byte {
	var agent string
	if os.Geteuid() == 0 { // only root can give the agent its own user
		agent = fmt.Sprintf("\nagent: {uid: %d}\n", User())
	}
	edit := func(name string, oldnew ...string) string {
		return strings.NewReplacer(oldnew...).Replace(string(configs.Dev[name]))
	}
	sidecar, _, _ := strings.Cut(edit(devstack.SidecarFile,
		"dir: ca, ", "", ", unconstrained: true", "", "127.0.0.1:8181", d.Listen), "session: {standing")
	rules = strings.NewReplacer("AWARE", d.Aware(), "PLAIN", d.Plain()).Replace(rules)
	trigger := edit(devstack.TriggerFile, "127.0.0.1:8182", d.Hooks,
		"sources:", "maxAge: "+MaxAge.String()+"\nsources:\n  - name: tick\n    schedule: {cron: \"@every 1s\"}",
		"  - name: hourly\n    schedule: {cron: \"0 * * * *\"}\n", "")
	node := edit(devstack.ReputationFile, "believedHosts: [", "believedHosts: [\""+d.Plain()+"\", ")
	return map[string][]byte{
		devstack.SidecarFile:    []byte(untried.ReplaceAllString(sidecar, "") + agent + rules),
		devstack.TriggerFile:    []byte(trigger + agent),
		devstack.ControlFile:    append(slices.Clone(configs.Dev[devstack.ControlFile]), agent...),
		devstack.ReputationFile: []byte(node + agent),
		devstack.PolicyFile:     configs.Dev[devstack.PolicyFile],
		devstack.ManifestFile:   []byte(edit(devstack.ManifestFile, "allowedSources: [", "allowedSources: [tick, ")),
	}
}

// CopySelf copies this program to a folder where the agent's user can start it.
func (d *Deployment) CopySelf() error {
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer from.Close()
	d.Self = filepath.Join(d.Dir, "mediator")
	to, err := os.OpenFile(d.Self, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// Logs returns the logs of the processes.
func (d *Deployment) Logs() string {
	var all strings.Builder
	for _, name := range []string{"trigger.log", "control.log", "reputation.log", "serve.log"} {
		if raw, err := os.ReadFile(filepath.Join(d.Dir, name)); err == nil {
			fmt.Fprintf(&all, "-- %s\n%s", name, raw)
		}
	}
	return all.String()
}

// Webhook delivers a signed event as GitHub does and returns the event's id.
func (d *Deployment) Webhook(ctx context.Context, event, payload string) (string, error) {
	secret, err := files.ReadSecret(filepath.Join(d.Dir, "secrets", "webhook"), 1)
	if err != nil {
		return "", err
	}
	d.Deliveries++
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(payload))
	hook := "http://" + d.Hooks + "/hooks/github"
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, hook, strings.NewReader(payload))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Github-Event", event)
	req.Header.Set("X-Github-Delivery", fmt.Sprintf("delivery-%d", d.Deliveries))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return "", problem.Read(resp)
	}
	var answer struct {
		EventID string `json:"eventId"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.EventID, err
}

// DeliverRelease delivers a release event with new content.
func (d *Deployment) DeliverRelease(ctx context.Context) (string, error) {
	release := `{"action":"published","release":{"id":%d,"tag_name":"v1.0.%[1]d"},"repository":{"full_name":"acme/site"}}`
	return d.Webhook(ctx, "release", fmt.Sprintf(release, d.Deliveries))
}

// OpenSession asks for a session as mediator run does. It returns "opened" or the code of the refusal.
func (d *Deployment) OpenSession(ctx context.Context, event string) (string, error) {
	err := admin.Call(ctx, d.Stack.Admin(), http.MethodPost, "/v1/sessions", map[string]string{"event": event}, nil)
	var refused *problem.Error
	switch {
	case err == nil:
		return "opened", nil
	case errors.As(err, &refused):
		return refused.Code(), nil
	}
	return "", err
}

// Answer is what an agent got for one call: the status and, if the call was refused, the code.
type Answer struct {
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
	Post   string `json:"post,omitempty"`
	// Record and Receipt belong to the answer of a model that the mediator asked.
	Record  string `json:"record,omitempty"`
	Receipt string `json:"receipt,omitempty"`
}

// Outcome returns the code of a refusal, or else the status.
func (r Answer) Outcome() string {
	if r.Code != "" {
		return r.Code
	}
	return fmt.Sprint(r.Status)
}

// Run starts the demo's agent with mediator run, and returns its last answer.
func (d *Deployment) Run(ctx context.Context, event string, agent ...string) (Answer, error) {
	args := []string{"run", "--admin", d.Stack.Admin(), "--event", event, "--", d.Self, "demo", "agent"}
	return LastAnswer(exec.CommandContext(ctx, d.Self, append(args, agent...)...)) //nolint:gosec // this program itself
}

// LastAnswer runs a command and returns the last answer that it printed.
func LastAnswer(cmd *exec.Cmd) (answer Answer, err error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return answer, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	err = json.Unmarshal([]byte(lines[len(lines)-1]), &answer)
	return answer, err
}

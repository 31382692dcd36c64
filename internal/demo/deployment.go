package demo

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/launch"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/trigger"
)

// Rules are the demo's actions, egress rules and upstreams. AWARE and PLAIN stand for the APIs' hosts and ports.
const Rules = "\nactions:\n" + registering + `  - name: post-aware
    match: {url: "https://AWARE/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
    gate: api
    api: {challenge: "https://AWARE/challenge", verify: "https://AWARE/verify"}
  - name: post-plain
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: post-solved
    match: {url: "https://PLAIN/solved", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
    solver: agent
  - name: post-verified
    match: {url: "https://PLAIN/verified", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: post-by-tier
    match: {url: "https://PLAIN/tiers", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: post-tool
    match: {url: "https://PLAIN/mcp", mcp: {tools: [create_note]}}
    subject: agent:worker-1
    action: create_note
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
` + verifying + `  - name: read-tools
    match: {url: "https://PLAIN/mcp", mcp: {tools: [get_note, ask], elicitation: true}}
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: model
    match: {url: "https://PLAIN/v1/messages", methods: [POST]}
    observe: anthropic-messages
    credential: {prefix: "Bearer ", file: secrets/api-token}
    generate: {models: [demo-model], maxTokens: 256}
  - name: read-plain
    match: {url: "https://PLAIN/**", methods: [GET]}
  - name: read-private
    match: {url: "http://10.0.0.1/**", methods: [GET]}
upstreams:
  - {host: "AWARE", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// Aware returns the host and port of the API that takes part.
func (d *Deployment) Aware() string { return AwareHost + ":" + portOf(d.AwareAddr) }

// Plain returns the host and port of the API that does not take part.
func (d *Deployment) Plain() string { return PlainHost + ":" + portOf(d.PlainAddr) }

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// CopySelf copies this program to a folder that the agent's user can enter, so that the agent can start it.
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

// startAPIs starts the two APIs and waits until they answer.
func (d *Deployment) startAPIs(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(d.Dir, "api-ca.pem"))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	d.DirectClient = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	for _, api := range []struct {
		address string
		args    []string
	}{{d.AwareAddr, []string{"--aware"}}, {d.PlainAddr, nil}} {
		cmd := exec.Command(d.Self, append([]string{"demo", "api", "--dir", d.Dir, "--listen", api.address}, api.args...)...) //nolint:gosec // this program itself
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		if err := cmd.Start(); err != nil {
			return err
		}
		d.processes = append(d.processes, cmd)
		if err := d.awaitAPI(ctx, api.address); err != nil {
			return err
		}
	}
	return nil
}

func (d *Deployment) awaitAPI(ctx context.Context, address string) error {
	var err error
	answers := func(ctx context.Context) bool {
		_, err = d.Seen(ctx, address)
		return err == nil
	}
	if !eventually(ctx, answers) {
		return fmt.Errorf("the demo's API at %s does not answer: %w", address, err)
	}
	return nil
}

// Stop ends all processes and removes the folder.
func (d *Deployment) Stop() {
	if d.other != nil {
		d.other.Stop() // first: it uses the node of this deployment
	}
	if d.Stack != nil {
		d.Stack.Stop()
	}
	for _, p := range d.processes {
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}
	_ = os.RemoveAll(d.Dir)
}

// Logs returns the logs of the processes, to explain an unexpected result.
func (d *Deployment) Logs() string {
	var all strings.Builder
	for _, folder := range []string{"", otherFolder} {
		for _, name := range []string{"trigger", "control", "reputation", "serve"} {
			name = filepath.Join(folder, name+".log")
			if raw, err := os.ReadFile(filepath.Join(d.Dir, name)); err == nil {
				fmt.Fprintf(&all, "-- %s\n%s", name, raw)
			}
		}
	}
	return all.String()
}

// Webhook delivers an event as GitHub does, signed, and returns the event's id.
func (d *Deployment) Webhook(ctx context.Context, event, payload string) (string, error) {
	secret, err := files.ReadSecret(filepath.Join(d.Dir, "secrets", "webhook"), 1)
	if err != nil {
		return "", err
	}
	d.Deliveries++
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(payload))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Hooks+"/hooks/github", strings.NewReader(payload))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Github-Event", event)
	req.Header.Set("X-Github-Delivery", fmt.Sprintf("delivery-%d", d.Deliveries))
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := d.DirectClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted { // a repeated delivery makes no new event
		return "", problem.Read(resp)
	}
	var answer struct {
		EventID string `json:"eventId"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	return answer.EventID, err
}

// DeliverRelease delivers a release event. Each call has another content, because a repeated delivery makes no new event.
func (d *Deployment) DeliverRelease(ctx context.Context) (string, error) {
	return d.Webhook(ctx, "release", fmt.Sprintf(`{"action":"published","release":{"id":%d,"tag_name":"v1.0.%[1]d"},"repository":{"full_name":"acme/site"}}`, d.Deliveries))
}

// report records an event that no source has verified.
func (d *Deployment) report(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, d.Self, "events", "report", "--kind", evidence.TriggerUnknown, "--method", evidence.MethodSelfReported, //nolint:gosec // this program itself
		"--trigger", "unix:"+d.Stack.Socket("trigger")).Output()
	return strings.TrimSpace(string(out)), err
}

// scheduled waits for an event of the schedule.
func (d *Deployment) scheduled(ctx context.Context) (string, error) {
	var id string
	var err error
	came := func(ctx context.Context) bool {
		var events []trigger.Event
		if err = admin.Get(ctx, "unix:"+d.Stack.Socket("trigger"), "/v1/events", &events); err != nil {
			return true
		}
		at := slices.IndexFunc(events, func(e trigger.Event) bool {
			return e.Kind == evidence.TriggerScheduled && e.State == trigger.Received && time.Until(e.ExpiresAt) > MaxAge/2
		})
		if at >= 0 {
			id = events[at].ID
		}
		return at >= 0
	}
	if !eventually(ctx, came) {
		return "", errors.New("no scheduled event came")
	}
	return id, err
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

// byWebhook delivers a release event and starts an agent for it.
func (d *Deployment) byWebhook(ctx context.Context, agent ...string) (Answer, error) {
	event, err := d.DeliverRelease(ctx)
	if err != nil {
		return Answer{}, err
	}
	return d.Run(ctx, event, agent...)
}

// Run starts the agent in a session of its own, with mediator run.
func (d *Deployment) Run(ctx context.Context, event string, agent ...string) (Answer, error) {
	args := append([]string{"run", "--admin", d.Stack.Admin(), "--event", event, "--", d.Self, "demo", "agent"}, agent...)
	return d.result(exec.CommandContext(ctx, d.Self, args...)) //nolint:gosec // this program itself
}

// agent starts the agent outside any session.
func (d *Deployment) agent(ctx context.Context, proxyURL string, args ...string) (Answer, error) {
	cmd := exec.CommandContext(ctx, d.Self, append([]string{"demo", "agent"}, args...)...) //nolint:gosec // this program itself
	cmd.Env = launch.Environment(os.Environ(), proxyURL, filepath.Join(d.Dir, "ca.pem"))
	return d.result(cmd)
}

// result runs a command and reads the last result that the agent printed.
func (d *Deployment) result(cmd *exec.Cmd) (Answer, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return Answer{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	var r Answer
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &r)
	return r, err
}

// Seen asks one of the APIs what it received.
func (d *Deployment) Seen(ctx context.Context, address string) ([]SeenPost, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/posts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := d.DirectClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var posts []SeenPost
	err = json.NewDecoder(resp.Body).Decode(&posts)
	return posts, err
}

// steal plays a thief who has seen an accepted request with its bearer token. It changes the request and sends it to
// the API that takes part. It returns the code of the API's refusal.
func (d *Deployment) steal(ctx context.Context, change func(*SeenPost)) (string, error) {
	// Steal a fresh request: an older one would be refused for its age.
	made, err := d.byWebhook(ctx, "POST", "https://"+d.Aware()+"/posts", "--body", `{"title":"Agent update","body":"worth stealing"}`)
	if err != nil || made.Outcome() != "201" {
		return made.Outcome(), err
	}
	posts, err := d.Seen(ctx, d.AwareAddr)
	if err != nil || len(posts) == 0 {
		return "", errors.Join(err, errors.New("there is nothing to steal"))
	}
	p := posts[len(posts)-1]
	change(&p)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+d.AwareAddr+"/posts", bytes.NewReader(p.Body))
	if err != nil {
		return "", err
	}
	req.Header = p.Header.Clone()
	req.Header.Set("Authorization", p.Authorization)
	resp, err := d.DirectClient.Do(req)
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

// flippedControl starts a sidecar whose manifest says that a bearer token alone can post.
func (d *Deployment) flippedControl(ctx context.Context) (string, error) {
	dir := filepath.Join(d.Dir, "flipped")
	other := *d
	var err error
	if other.Listen, err = freeport.Address(); err != nil {
		return "", err
	}
	content := other.Files(Rules)
	content[devstack.ManifestFile] = bytes.Replace(content[devstack.ManifestFile], []byte("bearerTokenAloneCanPost: false"), []byte("bearerTokenAloneCanPost: true"), 1)
	if err := errors.Join(os.Mkdir(dir, 0o700), devstack.Prepare(dir, content)); err != nil {
		return "", err
	}
	for _, name := range []string{"api-ca.pem", "secrets/api-token"} {
		if err := os.Link(filepath.Join(d.Dir, name), filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.Self, "serve", "--config", filepath.Join(dir, devstack.SidecarFile)) //nolint:gosec // this program itself
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return "", fmt.Errorf("the sidecar ended with %w: %s", err, stderr.String())
	}
	if !strings.Contains(stderr.String(), "(deployment_unsafe)") {
		return "", fmt.Errorf("the sidecar said: %s", stderr.String())
	}
	return "deployment_unsafe", nil
}

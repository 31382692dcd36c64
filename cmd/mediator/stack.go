package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// stack is the embedded default: the three processes of a deployment, supervised, with keys in their memories alone. The
// supervisor plays the security team: it makes the two root keys, certifies what the processes publish, and forgets the root
// keys when it ends. What it declares holds for a development machine and is evidence for nothing else.
type stack struct {
	dir       string
	processes []*child
	auditor   rootKey // certifies the manifest, at the start and at each reload
	registry  func()  // ends the registry's watch over the keys, and waits for it
}

// child is one of the processes.
type child struct {
	name, endpoint string
	cmd            *exec.Cmd
	done           chan struct{}
	err            error // valid once done is closed
}

// The files of a stack's folder. The configuration files name the same ones.
const (
	registryFile = "registry.jwk"
	auditorFile  = "auditor.jwk"
	bundleFile   = "trust.json"
	manifestFile = "manifest.yaml"
	policyFile   = "policy.yaml"
	serveFile    = "mediator.yaml"
	triggerFile  = "trigger.yaml"
	controlFile  = "control.yaml"
)

// startTimeout bounds the start of a stack.
const startTimeout = 20 * time.Second

// startStack starts the three processes on the configuration files in dir and returns once all are ready. Whatever it has
// started ends when it fails.
func startStack(ctx context.Context, dir string) (_ *stack, err error) {
	s := &stack{dir: dir, registry: func() {}}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, name := range []string{bundleFile, registryFile, auditorFile} { // of an earlier start, with keys that are gone
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	manifest, err := s.pin()
	if err != nil {
		return nil, err
	}
	for _, p := range []struct{ name, config string }{{"trigger", triggerFile}, {"control", controlFile}, {"serve", serveFile}} {
		if err := s.start(p.name, p.config); err != nil {
			return nil, err
		}
	}
	if err := s.certify(ctx, manifest); err != nil {
		return nil, err
	}
	for _, p := range s.processes {
		if err := s.await(ctx, p, "/readyz"); err != nil {
			return nil, err
		}
	}
	return s, nil
}

var pinned = map[string]*regexp.Regexp{
	"policy":      regexp.MustCompile(`(requiredPolicyHash: *)"?[0-9a-f]{64}"?`),
	"environment": regexp.MustCompile(`(requiredEnvironmentHash: *)"?[0-9a-f]{64}"?`),
}

// pin writes the hashes of the policy file and of what the sidecar will run into the manifest, as the security team does when it
// reviews a release, and returns the manifest.
func (s *stack) pin() (*policy.Manifest, error) {
	path := filepath.Join(s.dir, manifestFile)
	raw, err := readFile(path)
	if err != nil {
		return nil, err
	}
	rules, err := readRules(filepath.Join(s.dir, policyFile))
	if err != nil {
		return nil, err
	}
	config, err := readFile(filepath.Join(s.dir, serveFile))
	if err != nil {
		return nil, err
	}
	environment, err := environmentHash(config)
	if err != nil {
		return nil, err
	}
	raw = pinned["policy"].ReplaceAll(raw, []byte("${1}"+rules.Hash()))
	raw = pinned["environment"].ReplaceAll(raw, []byte("${1}"+environment))
	if err := replaceFile(path, raw, 0o644); err != nil {
		return nil, err
	}
	return readManifestFile(path)
}

// start starts one process; its log goes to a file in the stack's folder.
func (s *stack) start(name, config string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p := &child{name: name, endpoint: "unix:" + s.socket(name), done: make(chan struct{})}
	p.cmd = exec.Command(self, name, "--config", filepath.Join(s.dir, config)) //nolint:gosec // this program itself
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return nil
}

// socket returns the path of a process's internal endpoint.
func (s *stack) socket(name string) string { return filepath.Join(s.dir, "run", name+".sock") }

// admin returns the sidecar's admin endpoint.
func (s *stack) admin() string { return "unix:" + s.socket("serve") }

// certify plays the security team: root keys, custody certificates for what the processes publish, the deployment certificate.
func (s *stack) certify(ctx context.Context, manifest *policy.Manifest) error {
	registryKey, _, err := generateRoot("registry", false)
	if err != nil {
		return err
	}
	if s.auditor, _, err = generateRoot("auditor", false); err != nil {
		return err
	}
	var endpoints []string
	for _, p := range s.processes {
		if err := s.await(ctx, p, "/healthz"); err != nil {
			return err
		}
		endpoints = append(endpoints, p.endpoint)
	}
	p, err := readPublished(ctx, endpoints)
	if err != nil {
		return err
	}
	r, err := s.sign(ctx, manifest, registryKey, p)
	if err != nil {
		return err
	}
	return s.watch(r, endpoints, p.as)
}

// sign writes what the two roots sign into the stack's folder: certificates of the keys that are published, and the deployment's.
func (s *stack) sign(ctx context.Context, manifest *policy.Manifest, registryKey rootKey, p published) (*registry, error) {
	for name, key := range map[string]rootKey{registryFile: registryKey, auditorFile: s.auditor} {
		public, err := key.jwk()
		if err != nil {
			return nil, err
		}
		if err := replaceFile(filepath.Join(s.dir, name), public, 0o644); err != nil {
			return nil, err
		}
	}
	certificate, err := s.audit(ctx, manifest)
	if err != nil {
		return nil, err
	}
	signers := manifest.SignerCertificatePolicy
	o := signer.Options{Issuer: signers.AllowedIssuers[0], Audience: signers.AllowedAudiences[0], Lifetime: certified, Now: time.Now}
	r := &registry{registryKey, o, filepath.Join(s.dir, bundleFile)}
	err = r.work(func(d *desk) error {
		d.b.DeploymentCertificate = certificate
		_, _, err := d.certify(ctx, p, declared{})
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// certified is for how long what the roots of a stack sign is good.
const certified = 24 * time.Hour

// audit returns the auditor's certificate of a manifest that audits clean.
func (s *stack) audit(ctx context.Context, manifest *policy.Manifest) (string, error) {
	p := manifest.DeploymentCertificatePolicy
	if len(p.AllowedIssuers) == 0 || len(p.AllowedAudiences) == 0 {
		return "", errors.New("the manifest allows no issuer or no audience of a deployment certificate")
	}
	return policy.Certify(ctx, s.auditor, manifest, s.auditor.options(signer.Options{
		Issuer: p.AllowedIssuers[0], Audience: p.AllowedAudiences[0], Lifetime: certified, Now: time.Now,
	}))
}

// reload plays the security team once more, for files that have been edited: it pins and certifies what they say, and has the processes
// take it over, the control plane first. What a process refuses is not asked of those after it.
func (s *stack) reload(ctx context.Context) (configured, error) {
	if _, err := loadSidecar(filepath.Join(s.dir, serveFile)); err != nil {
		return configured{}, err
	}
	manifest, err := s.pin()
	if err != nil {
		return configured{}, err
	}
	certificate, err := s.audit(ctx, manifest)
	if err != nil {
		return configured{}, err
	}
	err = updateBundle(filepath.Join(s.dir, bundleFile), func(b *evidence.Bundle) error {
		b.DeploymentCertificate = certificate
		return nil
	})
	if err != nil {
		return configured{}, err
	}
	var now configured
	for _, name := range []string{"control", "trigger", "serve"} {
		if err := callJSON(ctx, "unix:"+s.socket(name), http.MethodPost, "/v1/reload", struct{}{}, &now); err != nil {
			return configured{}, fmt.Errorf("mediator %s: %w", name, err)
		}
	}
	return now, nil
}

// watch has the registry follow the processes' keys until the stack stops.
func (s *stack) watch(r *registry, endpoints []string, as map[string][]string) error {
	file, err := os.OpenFile(filepath.Join(s.dir, "registry.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	log, err := newLogger(logConfig{}, "registry", file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer file.Close()
		r.watch(ctx, endpoints, as, declared{}, log)
	}()
	s.registry = func() {
		cancel()
		<-done
	}
	return nil
}

// await asks a process until it answers path with success.
func (s *stack) await(ctx context.Context, p *child, path string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := getJSON(ctx, p.endpoint, path, nil)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return s.died(p)
		case <-ctx.Done():
			return fmt.Errorf("mediator %s did not get ready in %s: %w; its log is %s.log in %s", p.name, startTimeout, err, p.name, s.dir)
		case <-tick.C:
		}
	}
}

// died says why a process ended, with the end of its log.
func (s *stack) died(p *child) error {
	raw, _ := os.ReadFile(filepath.Join(s.dir, p.name+".log"))
	if len(raw) > 2000 {
		raw = raw[len(raw)-2000:]
	}
	return fmt.Errorf("mediator %s ended (%w); the end of its log:\n%s", p.name, errors.Join(p.err, errEnded), raw)
}

var errEnded = errors.New("it was not told to")

// wait returns when ctx ends, or with an error when a process ends by itself.
func (s *stack) wait(ctx context.Context) error {
	for {
		for _, p := range s.processes {
			select {
			case <-p.done:
				return s.died(p)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// stopTimeout is how long a process may take to end what is in flight.
const stopTimeout = 25 * time.Second

// stop ends the processes, the sidecar first, and waits for them.
func (s *stack) stop() {
	s.registry()
	for i := len(s.processes) - 1; i >= 0; i-- {
		p := s.processes[i]
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(stopTimeout):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
}

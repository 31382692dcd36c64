// Package devstack runs the processes of a deployment on one machine, for mediator dev, with keys in memory.
package devstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/logs"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/signer"
)

// Stack is the processes and their supervisor, which plays the security team: it makes two root keys in memory and
// certifies the published keys. Its declarations are true only for a development machine.
type Stack struct {
	Dir       string
	Processes []*Process
	Auditor   keyring.RootKey // certifies the manifest, at the start and at each reload
	registry  func()          // ends the registry's Watch and waits for it
	ended     chan struct{}   // has room for one: a process has ended
}

// New makes a stack without starting it.
func New(dir string) *Stack {
	return &Stack{Dir: dir, registry: func() {}, ended: make(chan struct{}, 1)}
}

const startTimeout = 3 * time.Minute

// Start starts the processes that have a configuration file in dir, and returns when all their keys are certified. If
// Start fails, it ends them again.
func Start(ctx context.Context, dir string) (_ *Stack, err error) {
	s := New(dir)
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := s.setAside(time.Now()); err != nil {
		return nil, err
	}
	if err := s.keepCA(time.Now()); err != nil {
		return nil, err
	}
	var manifest *policy.Manifest
	for _, name := range s.names() {
		if name == "control" { // the first that reads the manifest; the others start meanwhile
			if manifest, err = s.PinHashes(); err != nil {
				return nil, err
			}
		}
		if err := s.StartProcess(name, configurations[name]); err != nil {
			return nil, err
		}
	}
	if err := s.certify(ctx, manifest); err != nil {
		return nil, err
	}
	return s, nil
}

// Ready waits until all processes are ready.
func (s *Stack) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, p := range s.Processes {
		if err := s.WaitFor(ctx, p, "/startupz"); err != nil {
			return err
		}
	}
	return nil
}

var hashPatterns = map[string]*regexp.Regexp{
	"policy":      regexp.MustCompile(`(requiredPolicyHash: *)"?[0-9a-f]{64}"?`),
	"environment": regexp.MustCompile(`(requiredEnvironmentHash: *)"?[0-9a-f]{64}"?`),
}

// PinHashes writes the hashes of the policy and of the sidecar's environment into the manifest, and returns it.
func (s *Stack) PinHashes() (*policy.Manifest, error) {
	path := filepath.Join(s.Dir, ManifestFile)
	raw, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	rules, err := deployed.ReadRules(filepath.Join(s.Dir, PolicyFile))
	if err != nil {
		return nil, err
	}
	sidecar, err := files.Read(filepath.Join(s.Dir, SidecarFile))
	if err != nil {
		return nil, err
	}
	environment, err := deployed.EnvironmentHash(sidecar)
	if err != nil {
		return nil, err
	}
	raw = hashPatterns["policy"].ReplaceAll(raw, []byte("${1}"+rules.Hash()))
	raw = hashPatterns["environment"].ReplaceAll(raw, []byte("${1}"+environment))
	if err := files.Replace(path, raw, 0o644); err != nil {
		return nil, err
	}
	return deployed.ReadManifest(path)
}

// Socket returns the path of a process's internal endpoint.
func (s *Stack) Socket(name string) string { return filepath.Join(s.Dir, "run", name+".sock") }

func (s *Stack) bundle() string { return filepath.Join(s.Dir, BundleFile) }

// Admin returns the sidecar's admin endpoint.
func (s *Stack) Admin() string { return "unix:" + s.Socket("serve") }

// certify plays the security team: it makes the root keys and certifies the published keys and the deployment.
func (s *Stack) certify(ctx context.Context, manifest *policy.Manifest) error {
	registryKey, _, err := keyring.GenerateRoot("registry", false)
	if err != nil {
		return err
	}
	if s.Auditor, _, err = keyring.GenerateRoot("auditor", false); err != nil {
		return err
	}
	var endpoints []string
	for _, p := range s.Processes {
		if err := s.WaitFor(ctx, p, "/healthz"); err != nil {
			return err
		}
		endpoints = append(endpoints, p.Endpoint)
	}
	p, err := keyring.ReadPublished(ctx, endpoints)
	if err != nil {
		return err
	}
	r, err := s.WriteTrust(ctx, manifest, registryKey, p)
	if err != nil {
		return err
	}
	return s.watch(r, endpoints, p.RolesByEndpoint)
}

// WriteTrust writes the roots' public keys, the certificates of the published keys and the deployment's certificate.
func (s *Stack) WriteTrust(ctx context.Context, manifest *policy.Manifest, registryKey keyring.RootKey,
	p keyring.Published) (*keyring.Registry, error) {
	for name, key := range map[string]keyring.RootKey{RegistryFile: registryKey, AuditorFile: s.Auditor} {
		public, err := key.JWK()
		if err != nil {
			return nil, err
		}
		if err := files.Replace(filepath.Join(s.Dir, name), public, 0o644); err != nil {
			return nil, err
		}
	}
	signers := manifest.SignerCertificatePolicy
	o := signer.Options{Issuer: signers.AllowedIssuers[0], Audience: signers.AllowedAudiences[0],
		Lifetime: certificateLifetime, Now: time.Now}
	r := keyring.NewRegistry(registryKey, o, s.bundle())
	if _, err := r.Certify(ctx, p, keyring.Declaration{}); err != nil {
		return nil, err
	}
	// Last: the processes wait for it, and need all the rest.
	return r, s.CertifyManifest(ctx, manifest, r.Bundle)
}

const certificateLifetime = 24 * time.Hour

// CertifyManifest puts the auditor's certificate for a manifest that audits clean into a trust bundle.
func (s *Stack) CertifyManifest(ctx context.Context, manifest *policy.Manifest, bundle string) error {
	p := manifest.DeploymentCertificatePolicy
	if len(p.AllowedIssuers) == 0 || len(p.AllowedAudiences) == 0 {
		return errors.New("the manifest allows no issuer or no audience of a deployment certificate")
	}
	certificate, _, err := keyring.CertifyDeployment(ctx, s.Auditor, manifest, signer.Options{
		Issuer: p.AllowedIssuers[0], Audience: p.AllowedAudiences[0], Lifetime: certificateLifetime, Now: time.Now,
	})
	if err != nil {
		return err
	}
	return keyring.PutDeployment(bundle, certificate, manifest)
}

// Reload plays the security team after edits: it pins and certifies the files, then reloads the processes, the control
// plane first. It stops at the first refusal.
func (s *Stack) Reload(ctx context.Context) (daemon.ConfigStatus, error) {
	if _, err := config.Load[config.Sidecar](filepath.Join(s.Dir, SidecarFile)); err != nil {
		return daemon.ConfigStatus{}, err
	}
	manifest, err := s.PinHashes()
	if err != nil {
		return daemon.ConfigStatus{}, err
	}
	if err := s.CertifyManifest(ctx, manifest, s.bundle()); err != nil {
		return daemon.ConfigStatus{}, err
	}
	var now daemon.ConfigStatus
	for _, name := range []string{"control", "trigger", node, "serve"} {
		if !s.runs(name) {
			continue
		}
		if err := admin.Call(ctx, "unix:"+s.Socket(name), http.MethodPost, "/v1/reload", struct{}{}, &now); err != nil {
			return daemon.ConfigStatus{}, fmt.Errorf("mediator %s: %w", name, err)
		}
	}
	return now, nil
}

func (s *Stack) runs(name string) bool {
	return slices.ContainsFunc(s.Processes, func(p *Process) bool { return p.Name == name })
}

// watch makes the registry follow the processes' keys until the stack stops.
func (s *Stack) watch(r *keyring.Registry, endpoints []string, as map[string][]string) error {
	file, err := os.OpenFile(filepath.Join(s.Dir, "registry.log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	log, err := logs.New(config.Log{}, "registry", file)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer file.Close()
		r.CertifyContinuously(ctx, endpoints, as, keyring.Declaration{}, log)
	}()
	s.registry = func() {
		cancel()
		<-done
	}
	return nil
}

// Wait returns when ctx ends, or with an error when a process ends by itself.
func (s *Stack) Wait(ctx context.Context) error {
	for {
		for _, p := range s.Processes {
			select {
			case <-p.Done:
				return s.ExitError(p)
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.ended:
		}
	}
}

const stopTimeout = 25 * time.Second

// Stop ends the processes, the sidecar first, and waits for them.
func (s *Stack) Stop() {
	s.registry()
	for i := len(s.Processes) - 1; i >= 0; i-- {
		p := s.Processes[i]
		_ = p.Cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.Done:
		case <-time.After(stopTimeout):
			_ = p.Cmd.Process.Kill()
			<-p.Done
		}
	}
}

// Serve answers requests to reload until ctx ends or a process ends by itself.
func (s *Stack) Serve(ctx context.Context) error {
	l, err := endpoint.Listen(config.Endpoint{Unix: s.Socket("dev")}, nil, zap.NewNop())
	if err != nil {
		return err
	}
	r := daemon.NewReloader(zap.NewNop(), prometheus.NewRegistry())
	r.Start(daemon.ConfigStatus{}, s.Reload)
	mux := http.NewServeMux()
	r.Handle(mux, func(context.Context) error { return nil })
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return endpoint.Serve(ctx, l, mux, endpoint.Limits{}, time.Second, zap.NewNop()) })
	group.Go(func() error { return s.Wait(ctx) })
	return group.Wait()
}

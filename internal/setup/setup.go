package setup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/vault/api"
	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/control"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/process/node"
	"github.com/actionproof/mediator/internal/process/sidecar"
	"github.com/actionproof/mediator/internal/process/trigger"
)

// Setup prepares a folder of configuration and what depends on it. It never replaces a key, a secret or a
// configuration file. In the manifest it replaces the two pinned hashes.
type Setup struct {
	Dir  string                          // of the configuration, such as /etc/mediator
	User func(name string) (User, error) // such as [LookUp]
	// Vault connects to a Vault with the token of an administrator.
	Vault func(v Vault, do func(*api.Client) error) error
	// Did is called after each step.
	Did func(bootstrap.Done)
}

// The folders in Dir.
const (
	keys    = "keys"    // private root keys, if they are on this machine; only root enters it
	trust   = "trust"   // public: pinned roots, and the bundle with its history
	secrets = "secrets" // each file belongs to the user of the process that reads it
)

var roots = []struct{ name, purpose string }{
	{"registry", evidence.PurposeSignerCertificate}, {"auditor", evidence.PurposeDeploymentCertificate},
}

func (s Setup) in(parts ...string) string { return filepath.Join(append([]string{s.Dir}, parts...)...) }

func (s Setup) did(path, format string, args ...any) {
	s.Did(bootstrap.Done{What: path, Did: fmt.Sprintf(format, args...)})
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Fresh reports whether nothing is configured in the folder, so that Run needs answers.
func (s Setup) Fresh() bool { return !isThere(s.in(devstack.SidecarFile)) }

// Run carries out the steps. It can be repeated: what is there stays.
func (s Setup) Run(ctx context.Context, a Answers) error {
	if err := a.check(); err != nil {
		return err
	}
	for dir, mode := range map[string]os.FileMode{keys: 0o700, trust: 0o755, secrets: 0o711} {
		if isThere(s.in(dir)) {
			continue
		}
		//nolint:gosec // other users pass through to their own files
		if err := errors.Join(os.MkdirAll(s.in(dir), mode), os.Chmod(s.in(dir), mode)); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context, Answers) error{
		s.roots, s.configure, s.useVault, s.rights, s.certify,
	} {
		if err := step(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// roots pins the two roots. Without public keys it makes them, or copies those of the security team.
func (s Setup) roots(_ context.Context, a Answers) error {
	for _, r := range roots {
		public, private := s.in(trust, r.name+".jwk"), s.in(keys, r.name+".key.jwk")
		switch {
		case isThere(public):
			s.did(public, "is there")
		case a.Roots == here:
			_, err := keyring.MakeRoot(r.name, private, public, true)
			if err == nil {
				err = publish(public)
			}
			if err != nil {
				return err
			}
			s.did(private, "made; keep a copy offline")
			s.did(public, "made")
		default:
			from := filepath.Join(a.Roots, r.name+".jwk")
			raw, err := files.Read(from)
			if err == nil {
				_, err = evidence.ParseRoot(raw, r.purpose)
			}
			if err != nil {
				return fmt.Errorf("the root key %s: %w", from, err)
			}
			if err := write(public, raw); err != nil {
				return err
			}
			s.did(public, "copied from %s", from)
		}
	}
	return nil
}

// publish lets everyone read a file, regardless of the umask of the administrator's shell. It follows no link, which
// the registry's and the auditor's users could put in its place.
func publish(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(0o644)
}

func write(path string, raw []byte) error {
	if err := files.WriteNew(path, bytes.TrimRight(raw, "\n"), 0o644); err != nil {
		return err
	}
	return publish(path)
}

// configure writes the configuration files that are missing, and new secrets for the webhooks in them.
func (s Setup) configure(_ context.Context, a Answers) error {
	names := []string{devstack.PolicyFile, devstack.ManifestFile, devstack.TriggerFile, devstack.ControlFile,
		devstack.SidecarFile}
	if a.Node {
		names = append(names, devstack.ReputationFile)
	}
	for _, name := range names {
		path := s.in(name)
		if isThere(path) {
			s.did(path, "is there, and stays as it is")
			continue
		}
		text, err := s.text(name, a)
		if err == nil {
			err = write(path, text)
		}
		if err != nil {
			return err
		}
		s.did(path, "written")
		if name != devstack.TriggerFile {
			continue
		}
		for _, file := range webhookSecrets(text) {
			if file = s.in(file); isThere(file) {
				continue
			}
			if err := devstack.MakeWebhookSecret(file); err != nil {
				return err
			}
			s.did(file, "made; give it to the sender of the events")
		}
	}
	return nil
}

// wrapped is the time in which a login for Vault can be used for the first time.
const wrapped = time.Hour

func (s Setup) useVault(ctx context.Context, a Answers) error {
	if a.Vault == nil {
		return nil
	}
	plan, err := bootstrap.New(bootstrap.Options{Transit: "transit",
		AppRole: &bootstrap.AppRole{Mount: "approle", Dir: s.in(secrets), Wrap: wrapped}})
	if err != nil {
		return err
	}
	return s.Vault(*a.Vault, func(administrator *api.Client) error {
		done, err := plan.Apply(ctx, administrator)
		for _, d := range done {
			s.Did(d)
		}
		return err
	})
}

// processes are the configuration files, with the command that runs each and what it uses.
var processes = []struct {
	name, file string
	plan       func(path string) (daemon.Plan, error)
}{
	{"trigger", devstack.TriggerFile, planned(trigger.Plan)},
	{"control", devstack.ControlFile, planned(control.Plan)},
	{"serve", devstack.SidecarFile, planned(sidecar.Plan)},
	{"reputation", devstack.ReputationFile, planned(node.Plan)},
}

func planned[C any, P config.Configuration[C]](plan func(*C) (daemon.Plan, error)) func(path string) (daemon.Plan,
	error) {
	return func(path string) (daemon.Plan, error) {
		c, err := config.Load[C, P](path)
		if err != nil {
			return daemon.Plan{}, err
		}
		return plan(c)
	}
}

// rights checks each configuration file, and gives each secret in the folder to the user of its process alone. It tells
// the units of the registry which sockets the processes have.
func (s Setup) rights(context.Context, Answers) error {
	from := make(map[bool]string) // by whether it is the node's
	for _, p := range processes {
		path := s.in(p.file)
		if !isThere(path) {
			continue
		}
		checked, err := config.CheckFile(path, true)
		if err != nil {
			return err
		}
		for _, w := range checked.Warnings {
			s.did(path, "warning: %v", w)
		}
		plan, err := p.plan(path)
		if err != nil {
			return err
		}
		owner, err := s.User("mediator-" + p.name)
		if err != nil {
			return err
		}
		if plan.Endpoint.Unix != "" {
			from[p.name == "reputation"] += fmt.Sprintf(" --from unix:%s,%d", plan.Endpoint.Unix, owner.UID)
		}
		if err := s.giveSecrets(p.name, owner, plan); err != nil {
			return err
		}
		s.did(path, "correct; its secrets belong to mediator-%s", p.name)
	}
	manifest, _, err := deployed.ReadAuditedManifest(s.in(devstack.ManifestFile))
	if err != nil {
		return err
	}
	return files.Replace(s.in("registry.env"), fmt.Appendf(nil, "# Made by mediator setup for mediator-registry and "+
		"mediator-auditor: what they certify, and for which APIs.\nFROM=%q\nNODE=%q\nAUDIENCE=%q\n",
		strings.TrimSpace(from[false]), strings.TrimSpace(from[true]),
		manifest.SignerCertificatePolicy.AllowedAudiences[0]), 0o644)
}

// giveSecrets gives a process's user the secrets that its plan names in the folder.
func (s Setup) giveSecrets(process string, owner User, plan daemon.Plan) error {
	// Processes can share the keys of their certificates, and the secrets for their collectors.
	shared := append(fields.UsesOf(plan.TLS).Secret, fields.UsesOf(plan.Tracing).Secret...)
	named := slices.DeleteFunc(plan.Secret, func(file string) bool { return slices.Contains(shared, file) })
	for _, r := range append(slices.Clone(bootstrap.Roles), bootstrap.Log) {
		if r.Process == process {
			named = append(named, plan.Custody.SecretFiles(r.Purpose)...)
		}
	}
	for _, file := range named {
		if strings.HasPrefix(file, s.in(secrets)+"/") {
			if err := give(file, owner); err != nil {
				return err
			}
		}
	}
	return nil
}

// give makes a file readable for its owner alone. A missing file or a folder stays as it is.
func give(path string, to User) error {
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return err
	}
	return errors.Join(f.Chmod(0o400), f.Chown(int(to.UID), int(to.GID)))
}

// certify pins the reviewed files in the manifest, and certifies it if the auditor's key is on this machine.
func (s Setup) certify(ctx context.Context, _ Answers) error {
	stack, path := devstack.New(s.Dir), s.in(devstack.ManifestFile)
	before, err := files.Read(path)
	if err != nil {
		return err
	}
	manifest, err := stack.PinHashes()
	if err != nil {
		return err
	}
	if after, err := files.Read(path); err != nil || !bytes.Equal(before, after) {
		s.did(path, "pins the policy, and the environment of this program with %s", devstack.SidecarFile)
	}
	key := s.in(keys, "auditor.key.jwk")
	if !isThere(key) {
		s.did(path, "for the auditor to certify")
		return nil
	}
	if stack.Auditor, err = keyring.OpenRootKey(ctx, key, io.Discard,
		evidence.PurposeDeploymentCertificate); err != nil {
		return err
	}
	bundle := s.in(trust, devstack.BundleFile)
	if err := stack.CertifyManifest(ctx, manifest, bundle); err != nil {
		return err
	}
	s.did(bundle, "certifies the deployment %s", manifest.DeploymentID)
	return nil
}

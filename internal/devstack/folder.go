package devstack

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/actionproof/mediator/internal/files"
)

// DefaultFolder is the folder of a stack by default.
const DefaultFolder = ".mediator"

// The files in a stack's folder. The configuration files use the same names.
const (
	RegistryFile = "registry.jwk"
	AuditorFile  = "auditor.jwk"
	BundleFile   = "trust.json"
	ManifestFile = "manifest.yaml"
	PolicyFile   = "policy.yaml"
	SidecarFile  = "mediator.yaml"
	TriggerFile  = "trigger.yaml"
	ControlFile  = "control.yaml"
	// ReputationFile configures the node. A stack without it has no node.
	ReputationFile = "reputation.yaml"

	// EarlierFolder has a folder for each earlier start, with the public files of its roots.
	EarlierFolder = "earlier"
	// CAFolder has the interception CA with its key, which outlives a restart unless the configuration names another
	// folder.
	CAFolder = "ca"
)

const node = "reputation"

// configurations are the processes' files. startOrder is the order of their start; Stop ends them in reverse.
var (
	configurations = map[string]string{"trigger": TriggerFile, "control": ControlFile, node: ReputationFile,
		"serve": SidecarFile}
	startOrder = []string{"trigger", node, "control", "serve"}
)

func (s *Stack) names() []string {
	_, err := os.Stat(filepath.Join(s.Dir, ReputationFile))
	without := errors.Is(err, fs.ErrNotExist)
	return slices.DeleteFunc(slices.Clone(startOrder), func(name string) bool { return name == node && without })
}

// Endpoints returns the internal endpoints of the stack's processes.
func (s *Stack) Endpoints() (all []string) {
	for _, name := range s.names() {
		all = append(all, "unix:"+s.Socket(name))
	}
	return all
}

// Prepare makes a stack's folder and writes the missing files. Other users can reach only the CA's certificate in it.
func Prepare(dir string, content map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	for _, sub := range []string{"run", "state", "secrets", "events", "reputation"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	for name, raw := range content {
		if err := files.WriteAbsent(filepath.Join(dir, name), raw); err != nil {
			return err
		}
	}
	return MakeWebhookSecret(filepath.Join(dir, "secrets", "webhook"))
}

// MakeWebhookSecret writes a new secret for webhooks, unless the file is there.
func MakeWebhookSecret(path string) error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails; see evidence.NewID
	return files.WriteAbsent(path, []byte("whsec_"+base64.StdEncoding.EncodeToString(secret)))
}

package config

import (
	"fmt"
	"reflect"
	"time"

	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
)

// fileKind is a kind of files that [CheckFile] knows. It recognises each by its keys.
type fileKind struct {
	schema string // for [Schema], if there is one
	name   string
	keys   reflect.Type
	load   func(path string, raw []byte, secrets bool) (any, error)
}

var fileKinds = []fileKind{
	kind[Sidecar]("serve", "sidecar (mediator serve)"),
	kind[Trigger]("trigger", "trigger service (mediator trigger)"),
	kind[Control]("control", "control plane (mediator control)"),
	kind[Reputation]("reputation", "node (mediator reputation)"),
	kind[Client]("client", "operator's client"),
	kind[Console]("console", "console (mediator console)"),
	kind[Contexts]("contexts", "file of contexts"),
	kind[Registrar]("registrar", "registrar (mediator registrar)"),
	kind[RootKey]("root", "root key"),
	{"", "policy file", reflect.TypeFor[decide.File](), func(path string, _ []byte, _ bool) (any, error) {
		return deployed.ReadRules(path)
	}},
	{"", "deployment manifest", reflect.TypeFor[policy.Manifest](), func(path string, _ []byte, _ bool) (any, error) {
		return deployed.ReadManifest(path)
	}},
}

func kind[C any, P Configuration[C]](schema, name string) fileKind {
	return fileKind{schema, name, reflect.TypeFor[C](), func(path string, raw []byte, secrets bool) (any, error) {
		return parse[C, P](path, raw, secrets)
	}}
}

// Checked is a file that has been checked.
type Checked struct {
	Kind     string         // empty for a file of no known kind
	Warnings []Warning      // a process goes on with them
	Issues   []policy.Issue // what a manifest lacks; then there is an error
	Sidecar  *Sidecar       // nil for a file of another kind
}

// CheckFile reads a configuration, policy or manifest file as the processes would. Without secrets, it reads no file of
// a secret.
func CheckFile(path string, secrets bool) (Checked, error) {
	which, raw, err := readKind(path)
	if err != nil {
		return Checked{}, err
	}
	checked := Checked{Kind: fileKinds[which].name}
	read, err := fileKinds[which].load(path, raw, secrets)
	if c, ok := read.(*Sidecar); ok && err == nil {
		checked.Sidecar, checked.Warnings = c, append(c.Warnings, c.judgeRules(time.Now())...)
		err = c.checkManifest()
	}
	if r, ok := read.(*decide.Rules); ok && err == nil && !r.Allows() {
		checked.Warnings = []Warning{{"policy_allows_nothing", "rules",
			"no rule has effect: allow, so every post is refused"}}
	}
	if m, ok := read.(*policy.Manifest); ok && err == nil {
		checked.Issues = m.Audit()
		_, _, err = deployed.ReadAuditedManifest(path)
	}
	return checked, err
}

func readKind(path string) (which int, raw []byte, err error) {
	if raw, err = files.Read(path); err != nil {
		return 0, nil, err
	}
	which, err = strict.Which(raw, len(fileKinds), func(i int) reflect.Type { return fileKinds[i].keys })
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", path, err)
	}
	return which, raw, nil
}

// PinnedHash returns the hash by which manifests and records name a file: a manifest, a policy file, or a sidecar's
// configuration together with this binary.
func PinnedHash(path string) (string, error) {
	which, raw, err := readKind(path)
	if err != nil {
		return "", err
	}
	switch fileKinds[which].keys {
	case reflect.TypeFor[policy.Manifest]():
		m, err := deployed.ReadManifest(path)
		if err != nil {
			return "", err
		}
		return m.Hash(), nil
	case reflect.TypeFor[decide.File]():
		rules, err := deployed.ReadRules(path)
		if err != nil {
			return "", err
		}
		return rules.Hash(), nil
	case reflect.TypeFor[Sidecar]():
		return deployed.EnvironmentHash(raw)
	}
	return "", fmt.Errorf("%s is the configuration of a %s: manifests pin no hash of it", path, fileKinds[which].name)
}

package config

import (
	"fmt"
	"reflect"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/policy/decide"
)

// fileKinds are the files that [CheckFile] knows. It recognises each by its keys.
var fileKinds = []struct {
	name  string
	keys  reflect.Type
	check func(path string) ([]Warning, error)
}{
	{"sidecar (mediator serve)", reflect.TypeFor[Sidecar](), func(path string) ([]Warning, error) {
		c, err := LoadSidecar(path)
		if err != nil {
			return nil, err
		}
		return c.Warnings, nil
	}},
	{"trigger service (mediator trigger)", reflect.TypeFor[Trigger](), only(LoadTrigger)},
	{"control plane (mediator control)", reflect.TypeFor[Control](), only(LoadControl)},
	{"node (mediator reputation)", reflect.TypeFor[Reputation](), only(LoadReputation)},
	{"root key", reflect.TypeFor[RootKey](), only(LoadRootKey)},
	{"policy file", reflect.TypeFor[decide.File](), only(ReadRules)},
	{"deployment manifest", reflect.TypeFor[policy.Manifest](), func(path string) ([]Warning, error) {
		_, _, err := ReadAuditedManifest(path)
		return nil, err
	}},
}

// only makes a check of a load that has no warnings.
func only[C any](load func(path string) (C, error)) func(path string) ([]Warning, error) {
	return func(path string) ([]Warning, error) {
		_, err := load(path)
		return nil, err
	}
}

// CheckFile reads a configuration, policy or manifest file as the processes would, and returns its kind. A process
// would log the warnings and go on.
func CheckFile(path string) (kind string, warnings []Warning, err error) {
	which, _, err := readKind(path)
	if err != nil {
		return "", nil, err
	}
	warnings, err = fileKinds[which].check(path)
	return fileKinds[which].name, warnings, err
}

// readKind reads a file, and returns the index of its kind.
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

// PinnedHash returns the hash by which manifests and records name a file: a manifest, a policy file, or the
// configuration of a sidecar, whose hash is that of the environment with this binary.
func PinnedHash(path string) (string, error) {
	which, raw, err := readKind(path)
	if err != nil {
		return "", err
	}
	switch fileKinds[which].keys {
	case reflect.TypeFor[policy.Manifest]():
		m, err := ReadManifest(path)
		if err != nil {
			return "", err
		}
		return m.Hash(), nil
	case reflect.TypeFor[decide.File]():
		rules, err := ReadRules(path)
		if err != nil {
			return "", err
		}
		return rules.Hash(), nil
	case reflect.TypeFor[Sidecar]():
		return EnvironmentHash(raw)
	}
	return "", fmt.Errorf("%s is the configuration of a %s: manifests pin no hash of it", path, fileKinds[which].name)
}

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

// CheckFile reads a configuration, policy or manifest file as the processes would, and returns its kind. A process would
// log the warnings and go on.
func CheckFile(path string) (kind string, warnings []Warning, err error) {
	raw, err := files.Read(path)
	if err != nil {
		return "", nil, err
	}
	which, err := strict.Which(raw, len(fileKinds), func(i int) reflect.Type { return fileKinds[i].keys })
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	warnings, err = fileKinds[which].check(path)
	return fileKinds[which].name, warnings, err
}

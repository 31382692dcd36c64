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
	{"sidecar (mediator serve)", reflect.TypeFor[Sidecar](), checkSidecarFile},
	{"trigger service (mediator trigger)", reflect.TypeFor[Trigger](), func(path string) ([]Warning, error) { _, err := LoadTrigger(path); return nil, err }},
	{"control plane (mediator control)", reflect.TypeFor[Control](), func(path string) ([]Warning, error) { _, err := LoadControl(path); return nil, err }},
	{"node (mediator reputation)", reflect.TypeFor[Reputation](), func(path string) ([]Warning, error) { _, err := LoadReputation(path); return nil, err }},
	{"root key", reflect.TypeFor[RootKey](), func(path string) ([]Warning, error) { _, err := LoadRootKey(path); return nil, err }},
	{"policy file", reflect.TypeFor[decide.File](), func(path string) ([]Warning, error) { _, err := ReadRules(path); return nil, err }},
	{"deployment manifest", reflect.TypeFor[policy.Manifest](), func(path string) ([]Warning, error) { _, _, err := ReadAuditedManifest(path); return nil, err }},
}

func checkSidecarFile(path string) ([]Warning, error) {
	c, err := LoadSidecar(path)
	if err != nil {
		return nil, err
	}
	return c.Warnings, nil
}

// CheckFile reads a configuration, policy or manifest file as the processes would, and says which of them it is. The warnings are what a
// process would say in its log before it goes on.
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

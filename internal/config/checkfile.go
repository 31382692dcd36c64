package config

import (
	"bytes"
	"fmt"

	"github.com/actionproof/mediator/internal/files"
)

// fileKinds are the files that [CheckFile] knows. It recognises each by a key that no other has.
var fileKinds = []struct {
	name  string
	key   string
	check func(path string) ([]Warning, error)
}{
	{"sidecar (mediator serve)", "runtime:", checkSidecarFile},
	{"trigger service (mediator trigger)", "sources:", func(path string) ([]Warning, error) { _, err := LoadTrigger(path); return nil, err }},
	{"control plane (mediator control)", "policy:", func(path string) ([]Warning, error) { _, err := LoadControl(path); return nil, err }},
	{"node (mediator reputation)", "owners:", func(path string) ([]Warning, error) { _, err := LoadReputation(path); return nil, err }},
	{"root key", "purpose:", func(path string) ([]Warning, error) { _, err := LoadRootKey(path); return nil, err }},
	{"policy file", "rules:", func(path string) ([]Warning, error) { _, err := ReadRules(path); return nil, err }},
	{"deployment manifest", "deploymentId:", func(path string) ([]Warning, error) { _, _, err := ReadAuditedManifest(path); return nil, err }},
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
	for _, k := range fileKinds {
		if bytes.HasPrefix(raw, []byte(k.key)) || bytes.Contains(raw, []byte("\n"+k.key)) {
			warnings, err = k.check(path)
			return k.name, warnings, err
		}
	}
	return "", nil, fmt.Errorf("%s: it is no configuration, policy or manifest file: none of their top-level keys is there", path)
}

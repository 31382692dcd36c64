// Package manifest reads deployment manifests in YAML. Verifiers read JSON with [policy.ParseManifest], and need no
// YAML library.
package manifest

import (
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/policy"
)

// Parse reads one manifest of at most 256 KiB, in YAML or JSON. It refuses an unknown, missing or repeated key, a value
// of another type (yes is no boolean) or a second document as config_malformed, and names every mistake with its line.
func Parse(raw []byte) (*policy.Manifest, error) {
	var m policy.Manifest
	f, err := strict.Read(raw, &m, strict.Options{Complete: true, JSON: true, MaxBytes: policy.MaxFile})
	if err == nil {
		err = f.Err("")
	}
	if err != nil {
		return nil, refusal.New("config_malformed", "the manifest is malformed: %w", err)
	}
	return &m, nil
}

package registrar

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/policy"
)

// rulesFile is the name of the rules in a ConfigMap of the Helm chart.
const rulesFile = "rules.yaml"

// ReadRendered reads what helm template prints: the files of [ReadSource] are the data of the one ConfigMap that has
// rules.yaml.
func ReadRendered(in io.Reader, now time.Time, also ...string) (out evidence.RegistrarRules,
	manifests []*policy.Manifest, err error) {
	raw, err := files.ReadAll(in, "what helm template printed", files.MaxInput)
	if err != nil {
		return out, nil, err
	}
	data, err := filesIn(raw)
	if err != nil {
		return out, nil, fmt.Errorf("the rendered chart: %w", err)
	}
	dir, err := os.MkdirTemp("", "mediator-sign-")
	if err != nil {
		return out, nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range data {
		if filepath.Base(name) != name || !filepath.IsLocal(name) {
			return out, nil, fmt.Errorf("the rendered chart: %q is not the name of a file", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return out, nil, err
		}
	}
	return ReadSource(filepath.Join(dir, rulesFile), now, also...)
}

// filesIn returns the data of the ConfigMap that has rules.yaml. Other objects may be anything.
func filesIn(raw []byte) (found map[string]string, err error) {
	documents, err := yaml.NewLoader(bytes.NewReader(raw))
	for err == nil {
		var object struct {
			Kind string
			Data yaml.Node
		}
		if err = documents.Load(&object); err != nil || object.Kind != "ConfigMap" || object.Data.Kind == 0 {
			continue
		}
		var data map[string]string
		if err = object.Data.Decode(&data); err != nil {
			continue
		}
		switch _, has := data[rulesFile]; {
		case has && found != nil:
			return nil, errors.New("two ConfigMaps have rules.yaml: render one release")
		case has:
			found = data
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return nil, err
	case found == nil:
		return nil, errors.New("no ConfigMap has rules.yaml: give the output of helm template")
	}
	return found, nil
}

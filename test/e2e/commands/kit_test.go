package commands

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func TestMain(m *testing.M) { kit.Main(m, nil) }

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../../configs")
	check.Must(t, err)
	chain := writeEvidence(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("EXAMPLES", examples)
		e.Setenv("EVIDENCE", chain)
		e.Setenv("GORACE", os.Getenv("GORACE"))
		return nil
	}})
}

package commands

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../../configs")
	if err != nil {
		t.Fatal(err)
	}
	chain := writeEvidence(t)
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: func(e *testscript.Env) error {
		e.Setenv("EXAMPLES", examples)
		e.Setenv("EVIDENCE", chain)
		e.Setenv("GORACE", os.Getenv("GORACE"))
		return nil
	}})
}

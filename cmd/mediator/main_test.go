package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/internal/program"
)

const (
	exitDone    = program.Done
	exitRefused = program.Refused
	exitUsage   = program.Usage
)

var run, rootCommand = program.Run, program.Command

// TestMain lets the test binary be the program too: a stack and the demo start their processes from the running executable. With the race
// detector a process sleeps a second before it ends, which those that tests start, by the hundred and one after another, do without.
func TestMain(m *testing.M) {
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve", "trigger", "control", "reputation", "looker", "inside", "demo", "run", "dev", "guard", "score":
			program.Main()
		case "way":
			os.Exit(runWay(os.Args[2]))
		case "denied":
			os.Exit(runDenied(os.Args[2], os.Args[3:]))
		}
	}
	testscript.Main(m, map[string]func(){"mediator": program.Main})
}

func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../configs")
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

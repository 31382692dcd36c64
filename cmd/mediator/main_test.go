package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the program too: a stack and the demo start their processes from the running executable. With the race
// detector a process sleeps a second before it ends, which those that tests start, by the hundred and one after another, do without.
func TestMain(m *testing.M) {
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	program := func() {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "serve", "trigger", "control", "reputation", "looker", "inside", "demo", "run", "dev", "guard", "score":
			program()
		case "way":
			os.Exit(runWay(os.Args[2]))
		case "denied":
			os.Exit(runDenied(os.Args[2], os.Args[3:]))
		}
	}
	testscript.Main(m, map[string]func(){"mediator": program})
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

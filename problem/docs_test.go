package problem_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/problem"
)

var update = flag.Bool("update", false, "write docs/errors.md")

// TestDocsErrors compares docs/errors.md with the table; -update writes it.
func TestDocsErrors(t *testing.T) {
	const path = "../docs/errors.md"
	want := page()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/errors.md is not what the table says: run make docs")
	}
}

func page() string {
	var b strings.Builder
	b.WriteString("# Errors\n\nMade from the table of codes by `make docs`; do not edit it by hand. Every refusal is an RFC 9457 problem (`application/problem+json`) with a stable\n`code`, the `step` of the way that refused, a `detail` for this occurrence, and the id of its record (`post`).\n")
	step := ""
	for _, c := range problem.Codes() {
		if c.Step != step {
			step = c.Step
			fmt.Fprintf(&b, "\n## Step: %s\n", step)
		}
		retry := ""
		if c.RetryAfter > 0 {
			retry = fmt.Sprintf(" Retry after %d s.", c.RetryAfter)
		}
		fmt.Fprintf(&b, "\n### %s\n\n%d. %s. %s%s\n", c.Name, c.Status, c.Title, c.Remedy, retry)
	}
	return b.String()
}

func TestFromTellsNothingOfWhatNobodyClassified(t *testing.T) {
	d := problem.From(fmt.Errorf("dial 10.0.0.1: password hunter2"))
	if d.Code != "internal" || strings.Contains(d.Detail, "hunter2") || strings.Contains(d.Detail, "10.0.0.1") {
		t.Errorf("got %+v", d)
	}
}

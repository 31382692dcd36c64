package python_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// TestExport: python -m actionproof verify refuses the same records of an export, for the same reason.
func TestExport(t *testing.T) {
	kit := gatetest.New(t)
	dir := t.TempDir()
	f := kit.Files(t, dir)
	own, err := archive.Read(config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}, f.Manifest)
	check.Must(t, err)
	whole := kit.Post(t)
	drop := func(r *ledger.Record, names ...string) {
		r.Artifacts = slices.DeleteFunc(slices.Clone(r.Artifacts),
			func(a ledger.Artifact) bool { return slices.Contains(names, a.Name) })
	}
	edits := []func(*ledger.Record){
		func(*ledger.Record) {}, func(r *ledger.Record) { r.Method = "PUT" }, func(r *ledger.Record) { r.Path = "/x" },
		func(r *ledger.Record) { r.Message = "x" }, func(r *ledger.Record) { r.Subject = "x" },
		func(r *ledger.Record) { r.Session = "x" }, func(r *ledger.Record) { r.Event = "x" },
		func(r *ledger.Record) { r.CapabilityID = "x" }, func(r *ledger.Record) { r.Manifest = "" },
		func(r *ledger.Record) { r.Flow = "read" }, func(r *ledger.Record) { r.Learning = true },
		func(r *ledger.Record) { r.Started = r.Started.Add(2 * time.Hour) },
		func(r *ledger.Record) { r.Started = r.Started.Add(-2 * time.Hour) },
		func(r *ledger.Record) { r.Finished = r.Finished.Add(-time.Millisecond) },
		func(r *ledger.Record) { r.Interactions = &ledger.Standing{} }, func(r *ledger.Record) { r.ID = "post_1" },
		func(r *ledger.Record) { r.Artifacts[0].Token = "x" }, func(r *ledger.Record) { drop(r, "originProof") },
		func(r *ledger.Record) { drop(r, "requestProof") },
		func(r *ledger.Record) { drop(r, "requestProof"); r.State, r.CapabilityID = ledger.StateRefused, "" },
		func(r *ledger.Record) {
			drop(r, "policyDecision", "grant", "requestProof", "capability")
			r.State = ledger.StateRefused
		},
	}
	for i := range whole.Artifacts { // each of another post
		edits = append(edits, func(r *ledger.Record) { r.Artifacts[i].Token = whole.Artifacts[i].Token })
	}
	records := []ledger.Record{whole}
	for _, edit := range edits {
		r := kit.Post(t)
		edit(&r)
		records = append(records, r)
	}
	var text bytes.Buffer
	_, err = archive.Export(t.Context(), &text, archive.Archive{own}, list(records), nil, nil)
	check.Must(t, err)

	var want []string
	count := make(map[archive.Outcome]int)
	r, err := archive.NewReader(bufio.NewReader(bytes.NewReader(text.Bytes())))
	check.Must(t, err)
	judge := r.Archive().Pinned(archive.Archive{own}).NewJudge(nil, time.Now())
	for j, err := range judge.Records(t.Context(), r.Records()) {
		check.Must(t, err)
		if count[j.Outcome]++; j.Outcome == archive.Refused {
			want = append(want, fmt.Sprintf("%s REFUSED at %s, %s", j.Record.ID, j.Check, j.Code))
		}
	}
	want = append(want, fmt.Sprintf("Authentic:   %d verified, %d incomplete", count[archive.Verified],
		count[archive.Incomplete]))
	if count[archive.Verified] == 0 || count[archive.Incomplete] == 0 || len(want) < 20 {
		t.Fatalf("%v, %q", count, want)
	}
	out, code := verify(t, f.Registry, f.Auditor, text.Bytes())
	got := strings.Split(out, "\n")
	for i, line := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], line) {
			t.Fatalf("line %d: want %s, in\n%s", i, line, out)
		}
	}
	for _, name := range []string{"\nUntampered:", "\nWitnessed:", "\nComplete:"} {
		if !strings.Contains(out, name) {
			t.Errorf("%s is missing in %s", name, out)
		}
	}
	check.WantEqual(t, code, 1)

	text.Reset()
	_, err = archive.Export(t.Context(), &text, archive.Archive{own}, list(records[:1]), nil, nil)
	check.Must(t, err)
	out, code = verify(t, f.Registry, f.Auditor, text.Bytes())
	check.WantEqual(t, code, 0)
	_, code = verify(t, f.Auditor, f.Registry, text.Bytes())
	check.WantEqual(t, code, 1)
	_, code = verify(t, f.Registry, f.Auditor, text.Bytes()[:text.Len()/2])
	check.WantEqual(t, code, 1)
	_, code = verify(t, f.Registry, "missing", text.Bytes())
	check.WantEqual(t, code, 2)
	if !strings.HasPrefix(out, `Authentic:   1 verified, 0 incomplete (their records say that the post was refused), 0 REFUSED
Untampered:  not known: no record of 1 is proven to be in the log that --log-policy names
Witnessed:   no: the operator's word
Complete:    not known: give mediator verify --log and --log-policy`) {
		t.Error(out)
	}
}

func verify(t *testing.T, registry, auditor string, export []byte) (out string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "post.jsonl.gz")
	f, err := os.Create(path)
	check.Must(t, err)
	z := gzip.NewWriter(f)
	_, err = z.Write(export)
	check.Must(t, errors.Join(err, z.Close(), f.Close()))
	cmd := exec.CommandContext(t.Context(), python, "-m", "actionproof", "verify", path, "--registry", registry,
		"--auditor", auditor)
	cmd.Dir = filepath.Join(root, "src")
	var said strings.Builder
	cmd.Stderr = &said
	raw, _ := cmd.Output()
	t.Logf("%d %s", cmd.ProcessState.ExitCode(), &said)
	return string(raw), cmd.ProcessState.ExitCode()
}

func list(records []ledger.Record) iter.Seq2[ledger.Record, error] {
	return func(yield func(ledger.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

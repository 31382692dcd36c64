package auditexport_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/leaktest"
	"github.com/actionproof/mediator/test/ledgertest"
)

const (
	// victimVariable makes the test binary record and export calls in this folder until it is killed.
	victimVariable = "AUDITEXPORT_VICTIM"
	// collectorVariable makes it export to the collector at this URL, and not to a file.
	collectorVariable = "AUDITEXPORT_COLLECTOR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimVariable); dir != "" {
		victim(dir)
	}
	leaktest.Main(m)
}

func fail(err error) {
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
}

// victim prints the id of each call that the ledger has taken. Now and then it kills itself between the write to the
// file and the note of it in the ledger.
func victim(dir string) {
	e, l := exporting(dir, os.Getenv(collectorVariable))
	go e.Run(context.Background(), l)
	for i := range 1_000_000 {
		id := fmt.Sprintf("post_%d_%06d", os.Getpid(), i)
		fail(l.Add(context.Background(), refused(id)))
		fmt.Println(id)
	}
}

func refused(id string) ledger.Record {
	return ledger.Record{ID: id, Flow: "post", State: ledger.StateRefused, Rule: "create", Code: "policy_denied",
		Started: time.Now(), Finished: time.Now()}
}

// exporting opens the ledger in dir, and an exporter of it to a file there or to a collector.
func exporting(dir, collector string) (*auditexport.Exporter, *sqlite.Ledger) {
	e := auditexport.New(zap.NewNop(), prometheus.NewRegistry())
	l, err := sqlite.Open(context.Background(), filepath.Join(dir, "ledger.db"),
		sqlite.Options{Now: time.Now, Ended: e.Wake})
	fail(err)
	if collector == "" {
		e.Use(killing{auditexport.NewFile(filepath.Join(dir, "audit.jsonl"), auditexport.Formats["json"])})
	} else {
		e.Use(killing{auditexport.NewLogs(otlp.Collector{Endpoint: collector}, auditexport.Formats["json"])})
	}
	return e, l
}

// killing kills the process after every third batch that it wrote.
type killing struct{ auditexport.Destination }

// Write writes the records.
func (k killing) Write(ctx context.Context, records []ledger.Export) error {
	err := k.Destination.Write(ctx, records)
	if err == nil && os.Getenv(victimVariable) != "" && rand.N(3) == 0 {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	return err
}

// TestKilledExport kills the process again and again, tears the last line, and renames the file away. In the end each
// call that the ledger took is in the files exactly once.
func TestKilledExport(t *testing.T) {
	const torn = `{"id":"post_torn`
	dir := t.TempDir()
	var taken []string
	for round := range 12 {
		taken = append(taken, kill(t, dir, "")...)
		switch path := filepath.Join(dir, "audit.jsonl"); round % 3 {
		case 0:
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
			check.Must(t, err)
			_, err = f.WriteString(torn)
			check.Must(t, err, f.Close())
		case 1:
			raw, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) || strings.HasSuffix(string(raw), torn) { // killed before it opened the file
				continue
			}
			check.Must(t, err, os.Rename(path, fmt.Sprint(path, ".", round)))
		}
	}
	drain(t, dir, "")
	seen := make(map[string]int)
	names, err := filepath.Glob(filepath.Join(dir, "audit.jsonl*"))
	check.Must(t, err)
	for _, name := range names {
		for _, id := range ids(t, name) {
			seen[id]++
		}
	}
	for _, id := range taken {
		if seen[id] == 0 {
			t.Errorf("%s is lost", id)
		}
	}
	for id, n := range seen {
		if n > 1 {
			t.Errorf("%s is there %d times", id, n)
		}
	}
	t.Logf("%d calls in %d files", len(seen), len(names))
}

// kill runs a victim and kills it, unless it does so itself. It returns the calls that the ledger took.
func kill(t *testing.T, dir, collector string) (taken []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), victimVariable+"="+dir, collectorVariable+"="+collector)
	out, err := cmd.StdoutPipe()
	check.Must(t, err, cmd.Start())
	stop := 1 + rand.N(400)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "error") {
			t.Fatal(lines.Text())
		}
		taken = append(taken, lines.Text())
		if stop--; stop == 0 {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	return taken
}

// drain exports what is left.
func drain(t *testing.T, dir, collector string) {
	t.Helper()
	e, l := exporting(dir, collector)
	ctx, cancel := context.WithCancel(t.Context())
	e.Run(ctx, drained{l, cancel})
	check.Must(t, l.Close())
}

// drained calls all when nothing is left to export.
type drained struct {
	ledger.Exports
	all func()
}

// Unexported returns records.
func (d drained) Unexported(ctx context.Context, limit int) ([]ledger.Export, error) {
	records, err := d.Exports.Unexported(ctx, limit)
	if err == nil && len(records) == 0 {
		d.all()
	}
	return records, err
}

func ids(t *testing.T, path string) (all []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	for line := range bytes.Lines(raw) {
		var r ledger.Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		all = append(all, r.ID)
	}
	return all
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	write := func(f *auditexport.File, names ...string) error {
		var all []ledger.Export
		for _, id := range names {
			all = append(all, ledgertest.ExportOf(t, refused(id)))
		}
		return f.Write(t.Context(), all)
	}
	f := auditexport.NewFile(path, auditexport.Formats["json"])
	check.Must(t, write(f, "a", "b"), write(f, "b", "c")) // b was not noted as exported
	check.WantEqual(t, strings.Join(ids(t, path), " "), "a b c")
	if err := write(auditexport.NewFile(path, auditexport.Formats["json"]), "d"); err == nil {
		t.Error("two processes write the file")
	}
	check.Must(t, os.Rename(path, path+".1"), write(f, "c", "d")) // renamed between the write and its note
	check.WantEqual(t, strings.Join(ids(t, path), " "), "d")
	check.Must(t, os.Remove(path), write(f, "e"), f.Close(), f.Close())
	check.WantEqual(t, strings.Join(ids(t, path), " "), "e")

	f = auditexport.NewFile(path, auditexport.Formats["json"]) // after a crash between the write of e and its note
	for i := range 10 {
		older := make([]string, 256) // calls that began before e, and that the crash has ended
		for j := range older {
			older[j] = fmt.Sprintf("older_%d_%d", i, j)
		}
		check.Must(t, write(f, older...))
	}
	check.Must(t, write(f, "e", "f"), f.Close())
	if all := ids(t, path); all[0] != "e" || len(all) != 2562 || all[2561] != "f" {
		t.Errorf("%d records, the last is %s", len(all), all[len(all)-1])
	}

	f = auditexport.NewFile(path, auditexport.Formats["json"]) // after a crash, and a rotation in vain
	check.Must(t, os.Rename(path, path+".2"), os.WriteFile(path, []byte(`{"id":"torn`), 0o600),
		os.Rename(path, path+".3"), write(f, "f", "g"), f.Close())
	check.WantEqual(t, strings.Join(ids(t, path), " "), "g")

	f = auditexport.NewFile(path, auditexport.Formats["json"]) // after two crashes, and two rotations
	check.Must(t, os.Rename(path, path+".6"), write(f, "h"), f.Close(), os.Rename(path, path+".7"), write(f, "g", "h"),
		f.Close())
	check.WantEqual(t, strings.Join(ids(t, path), " "), "")

	f = auditexport.NewFile(path, auditexport.Formats["json"]) // beside compressed files, which are not searched
	check.Must(t, os.Rename(path, path+".4"), os.WriteFile(path+".5.gz", []byte("\x1f\x8b\n"), 0o600), write(f, "g"),
		f.Close())
	check.WantEqual(t, strings.Join(ids(t, path), " "), "g")

	full := auditexport.NewFile("/dev/full", auditexport.Formats["json"])
	if err := write(full, "a"); err == nil {
		t.Error("a full disk takes records")
	}
	check.Must(t, full.Close())
	if err := write(auditexport.NewFile(filepath.Join(dir, "absent", "f"), auditexport.Formats["json"]), "a"); err == nil {
		t.Error("a folder that is not there takes records")
	}
}

// TestReplaced replaces a destination that fails or hangs: neither delays Use, and the records go to the next one at
// once.
func TestReplaced(t *testing.T) {
	e := auditexport.New(zap.NewNop(), prometheus.NewRegistry())
	hanging := hanging{began: make(chan struct{}), end: make(chan struct{})}
	e.Use(hanging)
	ctx, cancel := context.WithCancel(t.Context())
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: time.Now, Ended: e.Wake})
	check.Must(t, err)
	defer l.Close()
	check.Must(t, l.Add(ctx, refused("post_1")))
	done := make(chan struct{})
	go func() { defer close(done); e.Run(ctx, drained{l, cancel}) }()
	<-hanging.began
	e.Use(auditexport.NewFile(path, auditexport.Formats["json"]))
	close(hanging.end)
	<-done
	check.WantEqual(t, strings.Join(ids(t, path), " "), "post_1")
}

// hanging is a destination whose Write waits for end, and fails.
type hanging struct{ began, end chan struct{} }

// Write fails.
func (h hanging) Write(context.Context, []ledger.Export) error {
	close(h.began)
	<-h.end
	return errors.New("failed")
}

// Close does nothing.
func (hanging) Close() error { return nil }

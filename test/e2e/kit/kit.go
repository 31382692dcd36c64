// Package kit is what the tests of the whole program share. A test binary whose TestMain calls [Main] is also the
// program, so that deployments run real processes, with the race detector where the tests have it.
package kit

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
	"github.com/actionproof/mediator/test/vaulttest"
)

// Top is the top folder of the source, seen from a package of these tests. Scripts holds what agents run, seen from
// Top.
const (
	Top     = "../../.."
	Scripts = "test/e2e/testdata/"
)

// Patience bounds the wait for what follows soon. A busy machine takes long, so it only ends a broken test.
const Patience = 5 * time.Minute

var long = flag.Bool("long", false, "play the long forms, as make plays does")

// Long reports whether plays have their long form.
func Long() bool { return *long }

// Size returns how much of something a play needs: short in make test, long in make plays.
func Size(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// Main runs the tests of a package. If the first argument is no flag, the process becomes the program instead, or the
// helper of that name.
func Main(m *testing.M, helpers map[string]func(args []string) int) {
	// With the race detector a process sleeps for a second before it ends, and the tests start hundreds.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		if helper := helpers[os.Args[1]]; helper != nil {
			os.Exit(helper(os.Args[2:]))
		}
		program.Main()
	}
	testscript.Main(withShared{m}, map[string]func(){"mediator": program.Main})
}

// withShared runs tests and then ends what they shared.
type withShared struct{ *testing.M }

func (m withShared) Run() int {
	status := m.M.Run()
	for _, end := range shared.end {
		end()
	}
	return status
}

// shared is what the tests of a package have in common, made when the first test needs it.
var shared struct {
	sync.Mutex
	programs map[string]string // by their build tags
	postgres *pgtest.Server
	vaults   []*vaulttest.Server // that no test uses now
	end      []func()
}

// Program returns the path of the program built as it is released, or with these build tags.
func Program(t *testing.T, tags ...string) string {
	t.Helper()
	full.Only(t, "time to build the program")
	shared.Lock()
	defer shared.Unlock()
	key := strings.Join(tags, ",")
	if path := shared.programs[key]; path != "" {
		return path
	}
	dir, err := os.MkdirTemp("", "program")
	check.Must(t, err)
	shared.end = append(shared.end, func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "mediator")
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-tags=" + key, "-o", path,
		"./cmd/mediator"}
	build := exec.Command("go", args...) // with the flags of make build, which has compiled most of it
	build.Dir, build.Env = Top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if shared.programs == nil {
		shared.programs = make(map[string]string)
	}
	shared.programs[key] = path
	return path
}

// Database returns a new database in the PostgreSQL server of the package. A test that ends its server starts its own.
func Database(t *testing.T) (dsn string) {
	t.Helper()
	full.Only(t, "PostgreSQL")
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		server, err := pgtest.Launch()
		check.Must(t, err)
		shared.postgres = server
		shared.end = append(shared.end, func() {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	return shared.postgres.Database(t)
}

// Vault returns an empty Vault server that no other test uses meanwhile. A test that passes gives it back as it was:
// up, unsealed, and able to log.
func Vault(t *testing.T) *vaulttest.Server {
	t.Helper()
	full.Only(t, "a Vault server")
	shared.Lock()
	defer shared.Unlock()
	var v *vaulttest.Server
	if n := len(shared.vaults); n > 0 {
		v, shared.vaults = shared.vaults[n-1], shared.vaults[:n-1]
		v.Reset(t)
	} else {
		var err error
		v, err = vaulttest.Launch()
		check.Must(t, err)
		shared.end = append(shared.end, v.Close)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the Vault server's log:\n%s", v.EndOfLog())
			return
		}
		shared.Lock()
		defer shared.Unlock()
		shared.vaults = append(shared.vaults, v)
	})
	return v
}

// Self returns the path of the test binary.
func Self(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	return self
}

// Ended is how a command ended.
type Ended struct {
	Status    int
	Out, Said string // on standard output, and on standard error

	t    *testing.T
	line string
}

// Mediator runs the program's command line in this process.
func Mediator(t *testing.T, args ...string) Ended {
	t.Helper()
	return MediatorReading(t, "", args...)
}

// MediatorReading is Mediator with a standard input.
func MediatorReading(t *testing.T, stdin string, args ...string) Ended {
	t.Helper()
	var out, said bytes.Buffer
	status := program.Run(t.Context(), args, strings.NewReader(stdin), &out, &said)
	return Ended{status, out.String(), said.String(), t, strings.Join(args, " ")}
}

// Done fails the test unless the command succeeded and printed these texts. It returns the command.
func (e Ended) Done(texts ...string) Ended {
	e.t.Helper()
	return e.want(program.Done, texts)
}

// Refused fails the test unless the command was refused and printed these texts. It returns the command.
func (e Ended) Refused(texts ...string) Ended {
	e.t.Helper()
	return e.want(program.Refused, texts)
}

// Misused fails the test unless the command had wrong arguments. It returns the command.
func (e Ended) Misused() Ended {
	e.t.Helper()
	return e.want(program.Usage, nil)
}

func (e Ended) want(status int, texts []string) Ended {
	e.t.Helper()
	missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		return strings.Contains(e.Out+e.Said, text)
	})
	if e.Status != status || len(missing) > 0 {
		e.t.Errorf("mediator %s: status %d, want %d with %q:\n%s%s", e.line, e.Status, status, missing, e.Out, e.Said)
	}
	return e
}

// Run runs a command that has to succeed.
func Run(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	e := Mediator(t, args...)
	if e.Status != program.Done {
		t.Fatalf("mediator %s: status %d\n%s%s", e.line, e.Status, e.Out, e.Said)
	}
	return e.Out
}

// Background runs a command that ends only when it is stopped, and returns what it printed.
func Background(t *testing.T, args ...string) (stop func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan string, 1)
	go func() {
		var out bytes.Buffer
		program.Run(ctx, args, strings.NewReader(""), &out, &out)
		done <- out.String()
	}()
	return func() string {
		cancel()
		return <-done
	}
}

// Until waits until a condition holds. It returns how long that took.
func Until(t *testing.T, what string, holds func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	if !Eventually(holds) {
		t.Fatalf("waited %s for %s", time.Since(began), what)
	}
	return time.Since(began)
}

// Eventually reports whether a condition holds within Patience.
func Eventually(holds func() bool) bool {
	for began := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > Patience {
			return false
		}
	}
	return true
}

// Read reads a file.
func Read(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	check.Must(t, err)
	return raw
}

// Write writes a file and the folders above it.
func Write[S ~string | ~[]byte](t *testing.T, path string, content S) {
	t.Helper()
	check.Must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)))
}

// Edit replaces a text that a file contains.
func Edit(t *testing.T, file, old, new string) {
	t.Helper()
	raw := string(Read(t, file))
	if !strings.Contains(raw, old) {
		t.Fatalf("%s does not contain %q", file, old)
	}
	Write(t, file, strings.Replace(raw, old, new, 1))
}

// OpenTo lets other users pass through the folders of a test.
func OpenTo(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		check.Must(t, os.Chmod(d, 0o711)) //nolint:gosec // on purpose
	}
}

// Need returns the path of a program that make setup installs.
func Need(t *testing.T, name string) string {
	t.Helper()
	full.Only(t, "programs that make setup installs")
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run make setup", name)
	}
	return path
}

// NeedRoot fails a test that no other user can run.
func NeedRoot(t *testing.T) {
	t.Helper()
	full.Only(t, "root")
	if os.Geteuid() != 0 {
		t.Fatal("only root can start an agent as another user: run the tests as root")
	}
}

// NodeJS returns a command line for Node, whose fetch follows the proxy's environment.
func NodeJS(t *testing.T, args ...string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(Top, Scripts, "node/node_modules/.ok")); err != nil {
		t.Fatal("Node's packages are not installed: run make setup")
	}
	return append([]string{Need(t, "node"), "--no-warnings", "--import", "./" + Scripts + "node/proxy.mjs"}, args...)
}

// NodeVersion returns the path of a version of Node from the npm registry: node22 or node24.
func NodeVersion(t *testing.T, version string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(Top, Scripts, "node/node_modules", version, "bin/node"))
	check.Must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make setup", err)
	}
	return path
}

// With returns a list with more elements, and leaves the list as it is.
func With[S ~[]E, E any](list S, more ...E) S { return append(slices.Clip(list), more...) }

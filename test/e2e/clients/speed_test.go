package clients

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/differential"
	"github.com/actionproof/mediator/test/e2e/kit"
)

var chains = flag.Int("chains", 5, "how many chains TestSpeed verifies in each language")

// TestSpeed prints how many whole chains each language verifies in a second of CPU: in the fastest tenth of all chains,
// which other processes and a cold start disturb least.
func TestSpeed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chains")
	f, err := os.Create(path)
	check.Must(t, err)
	judges := differential.WriteValid(t, f, *chains)
	check.Must(t, f.Close())

	taken := map[string]float64{"Go": math.Inf(1)} // seconds a chain
	before := runtime.GOMAXPROCS(1)
	for portion := range slices.Chunk(judges, (len(judges)+9)/10) {
		began := cpuTime(t)
		for _, judge := range portion {
			judge()
		}
		taken["Go"] = min(taken["Go"], (cpuTime(t)-began).Seconds()/float64(len(portion)))
	}
	runtime.GOMAXPROCS(before)

	dir, err := filepath.Abs(filepath.Join(kit.Top, "packages"))
	check.Must(t, err)
	build := exec.CommandContext(t.Context(), kit.Need(t, "npm"), "run", "--silent", "build")
	build.Dir = filepath.Join(dir, "typescript")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for language, command := range map[string][]string{
		"TypeScript": {kit.Need(t, "node"), filepath.Join(dir, "typescript/test/speed.mjs"), path},
		"Python":     {"/usr/bin/python3", filepath.Join(dir, "python/tests/speed.py"), path},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(dir, "python/src"), "PYTHONDONTWRITEBYTECODE=1")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		check.Must(t, err)
		taken[language], err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		check.Must(t, err)
	}
	var all []string
	for _, language := range []string{"Go", "TypeScript", "Python"} {
		all = append(all, fmt.Sprintf("%s %.0f", language, 1/taken[language]))
	}
	t.Logf("chains a second of CPU: %s", strings.Join(all, ", "))
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	check.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

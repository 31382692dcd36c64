package clients

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/differential"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/ledgertest/pgtest"
)

var (
	judged    = flag.Int("judged", 2000, "how many requests the packages in other languages judge as the Go gate does")
	judgeSeed = flag.Uint64("judge-seed", 1, "the same seed makes the same faults in these requests")
)

// TestTypeScript runs the tests of packages/typescript, which also judge requests as the Go gate does, and use evidence
// up in a PostgreSQL database.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	npm := kit.Need(t, "npm")
	kit.Need(t, "redis-server")
	folder := filepath.Join(kit.Top, "packages/typescript")
	if _, err := os.Stat(filepath.Join(folder, "node_modules/.ok")); err != nil {
		t.Fatal("the packages that packages/typescript is tested with are not installed: run make setup")
	}
	corpus := filepath.Join(t.TempDir(), "corpus.jsonl")
	f, err := os.Create(corpus)
	check.Must(t, err)
	w := bufio.NewWriter(f)
	differential.Write(t, w, *judged, *judgeSeed)
	check.Must(t, w.Flush(), f.Close())
	test := exec.CommandContext(t.Context(), npm, "test", "--silent")
	test.Dir = folder
	test.Env = append(os.Environ(), "CORPUS="+corpus, "DATABASE="+pgtest.Start(t).Database(t))
	if out, err := test.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

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

// TestTypeScript runs the tests of packages/typescript, which also judge requests as the Go gate does, use evidence up
// in a PostgreSQL database, and verify an export by the README's command.
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
	database, export := pgtest.Start(t), newExported(t).packed(t)
	run := func(command ...string) {
		test := exec.CommandContext(t.Context(), command[0], command[1:]...)
		test.Dir, test.Env = folder, append(os.Environ(), "CORPUS="+corpus, "DATABASE="+database.Database(t),
			"EXPORT="+filepath.Dir(export))
		if out, err := test.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v:\n%s", command, err, out)
		}
	}
	run(npm, "test", "--silent") // with Debian's Node, which is 20
	for _, version := range []string{"node22", "node24"} {
		run("sh", "-c", `"$0" --test test/*.test.mjs`, kit.NodeVersion(t, version))
	}
}

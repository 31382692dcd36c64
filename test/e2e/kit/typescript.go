package kit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

var buildTypeScript = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "verifier-")
	if err != nil {
		return "", err
	}
	build := exec.Command("node_modules/.bin/tsc", "-p", ".", "--outDir", dir) //nolint:noctx // for all tests
	build.Dir = filepath.Join(Top, "packages/typescript")
	if out, err := build.CombinedOutput(); err != nil {
		return string(out), err
	}
	return dir, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600)
})

// TypeScript builds packages/typescript once, and returns the folder of its modules.
func TypeScript(t *testing.T) string {
	t.Helper()
	Need(t, "node")
	dir, err := buildTypeScript()
	if err != nil {
		t.Fatalf("packages/typescript cannot be built (make setup installs what it needs): %v\n%s", err, dir)
	}
	return dir
}

// SameInTypeScript fails the test unless packages/typescript says of exports what mediator verify says with the same
// flags. Refusals may differ in their sentences, but not in their codes. It returns the number of refused exports.
func SameInTypeScript(t *testing.T, exports []string, flags ...string) (refused int) {
	t.Helper()
	dir := TypeScript(t)
	list, err := json.Marshal(exports)
	check.Must(t, err)
	args := append([]string{"--input-type=module", "-e", verifyAll, "--", dir}, flags...)
	node := exec.CommandContext(t.Context(), "node", args...)
	node.Stdin = strings.NewReader(string(list))
	node.Stderr = os.Stderr
	raw, err := node.Output()
	check.Must(t, err)
	var said []struct {
		Status    int
		Out, Said string
	}
	check.Must(t, json.Unmarshal(raw, &said))
	if len(said) != len(exports) {
		t.Fatalf("%d of %d exports are judged", len(said), len(exports))
	}
	for i, got := range said {
		want := Mediator(t, append([]string{"verify", exports[i]}, flags...)...)
		if refused += want.Status; !strings.Contains(want.Out, "\nUntampered:") { // the export itself is refused
			want.Out, want.Said = "", code.FindString(want.Said)
			got.Said = code.FindString(got.Said)
		}
		if got.Status != want.Status || withoutSentences(got.Out) != withoutSentences(want.Out) ||
			want.Out == "" && got.Said != want.Said {
			t.Errorf("%s: in TypeScript status %d:\n%s%s\nin Go status %d:\n%s%s", exports[i], got.Status, got.Out, got.Said,
				want.Status, want.Out, want.Said)
		}
	}
	return refused
}

var (
	code     = regexp.MustCompile(`\([a-z_]+\)\s*$`)
	sentence = regexp.MustCompile(`(?m)^(.* REFUSED at [^,]*, [a-z_]*|\s+REFUSED (?:[^,\n]*, )?[a-z_]*): .*$`)
)

func withoutSentences(text string) string { return sentence.ReplaceAllString(text, "$1") }

// verifyAll runs the command of packages/typescript once for each of many exports, in one process.
const verifyAll = `
import { readFileSync } from 'node:fs';
const [dir, ...flags] = process.argv.slice(1);
const { main } = await import(dir + '/cli.js');
const all = [];
for (const file of JSON.parse(readFileSync(0, 'utf8'))) {
  let [Out, Said] = ['', ''];
  const Status = await main(['verify', file, ...flags], (text) => { Out += text; }, (text) => { Said += text; });
  all.push({ Status, Out, Said });
}
console.log(JSON.stringify(all));
`

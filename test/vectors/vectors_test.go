// Package vectors_test generates the golden vectors (docs/vectors.md) and verifies them with this implementation and an
// independent one in js.
package vectors_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
)

var update = flag.Bool("update", false, "write the vectors")

func compact(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	mustDo(enc.Encode(v))
	return bytes.TrimSpace(buf.Bytes())
}

func TestVectorsAreGenerated(t *testing.T) {
	d := newDeployment()
	for name, want := range map[string][]byte{
		"artifacts.json": marshal(d.artifactsVectors()), "chains.json": marshal(d.chainsVectors()),
		"posts.json": marshal(d.postsVectors()), "canonical.json": marshal(canonicalVectors()),
		"receipts.json": marshal(d.receiptsVectors()), "scores.json": marshal(scoresVectors()),
		"scoretokens.json":   marshal(d.scoreTokens()),
		"verifications.json": marshal(d.verificationsVectors()), "reputations.json": marshal(d.reputationsVectors()),
		"ratings.json":    marshal(ratingsVectors()),
		"disputes.json":   marshal(d.disputesVectors()),
		"statements.json": marshal(d.statements()),
	} {
		if *update {
			mustDo(os.WriteFile(name, want, 0o644))
			continue
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf(
				"%s is not what the generator writes (%v); if the wire format may change, run go test ./test/vectors -update", name,
				err)
		}
	}
}

func read[T any](name string) (v T) {
	mustDo(json.Unmarshal(must(os.ReadFile(name)), &v))
	return v
}

type judged struct{ file, name, want, got string }

var all = sync.OnceValue(func() []judged {
	return slices.Concat(
		judge("artifacts.json", artifactsFile.verify), judge("chains.json", chainsFile.verify),
		judge("posts.json", postsFile.verify), judge("canonical.json", canonicalFile.verify),
		judge("receipts.json", receiptsFile.verify), judge("scoretokens.json", artifactsFile.verify),
		judge("statements.json", artifactsFile.verify), judge("reputations.json", reputationsFile.verify),
		judge("ratings.json", ratingsFile.verify), judge("disputes.json", disputesFile.verify),
		read[verificationsFile]("verifications.json").judge())
})

func judge[F, V any](file string, verify func(F, V) string) (out []judged) {
	f := read[F](file)
	for _, v := range reflect.ValueOf(f).FieldByName("Vectors").Seq2() {
		out = append(out, judged{file, v.FieldByName("Name").String(), v.FieldByName("Verdict").String(),
			verify(f, v.Interface().(V))})
	}
	return out
}

func TestVectors(t *testing.T) {
	seen := make(map[string]bool)
	for _, v := range all() {
		if v.got != v.want {
			t.Errorf("%s: %s: %s, want %s", v.file, v.name, v.got, v.want)
		}
		if seen[v.file+v.name] {
			t.Errorf("%s: %s stands there twice", v.file, v.name)
		}
		seen[v.file+v.name] = true
		if v.want != "ok" && !problem.Known(v.want) {
			t.Errorf("%s: %s asks for %s, which is not a code", v.file, v.name, v.want)
		}
	}
}

func TestIndependentVerifierBounds(t *testing.T) {
	script := `import { ReceiptChain } from './js/receiptchain.mjs';
const chain = new ReceiptChain({ owner: 'o' });
chain.last = { chain: { session_id: 's' }, agent: 'a' };
chain.hashes.length = Number(process.argv[1]);
const next = { owner: 'o', agent: 'a', session: {},
  chain: { session_id: 's', sequence_number: chain.hashes.length + 2 } };
try { chain.follows(next, ''); } catch (e) { console.log(e.code); }`
	for length, want := range map[int]string{interaction.MaxReceipts - 1: "chain_incomplete",
		interaction.MaxReceipts: "session_full"} {
		out, err := exec.Command("node", "--input-type=module", "--eval", script, strconv.Itoa(length)).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("after %d receipts: %s, %v, want %s", length, got, err, want)
		}
	}
}

// withoutMLDSA are the vectors that a Node without ML-DSA cannot decide.
const withoutMLDSA = "unsupported"

// TestIndependentVerifier: the verifier in js uses only Node and does not read the verdicts.
func TestIndependentVerifier(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is not installed: run make setup")
	}
	cmd := exec.Command(node, "js/verify.mjs", ".")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	lines, want := strings.Split(strings.TrimSpace(string(out)), "\n"), all()
	if len(lines) != len(want) {
		t.Fatalf("it judges %d vectors of %d", len(lines), len(want))
	}
	var unsupported []string
	for i, v := range want {
		got, err := strconv.Unquote(lines[i])
		if err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
		switch {
		case got == withoutMLDSA:
			unsupported = append(unsupported, v.name)
		case got != v.want:
			t.Errorf("%s: %s: %s, want %s", v.file, v.name, got, v.want)
		}
	}
	if len(unsupported) > 0 &&
		!slices.Equal(unsupported, []string{"second signature, valid", "second signature, by another key"}) {
		t.Errorf("it does not decide %q", unsupported)
	}
	t.Logf("%d vectors, the same verdict from both but for %d that need ML-DSA", len(want), len(unsupported))
}

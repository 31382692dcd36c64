// Package vectors_test generates the golden vectors (docs/vectors.md) and verifies them with this implementation and an
// independent one in js.
package vectors_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
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
		"artifacts.json": d.artifactsVectors().marshal(), "chains.json": d.chainsVectors().marshal(),
		"posts.json": d.postsVectors().marshal(), "canonical.json": canonicalVectors().marshal(),
		"receipts.json": d.receiptsVectors().marshal(), "scores.json": scoresVectors().marshal(),
		"scoretokens.json":   d.scoreTokens().marshal(),
		"verifications.json": d.verificationsVectors().marshal(), "reputations.json": d.reputationsVectors().marshal(),
		"ratings.json":    ratingsVectors().marshal(),
		"disputes.json":   d.disputesVectors().marshal(),
		"statements.json": d.statements().marshal(),
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

func read[T any](t *testing.T, name string) T {
	t.Helper()
	raw, err := os.ReadFile(name)
	check.Must(t, err)
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return v
}

type judged struct{ file, name, want, got string }

func all(t *testing.T) []judged {
	t.Helper()
	var out []judged
	artifacts := read[artifactsFile](t, "artifacts.json")
	for _, v := range artifacts.Vectors {
		out = append(out, judged{"artifacts.json", v.Name, v.Verdict, artifacts.verify(v)})
	}
	chains := read[chainsFile](t, "chains.json")
	for _, v := range chains.Vectors {
		out = append(out, judged{"chains.json", v.Name, v.Verdict, chains.verify(v)})
	}
	posts := read[postsFile](t, "posts.json")
	for _, v := range posts.Vectors {
		out = append(out, judged{"posts.json", v.Name, v.Verdict, posts.verify(v)})
	}
	canonical := read[canonicalFile](t, "canonical.json")
	for _, v := range canonical.Vectors {
		out = append(out, judged{"canonical.json", v.Name, v.Verdict, canonical.verify(v)})
	}
	receipts := read[receiptsFile](t, "receipts.json")
	for _, v := range receipts.Vectors {
		out = append(out, judged{"receipts.json", v.Name, v.Verdict, receipts.verify(v)})
	}
	tokens := read[artifactsFile](t, "scoretokens.json")
	for _, v := range tokens.Vectors {
		out = append(out, judged{"scoretokens.json", v.Name, v.Verdict, tokens.verify(v)})
	}
	statements := read[artifactsFile](t, "statements.json")
	for _, v := range statements.Vectors {
		out = append(out, judged{"statements.json", v.Name, v.Verdict, statements.verify(v)})
	}
	reputations := read[reputationsFile](t, "reputations.json")
	for _, v := range reputations.Vectors {
		out = append(out, judged{"reputations.json", v.Name, v.Verdict, reputations.verify(v)})
	}
	ratings := read[ratingsFile](t, "ratings.json")
	for _, v := range ratings.Vectors {
		out = append(out, judged{"ratings.json", v.Name, v.Verdict, ratings.verify(v)})
	}
	disputes := read[disputesFile](t, "disputes.json")
	for _, v := range disputes.Vectors {
		out = append(out, judged{"disputes.json", v.Name, v.Verdict, disputes.verify(v)})
	}
	return append(out, read[verificationsFile](t, "verifications.json").judge()...)
}

func TestVectors(t *testing.T) {
	seen := make(map[string]bool)
	for _, v := range all(t) {
		if v.got != v.want {
			t.Errorf("%s: %s: %s, want %s", v.file, v.name, v.got, v.want)
		}
		if seen[v.file+v.name] {
			t.Errorf("%s: %s stands there twice", v.file, v.name)
		}
		seen[v.file+v.name] = true
	}
}

func TestVerdictsAreCodes(t *testing.T) {
	for _, v := range all(t) {
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
	lines, want := strings.Split(strings.TrimSpace(string(out)), "\n"), all(t)
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

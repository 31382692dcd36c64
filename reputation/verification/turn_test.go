package verification_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/actionproof/mediator/reputation/verification"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

type seedVectors struct {
	verification.Trace
	MerkleRootOfNone string `json:"merkleRootOfNone"`
}

func readSeed(t testing.TB) seedVectors {
	t.Helper()
	raw, err := os.ReadFile("testdata/seed.json")
	check.Must(t, err)
	var v seedVectors
	check.Must(t, json.Unmarshal(raw, &v))
	return v
}

func TestSeedVectors(t *testing.T) {
	v := readSeed(t)
	previous := verification.ChainSeed
	var hashes []string
	for i, turn := range v.Turns {
		if got := turn.HashAfter(previous); got != turn.Hash {
			t.Errorf("turn %d: %s, want %s", i, got, turn.Hash)
		}
		previous = turn.Hash
		hashes = append(hashes, turn.Hash)
	}
	if got := verification.MerkleRoot(hashes); got != v.MerkleRoot {
		t.Errorf("root %s, want %s", got, v.MerkleRoot)
	}
	if got := verification.Attestation(v.MerkleRoot, v.SessionID); got != v.Attestation {
		t.Errorf("attestation %s, want %s", got, v.Attestation)
	}
	if got := verification.MerkleRoot(nil); got != v.MerkleRootOfNone {
		t.Errorf("root of none %s, want %s", got, v.MerkleRootOfNone)
	}
	if got := verification.MerkleRoot(hashes[:1]); got != hashes[0] {
		t.Errorf("root of one %s, want the leaf", got)
	}
}

func TestRFC6962Root(t *testing.T) {
	v := readSeed(t)
	for n, want := range map[int]string{
		0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", // SHA-256 of nothing
		1: byHand(v, 1), 2: byHand(v, 2), 3: byHand(v, 3),
	} {
		trace := verification.Trace{Turns: v.Turns[:n]}
		if got := trace.RFC6962Root(); got != want {
			t.Errorf("%d turns: %s, want %s", n, got, want)
		}
	}
	doubled := verification.Trace{Turns: append(v.Turns[:3:3], v.Turns[2])}
	if doubled.RFC6962Root() == v.RFC6962Root() {
		t.Error("a repeated leaf does not change the root")
	}
}

func TestTurnHashIsJavaScripts(t *testing.T) {
	full.Only(t, "node")
	var turns []verification.Turn
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var texts [4]string
		for i := range texts {
			var b strings.Builder
			for range random.IntN(20) {
				b.WriteRune(
					[]rune(
						"\x00\x01\x08\t\n\x0b\x0c\r\x1b\x1f \"'/<>&\\ab\x7f\u0080é\u2028\u2029\ufeff\ufffd\uffff😀")[random.IntN(27)])
			}
			texts[i] = b.String()
		}
		turns = append(turns,
			verification.Turn{ToolCall: texts[0], Input: texts[1], Output: texts[2], Reasoning: texts[3],
				Timestamp: random.Int64N(1<<54) - 1<<53 + 1})
	}
	raw, err := json.Marshal(turns)
	check.Must(t, err)
	cmd := exec.Command("node", "-e", `
		const crypto = require("crypto");
		const turns = JSON.parse(require("fs").readFileSync(0, "utf8"));
		console.log(JSON.stringify(turns.map(({ toolCall, input, output, reasoning, timestamp }) =>
			crypto.createHash("sha256").update(JSON.stringify({ prevHash: "groover-challenge-seed-v1", toolCall, input, `+
		`output, reasoning, timestamp })).digest("hex"))));`)
	cmd.Stdin = strings.NewReader(string(raw))
	out, err := cmd.Output()
	check.Must(t, err)
	var want []string
	check.Must(t, json.Unmarshal(out, &want))
	for i, turn := range turns {
		if got := turn.HashAfter(verification.ChainSeed); got != want[i] {
			t.Errorf("%+v: %s, JavaScript has %s", turn, got, want[i])
		}
	}
}

// FuzzTurnHash: the hashed text is JSON with these members, in this order.
func FuzzTurnHash(f *testing.F) {
	for _, turn := range readSeed(f).Turns {
		f.Add(turn.ToolCall, turn.Input, turn.Output, turn.Reasoning, turn.Timestamp)
	}
	f.Fuzz(func(t *testing.T, tool, input, output, reasoning string, timestamp int64) {
		turn := verification.Turn{ToolCall: tool, Input: input, Output: output, Reasoning: reasoning, Timestamp: timestamp}
		text := verification.TextOf(turn, verification.ChainSeed)
		var got struct {
			PrevHash, ToolCall, Input, Output, Reasoning string
			Timestamp                                    int64
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if utf8.ValidString(tool) && utf8.ValidString(input) && utf8.ValidString(output) && utf8.ValidString(reasoning) &&
			(got.ToolCall != tool || got.Input != input || got.Output != output || got.Reasoning != reasoning ||
				got.Timestamp != timestamp) {
			t.Errorf("%q is read as %+v", text, got)
		}
	})
}

package challenge_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/test/check"
)

func TestTasksAtTheirLimits(t *testing.T) {
	repeated := func(line string, n int) string {
		raw, _ := json.Marshal(slices.Repeat([]string{line}, n))
		return string(raw)
	}
	var odd, apart []string // 1, 3, … 47; the pairs with 1
	for n := range 24 {
		odd = append(odd, fmt.Sprint(2*n+1))
	}
	for n := range 64 {
		apart = append(apart, fmt.Sprintf("[1,%d]", 2*(n%23)+3))
	}
	for name, tt := range map[string]struct{ kind, input, answer string }{
		"route: the first and the last node": {"route", `{"edges":[[0,63,1]],"from":63,"to":0}`, "63-0:1"},
		"route: the highest cost":            {"route", `{"edges":[[0,1,1048576]],"from":0,"to":1}`, "0-1:1048576"},
		"route: the most edges": {"route",
			`{"edges":[` + strings.Repeat("[0,2,1],", 511) + `[0,1,1]],"from":0,"to":1}`, "0-1:1"},
		"vm: the least modulus": {"vm", `{"modulus":2,"program":["add a 1"],"registers":[1,0,1,0]}`,
			"0,0,1,0"},
		"vm: the largest modulus": {"vm",
			`{"modulus":1048576,"program":["add a 1048575"],"registers":[0,1048575,0,0]}`, "1048575,1048575,0,0"},
		"vm: the longest program": {"vm",
			`{"modulus":7,"program":` + repeated("add a 0", 256) + `,"registers":[0,1,2,3]}`, "0,1,2,3"},
		"vm: the furthest jumps": {"vm",
			`{"modulus":7,"program":["jnz a 256","jnz a -256","jlt b a 256","jlt b a -256"],"registers":[0,1,2,3]}`,
			"0,1,2,3"},
		"vm: less, and not equal": {"vm",
			`{"modulus":7,"program":["jlt a b 2","set c 5","jlt b c 2","set d 6"],"registers":[1,1,2,3]}`, "1,1,5,3"},
		"json: the most operations": {"json",
			`{"document":{"a":[1]},"operations":` + repeated("sort a", 256) + `}`, `{"a":[1]}`},
		"json: the most elements": {"json",
			`{"document":{"a":[` + strings.Repeat("1,", 511) + `1]},"operations":[]}`,
			`{"a":[` + strings.Repeat("1,", 511) + `1]}`},
		"json: the largest numbers": {"json",
			`{"document":{"a":[1073741824,-1073741824]},"operations":["push a 1073741824","push a -1073741824"]}`,
			`{"a":[1073741824,-1073741824,1073741824,-1073741824]}`},
		"json: rotated by nothing": {"json",
			`{"document":{"a":[1,2],"b":[]},"operations":["rotate a 0","rotate b 3"]}`, `{"a":[1,2],"b":[]}`},
		"json: the first and the last list": {"json", `{"document":{"z":[1]},"operations":["copy z a","push z 2"]}`,
			`{"a":[1],"z":[1,2]}`},
		"subset: the most numbers": {"subset",
			`{"apart":[],"even":0,"numbers":[` + strings.Join(odd, ",") + `],"size":24,"sum":576}`, strings.Join(odd, ",")},
		"subset: the largest number": {"subset",
			`{"apart":[],"even":1,"numbers":[1048576,1],"size":1,"sum":1048576}`, "1048576"},
		"subset: the most apart": {"subset",
			`{"apart":[` + strings.Join(apart, ",") + `],"even":0,"numbers":[` + strings.Join(odd, ",") + `],"size":1,"sum":1}`,
			"1"},
		"subset: the smallest ones and no sum": {"subset", `{"apart":[],"even":2,"numbers":[2,4,6,8],"size":2,"sum":6}`,
			"2,4"},
		"subset: the largest ones": {"subset", `{"apart":[],"even":2,"numbers":[2,4,6,8],"size":2,"sum":14}`,
			"6,8"},
	} {
		t.Run(name, func(t *testing.T) { wantAnswer(t, tt.kind, tt.input, tt.answer) })
	}
}

func TestSizesAtTheirLimits(t *testing.T) {
	var tasks []challenge.Task
	for n := range 32 {
		input := json.RawMessage(`{"modulus":10,"program":[],"registers":[1,2,3,4]}`)
		tasks = append(tasks,
			challenge.Task{ID: fmt.Sprintf("t%d", n), Kind: "vm",
				Input: append(bytes.Repeat([]byte(" "), 32<<10-len(input)), input...)})
	}
	answers, err := challenge.Solve(t.Context(), tasks)
	if err != nil || len(answers) != 32 {
		t.Errorf("%d answers, %v", len(answers), err)
	}
	raw, err := json.Marshal(evidence.Response{ChallengeID: "c", Answers: answers})
	check.Must(t, err)
	raw = append(raw, bytes.Repeat([]byte(" "), 16<<10-len(raw))...)
	if r, err := challenge.ParseResponse(raw); err != nil || len(r.Answers) != 32 {
		t.Errorf("%d answers, %v", len(r.Answers), err)
	}
	_, err = challenge.ParseResponse(append(raw, ' '))
	wantCode(t, err, "challenge_refused")

	ch := create(t, newIssuer(t, challenge.Options{Tasks: 32, Lifetime: time.Second}), binding)
	if raw, err = json.Marshal(ch); err != nil {
		t.Fatal(err)
	}
	raw = append(raw, bytes.Repeat([]byte(" "), 256<<10-len(raw))...)
	if seen, err := challenge.ParseChallenge(raw); err != nil || len(seen.Tasks) != 32 ||
		ch.ExpiresAt != start.Unix()+1 {
		t.Errorf("%v", err)
	}
	_, err = challenge.ParseChallenge(append(raw, ' '))
	wantCode(t, err, "challenge_refused")
}

// TestDrawsAreUnbiased: the first value that is drawn again, and the last that is not.
func TestDrawsAreUnbiased(t *testing.T) {
	generate := func(first uint32) string {
		task, _, err := challenge.Builtin()[1].Generate(
			io.MultiReader(bytes.NewReader(binary.LittleEndian.AppendUint32(nil, first)), seeded(1)), challenge.Lite)
		check.Must(t, err)
		return string(task.Input)
	}
	const moduli = 45_001 // from 20,000 to 65,000
	limit := ^uint32(0) - ^uint32(0)%moduli
	task, _, err := challenge.Builtin()[1].Generate(seeded(1), challenge.Lite)
	check.Must(t, err)
	if generate(limit) != string(task.Input) || generate(^uint32(0)) != string(task.Input) {
		t.Error("what would make some numbers more likely was drawn")
	}
	if !strings.HasPrefix(generate(limit-1), `{"modulus":65000,`) {
		t.Error("what is drawn evenly was drawn again")
	}
}

func TestAttestationAtItsLimits(t *testing.T) {
	secret := newSecret(t, secretText)
	for at, code := range map[int64]string{-17: "", -18: "expired", 2: "", 3: "expired"} {
		c := capabilityClaims()
		c.Runtime.IssuedAt += at // 15 s are accepted, and 2 s of skew
		token, _, err := challenge.Mint(secret, registered(), c)
		check.Must(t, err)
		_, _, err = challenge.VerifyCapability(secret, token, wantCapability())
		wantCode(t, err, code)
	}
	w := wantCapability()
	w.Runtime.MaxAge = 0
	w.Skew = time.Minute
	token, _, err := challenge.Mint(secret, registered(), capabilityClaims())
	check.Must(t, err)
	_, _, err = challenge.VerifyCapability(secret, token, w)
	wantCode(t, err, "expired")
}

func TestCopiesStayShort(t *testing.T) {
	longest := 0
	for n := range byte(200) {
		task, _, err := challenge.Builtin()[2].Generate(seeded(n), challenge.Gauntlet)
		check.Must(t, err)
		var in struct {
			Document   map[string][]int
			Operations []string
		}
		check.Must(t, json.Unmarshal(task.Input, &in))
		size := make(map[string]int)
		for name, list := range in.Document {
			size[name] = len(list)
		}
		for _, line := range in.Operations {
			w := strings.Fields(line)
			switch w[0] {
			case "push":
				size[w[1]]++
			case "copy", "move":
				size[w[2]] += size[w[1]]
			}
			if w[0] == "move" || w[0] == "drop" {
				delete(size, w[1])
			}
			if len(size) < 2 {
				t.Errorf("seed %d: %d lists are left", n, len(size))
			}
			if w[0] == "copy" {
				all := 0
				for _, elements := range size {
					all += elements
				}
				longest = max(longest, all)
			}
		}
	}
	if longest != 40 {
		t.Errorf("after a copy there were up to %d elements", longest)
	}
}

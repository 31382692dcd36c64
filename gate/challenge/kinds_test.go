package challenge_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/actionproof/mediator/gate/challenge"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/test/check"
)

// TestOneAnswer: generator, solver and a second solver agree on the only answer.
func TestOneAnswer(t *testing.T) {
	fewest := map[challenge.Difficulty]int{challenge.Lite: 2, challenge.Standard: 3, challenge.Gauntlet: 4}
	for _, p := range challenge.Builtin() {
		for _, d := range difficulties {
			t.Run(p.Kind()+"/"+string(d), func(t *testing.T) {
				t.Parallel()
				seen := make(map[string]bool)
				for n := range byte(60) {
					task, answer, err := p.Generate(seeded(n), d)
					check.Must(t, err)
					solved, err := p.Solve(t.Context(), task)
					if err != nil || solved != answer {
						t.Fatalf("solved: %q, %v; generated: %q\n%s", solved, err, answer, task.Input)
					}
					if found := reference[p.Kind()](t, task.Input); len(found) != 1 || found[0] != answer {
						t.Fatalf("the second solver finds %q; generated: %q\n%s", found, answer, task.Input)
					}
					if hops := strings.Count(answer, "-"); p.Kind() == "route" && hops < fewest[d] {
						t.Errorf("seed %d: a route of %d hops", n, hops)
					}
					if seen[answer] {
						t.Errorf("seed %d: the answer %q has been there before", n, answer)
					}
					seen[answer] = true
				}
			})
		}
	}
}

// TestPairsDiffer: a repeated pair would forbid less than it seems to.
func TestPairsDiffer(t *testing.T) {
	for n := range byte(60) {
		for _, p := range challenge.Builtin() {
			if p.Kind() != "subset" {
				continue
			}
			task, _, err := p.Generate(seeded(n), challenge.Gauntlet)
			check.Must(t, err)
			var in struct{ Apart [][2]int }
			check.Must(t, json.Unmarshal(task.Input, &in))
			seen := make(map[[2]int]bool)
			for _, pair := range in.Apart {
				if seen[pair] {
					t.Errorf("seed %d: the pair %v is there twice", n, pair)
				}
				seen[pair] = true
			}
			if len(seen) == 0 {
				t.Errorf("seed %d: there is no pair", n)
			}
		}
	}
}

func TestTasksAreCompact(t *testing.T) {
	i := newIssuer(t, challenge.Options{Tasks: 32})
	for _, task := range create(t, i, binding).Tasks {
		raw, err := json.Marshal(task)
		check.Must(t, err)
		if len(raw) < 300 || len(raw) > 1000 {
			t.Errorf("a %s task has %d bytes", task.Kind, len(raw))
		}
		if strings.ContainsAny(string(raw), "<>&") {
			t.Errorf("a %s task is spelled differently by encoders that escape HTML", task.Kind)
		}
		if canonical, err := strictjson.Canonical(task.Input); err != nil || string(canonical) != string(task.Input) {
			t.Errorf("the input of a %s task is not canonical: %v\n%s", task.Kind, err, task.Input)
		}
	}
}

func TestByHand(t *testing.T) {
	for name, tt := range map[string]struct{ kind, input, text string }{
		"route: the detour is cheaper": {"route", `{"edges":[[0,1,9],[0,2,4],[2,1,4],[1,3,1]],"from":0,"to":3}`,
			"0-2-1-3:9"},
		"route: two edges between two": {"route", `{"edges":[[0,1,9],[1,0,4]],"from":0,"to":1}`, "0-1:4"},
		"route: there is a loop":       {"route", `{"edges":[[5,5,1],[5,4,3]],"from":4,"to":5}`, "4-5:3"},
		"vm: nothing":                  {"vm", `{"modulus":10,"program":[],"registers":[1,2,3,4]}`, "1,2,3,4"},
		"vm: below zero wraps": {"vm",
			`{"modulus":10,"program":["sub a 3","mul b b","add c d"],"registers":[1,4,8,7]}`, "8,6,5,7"},
		"vm: a loop": {"vm",
			`{"modulus":100,"program":["set d 3","add a b","sub d 1","jnz d -2"],"registers":[0,7,0,0]}`, "21,7,0,0"},
		"vm: a comparison skips": {"vm",
			`{"modulus":100,"program":["jlt a b 2","set c 9","jlt b a 2","set d 9"],"registers":[1,2,0,0]}`, "1,2,0,9"},
		"vm: a comparison with a number": {"vm",
			`{"modulus":100,"program":["jlt a 5 2","set c 9"],"registers":[4,0,0,0]}`, "4,0,0,0"},
		"json: nothing": {"json", `{"document":{"b":[],"a":[1]},"operations":[]}`, `{"a":[1],"b":[]}`},
		"json: push, add, reverse": {"json",
			`{"document":{"a":[1,2]},"operations":["push a -5","add a 10","reverse a"]}`, `{"a":[5,12,11]}`},
		"json: sort and rotate": {"json", `{"document":{"a":[3,1,2]},"operations":["sort a","rotate a 4"]}`,
			`{"a":[2,3,1]}`},
		"json: rotate nothing": {"json", `{"document":{"a":[]},"operations":["rotate a 4"]}`, `{"a":[]}`},
		"json: copy": {"json", `{"document":{"a":[1],"b":[2]},"operations":["copy a b","push a 3"]}`,
			`{"a":[1,3],"b":[2,1]}`},
		"json: move to a list that is gone": {"json", `{"document":{"a":[1],"b":[2]},"operations":["drop b","move a b"]}`,
			`{"b":[1]}`},
		"json: copy nothing to a new list": {"json", `{"document":{"a":[]},"operations":["copy a b"]}`, `{"a":[],"b":[]}`},
		"json: everything dropped":         {"json", `{"document":{"a":[1]},"operations":["drop a"]}`, `{}`},
		"subset: a sum of two":             {"subset", `{"apart":[],"even":1,"numbers":[5,3,8],"size":2,"sum":11}`, "3,8"},
		"subset: a pair is apart": {"subset", `{"apart":[[1,6]],"even":1,"numbers":[1,2,5,6],"size":2,"sum":7}`,
			"2,5"},
		"subset: evens decide":         {"subset", `{"apart":[],"even":2,"numbers":[2,3,5,6],"size":2,"sum":8}`, "2,6"},
		"subset: no evens decide":      {"subset", `{"apart":[],"even":0,"numbers":[2,3,5,6],"size":2,"sum":8}`, "3,5"},
		"subset: zero counts":          {"subset", `{"apart":[],"even":1,"numbers":[0,7],"size":2,"sum":7}`, "0,7"},
		"another spelling of a number": {"subset", `{"sum":1.1e1,"apart":[],"even":1,"numbers":[5,3,8],"size":2}`, ""},
	} {
		t.Run(name, func(t *testing.T) { wantAnswer(t, tt.kind, tt.input, tt.text) })
	}
}

// TestBadRandomness: sources that fail, end or repeat make no task and no loop.
func TestBadRandomness(t *testing.T) {
	broken := errors.New("broken")
	for _, p := range challenge.Builtin() {
		if _, _, err := p.Generate(iotest.ErrReader(broken), challenge.Standard); !errors.Is(err, broken) {
			t.Errorf("%s: got %v, want the source's own error", p.Kind(), err)
		}
		if _, _, err := p.Generate(strings.NewReader("not much"), challenge.Gauntlet); err == nil {
			t.Errorf("%s: eight random bytes were enough", p.Kind())
		}
	}
	for _, o := range []challenge.Options{{Random: iotest.ErrReader(broken)}, {Random: zeros{}},
		{Random: zeros{}, Difficulty: challenge.Gauntlet}} {
		if ch, err := newIssuer(t, o).Create(t.Context(), binding); err == nil || refusal.CodeOf(err) != "" {
			t.Errorf("a source that fails or repeats itself: %+v, %v", ch, err)
		}
	}
}

// TestRandomnessEnds after every number of bytes: zeros never replace randomness.
func TestRandomnessEnds(t *testing.T) {
	ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
	for _, d := range difficulties {
		for _, p := range challenge.Builtin() {
			whole, _, err := p.Generate(seeded(1), d)
			check.Must(t, err)
			for n := int64(0); ; n++ {
				task, _, err := p.Generate(io.LimitReader(seeded(1), n), d)
				if err == nil {
					if string(task.Input) != string(whole.Input) {
						t.Errorf("%s, %s: after %d bytes comes %s", p.Kind(), d, n, task.Input)
					}
					break
				}
				if !ended(err) {
					t.Fatalf("%s, %s: after %d bytes: %v", p.Kind(), d, n, err)
				}
			}
		}
	}
	whole := create(t, newIssuer(t, challenge.Options{Difficulty: challenge.Lite, Random: seeded(1)}), binding)
	for n := int64(0); ; n++ {
		ch, err := newIssuer(t,
			challenge.Options{Difficulty: challenge.Lite, Random: io.LimitReader(seeded(1), n)}).Create(t.Context(),
			binding)
		if err == nil {
			if ch.Token != whole.Token {
				t.Errorf("after %d bytes comes another challenge", n)
			}
			break
		}
		if !ended(err) {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

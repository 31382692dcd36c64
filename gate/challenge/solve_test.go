package challenge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/actionproof/mediator/gate/challenge"
)

func TestHostileTasks(t *testing.T) {
	program := func(lines ...string) string {
		raw, _ := json.Marshal(lines)
		return fmt.Sprintf(`{"modulus":100,"program":%s,"registers":[1,0,0,0]}`, raw)
	}
	operations := func(lines ...string) string {
		raw, _ := json.Marshal(lines)
		return fmt.Sprintf(`{"document":{"a":[1],"b":[2]},"operations":%s}`, raw)
	}
	numbers := func(list string, size, sum int, apart string) string {
		return fmt.Sprintf(`{"apart":[%s],"even":0,"numbers":[%s],"size":%d,"sum":%d}`, apart, list, size, sum)
	}
	many := strings.Split(strings.Repeat("copy a b;copy b a;", 20), ";")
	// 24 even numbers that no cut-off tells apart, and a sum that needs an odd one.
	var even []string
	for n := range 24 {
		even = append(even, fmt.Sprint(1_000_000+2*n))
	}
	for name, tt := range map[string]struct{ kind, input string }{
		"null":                               {"route", `null`},
		"no JSON":                            {"route", `{`},
		"an array":                           {"vm", `[]`},
		"an unknown member":                  {"json", `{"document":{},"operations":[],"x":1}`},
		"text after it":                      {"vm", `{"modulus":10,"program":[],"registers":[1,2,3,4]}x`},
		"nested deeply":                      {"json", `{"document":` + strings.Repeat("[", 5000)},
		"route: a node out of range":         {"route", `{"edges":[[0,999999999,1]],"from":0,"to":1}`},
		"route: from a node out of range on": {"route", `{"edges":[[0,1,1],[999999999,0,1]],"from":0,"to":1}`},
		"route: a negative node":             {"route", `{"edges":[[0,1,1]],"from":-1,"to":1}`},
		"route: from a node out of range":    {"route", `{"edges":[[999999999,1,1]],"from":0,"to":1}`},
		"route: to a negative node":          {"route", `{"edges":[[0,1,1]],"from":0,"to":-1}`},
		"route: a negative cost":             {"route", `{"edges":[[0,1,-1]],"from":0,"to":1}`},
		"route: a cost of nothing":           {"route", `{"edges":[[0,1,0]],"from":0,"to":1}`},
		"route: a cost out of range":         {"route", `{"edges":[[0,1,9000000000000]],"from":0,"to":1}`},
		"route: too many edges": {"route",
			`{"edges":[` + strings.Repeat("[0,1,1],", 512) + `[0,2,1]],"from":0,"to":2}`},
		"route: nowhere to go": {"route", `{"edges":[[0,1,1]],"from":1,"to":1}`},
		"route: out of reach":  {"route", `{"edges":[[0,1,1],[2,3,1]],"from":0,"to":3}`},
		"route: two routes":    {"route", `{"edges":[[0,1,1],[1,3,1],[0,2,1],[2,3,1]],"from":0,"to":3}`},
		"route: two routes further back": {"route",
			`{"edges":[[0,1,1],[1,3,1],[0,2,1],[2,3,1],[3,4,1]],"from":0,"to":4}`},
		"vm: no end":                       {"vm", program("jnz a 0")},
		"vm: a long loop":                  {"vm", program("add b 1", "jnz a -1")},
		"vm: a jump ahead":                 {"vm", program("jnz a 99")},
		"vm: a jump back":                  {"vm", program("jnz a -1")},
		"vm: a jump out of range":          {"vm", program("jnz a 99999999999999999999")},
		"vm: an unknown register":          {"vm", program("set z 1")},
		"vm: an unknown instruction":       {"vm", program("div a 1")},
		"vm: an unknown one of many words": {"vm", program("div a b 1 2")},
		"vm: a number over the modulus":    {"vm", program("set a 100")},
		"vm: compared with one over it":    {"vm", program("jlt a 100 1")},
		"vm: a negative number":            {"vm", program("add a -1")},
		"vm: a word too few":               {"vm", program("jlt a b")},
		"vm: a word too many":              {"vm", program("set a 1 2 3 4 5")},
		"vm: two spaces":                   {"vm", program("set  a 1")},
		"vm: an empty line":                {"vm", program("")},
		"vm: a long program": {"vm",
			program(strings.Split(strings.Repeat("set a 1;", 256)+"set a 1", ";")...)},
		"vm: a modulus of nothing":        {"vm", `{"modulus":0,"program":["set a 1"],"registers":[0,0,0,0]}`},
		"vm: a modulus out of range":      {"vm", `{"modulus":9007199254740991,"program":[],"registers":[0,0,0,0]}`},
		"vm: a register too few":          {"vm", `{"modulus":7,"program":[],"registers":[0,0,0]}`},
		"vm: a register over the modulus": {"vm", `{"modulus":7,"program":[],"registers":[7,0,0,0]}`},
		"json: a list without end":        {"json", operations(many[:40]...)},
		"json: a large document": {"json",
			`{"document":{"a":[` + strings.Repeat("1,", 512) + `1]},"operations":[]}`},
		"json: many operations": {"json",
			operations(strings.Split(strings.Repeat("sort a;", 256)+"sort a", ";")...)},
		"json: no list":                      {"json", `{"document":{"a":null},"operations":[]}`},
		"json: a long name":                  {"json", `{"document":{"aa":[1]},"operations":[]}`},
		"json: a name that is no letter":     {"json", `{"document":{"{":[1]},"operations":[]}`},
		"json: a number out of range":        {"json", `{"document":{"a":[9000000000]},"operations":[]}`},
		"json: a number far below zero":      {"json", `{"document":{"a":[-9000000000]},"operations":[]}`},
		"json: an operation on no name":      {"json", operations("sort aa")},
		"json: an operation on a capital":    {"json", operations("sort A")},
		"json: copied to no name":            {"json", operations("copy b aa")},
		"json: growing out of range":         {"json", operations("add a 1073741824")},
		"json: a list that is not there":     {"json", operations("sort c")},
		"json: copied to itself":             {"json", operations("copy a a")},
		"json: rotated back":                 {"json", operations("rotate a -1")},
		"json: an unknown operation":         {"json", operations("shuffle a")},
		"json: an unknown numeric operation": {"json", operations("div a 2")},
		"json: no number":                    {"json", operations("push a b")},
		"json: a word too many":              {"json", operations("copy a b c")},
		"json: an empty operation":           {"json", operations("")},
		"subset: many numbers":               {"subset", numbers(strings.Repeat("1,", 99)+"1", 50, 50, "")},
		"subset: a number too many": {"subset",
			numbers("1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33,35,37,39,41,43,45,47,49", 1, 49, "")},
		"subset: a number out of range": {"subset", numbers("1,1048577", 2, 1048578, "")},
		"subset: a number twice":        {"subset", numbers("1,1,3", 3, 5, "")},
		"subset: many apart":            {"subset", numbers("1,3,5", 2, 8, strings.Repeat("[1,3],", 64)+"[1,3]")},
		"subset: a negative number":     {"subset", numbers("-1,1,3", 2, 4, "")},
		"subset: two choices":           {"subset", numbers("1,3,5,7", 2, 8, "")},
		"subset: no choice":             {"subset", numbers("1,3", 2, 5, "")},
		"subset: none to choose":        {"subset", numbers("1,3", 0, 0, "")},
		"subset: more than there are":   {"subset", numbers("1,3", 5, 4, "")},
		"subset: a stranger apart":      {"subset", numbers("1,3", 2, 4, "[1,9]")},
		"subset: apart from a stranger": {"subset", numbers("1,3", 2, 4, "[9,1]")},
		"subset: apart from itself":     {"subset", numbers("1,3", 2, 4, "[1,1]")},
		"subset: a long search": {"subset",
			strings.Replace(numbers(strings.Join(even, ","), 12, 12_000_277, ""), `"even":0`, `"even":12`, 1)},
		// The search finds the one choice early, and takes too long to exclude another.
		"subset: a long search after a find": {"subset",
			`{"apart":[],"even":12,"numbers":[102946,132836,162792,182512,184160,205024,313312,327968,332576,338592,348768,` +
				`361504,373536,382752,384224,458912,487200,532256,546720,552672,614304,683616,687520,883360],"size":12,"sum":` +
				`5144286}`},
		"route: a node too high":       {"route", `{"edges":[[0,64,1]],"from":0,"to":1}`},
		"route: a cost too high":       {"route", `{"edges":[[0,1,1048577]],"from":0,"to":1}`},
		"vm: a modulus of one":         {"vm", `{"modulus":1,"program":[],"registers":[0,0,0,0]}`},
		"vm: a modulus too large":      {"vm", `{"modulus":1048577,"program":[],"registers":[0,0,0,0]}`},
		"vm: a negative register":      {"vm", `{"modulus":7,"program":[],"registers":[0,0,0,-1]}`},
		"vm: a jump too far":           {"vm", `{"modulus":7,"program":["jnz a 257"],"registers":[0,0,0,0]}`},
		"vm: a jump too far back":      {"vm", `{"modulus":7,"program":["jlt a b -257"],"registers":[0,0,0,0]}`},
		"json: a number too large":     {"json", `{"document":{"a":[1073741825]},"operations":[]}`},
		"json: a number too small":     {"json", `{"document":{"a":[-1073741825]},"operations":[]}`},
		"json: a number pushed":        {"json", `{"document":{"a":[1]},"operations":["push a 1073741825"]}`},
		"json: a number far below":     {"json", `{"document":{"a":[1]},"operations":["push a -1073741825"]}`},
		"subset: more even than there": {"subset", `{"apart":[],"even":2,"numbers":[2,3],"size":1,"sum":2}`},
		"subset: less even than none":  {"subset", `{"apart":[],"even":-1,"numbers":[2,3],"size":1,"sum":3}`},
	} {
		t.Run(name, func(t *testing.T) { wantAnswer(t, tt.kind, tt.input, "") })
	}
}

func TestSolveRefuses(t *testing.T) {
	good := challenge.Task{ID: "t1", Kind: "vm",
		Input: json.RawMessage(`{"modulus":10,"program":[],"registers":[1,2,3,4]}`)}
	var many []challenge.Task
	for n := range 33 {
		task := good
		task.ID = fmt.Sprintf("t%d", n)
		many = append(many, task)
	}
	altered := func(change func(*challenge.Task)) []challenge.Task {
		task := good
		change(&task)
		return []challenge.Task{good, task}
	}
	for name, tt := range map[string]struct {
		code  string
		tasks []challenge.Task
	}{
		"no tasks":       {"challenge_refused", nil},
		"too many tasks": {"challenge_refused", many},
		"an id twice":    {"challenge_refused", altered(func(*challenge.Task) {})},
		"no id":          {"challenge_refused", altered(func(t *challenge.Task) { t.ID = "" })},
		"a long id":      {"challenge_refused", altered(func(t *challenge.Task) { t.ID = strings.Repeat("t", 65) })},
		"a large input": {"challenge_refused", altered(func(t *challenge.Task) {
			t.ID, t.Input = "t2", append(bytes.Repeat([]byte(" "), 32<<10), t.Input...)
		})},
		"no input":        {"challenge_refused", altered(func(t *challenge.Task) { t.ID, t.Input = "t2", nil })},
		"an unknown kind": {"challenge_unsolved", altered(func(t *challenge.Task) { t.ID, t.Kind = "t2", "riddle" })},
		"a kind in case":  {"challenge_unsolved", altered(func(t *challenge.Task) { t.ID, t.Kind = "t2", "VM" })},
		"no kind":         {"challenge_unsolved", altered(func(t *challenge.Task) { t.ID, t.Kind = "t2", "" })},
		"a very long kind": {"challenge_unsolved", altered(func(t *challenge.Task) {
			t.ID, t.Kind = "t2", strings.Repeat("k", 1<<20)
		})},
	} {
		t.Run(name, func(t *testing.T) {
			answers, err := challenge.Solve(t.Context(), tt.tasks)
			wantCode(t, err, tt.code)
			if answers != nil {
				t.Error("there are answers beside the refusal")
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the refusal has %d bytes", len(err.Error()))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := challenge.Solve(ctx, []challenge.Task{good})
	wantCode(t, err, "challenge_unsolved")
}

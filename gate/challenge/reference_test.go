package challenge_test

// A second solver for each kind, by other means: every route, every subset, big integers, generic JSON. It returns all
// answers.

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

var reference = map[string]func(t *testing.T, input []byte) []string{
	"route": everyRoute, "vm": traceMachine, "json": mutateJSON, "subset": everySubset,
}

func everyRoute(t *testing.T, input []byte) []string {
	var in struct {
		Edges    [][]int
		From, To int
	}
	decode(t, input, &in)
	var found []string
	best := 1 << 30
	var walk func(route []int, cost int)
	walk = func(route []int, cost int) {
		at := route[len(route)-1]
		switch {
		case cost > best:
			return
		case at == in.To:
			if cost < best {
				best, found = cost, nil
			}
			found = append(found, strings.ReplaceAll(strings.Trim(fmt.Sprint(route), "[]"), " ",
				"-")+":"+strconv.Itoa(cost))
			return
		}
		for _, e := range in.Edges {
			for side := range 2 {
				if next := e[1-side]; e[side] == at && !slices.Contains(route, next) {
					walk(append(slices.Clone(route), next), cost+e[2])
				}
			}
		}
	}
	walk([]int{in.From}, 0)
	return found
}

func traceMachine(t *testing.T, input []byte) []string {
	var in struct {
		Program   []string
		Registers []int64
		Modulus   int64
	}
	decode(t, input, &in)
	reg, mod := map[string]*big.Int{}, big.NewInt(in.Modulus)
	for i, v := range in.Registers {
		reg["abcd"[i:i+1]] = big.NewInt(v)
	}
	value := func(s string) *big.Int {
		if v, ok := reg[s]; ok {
			return new(big.Int).Set(v)
		}
		n, ok := new(big.Int).SetString(s, 10)
		if !ok {
			t.Fatalf("%q is neither a register nor a number", s)
		}
		return n
	}
	for pc := int64(0); pc < int64(len(in.Program)); {
		w := strings.Fields(in.Program[pc])
		x, y, next := reg[w[1]], value(w[2]), int64(1)
		switch w[0] {
		case "set":
			x.Set(y)
		case "add":
			x.Add(x, y)
		case "sub":
			x.Sub(x, y)
		case "mul":
			x.Mul(x, y)
		case "jnz":
			if x.Sign() != 0 {
				next = y.Int64()
			}
		case "jlt":
			if x.Cmp(y) < 0 {
				next = value(w[3]).Int64()
			}
		default:
			t.Fatalf("the instructions do not tell of %q", w[0])
		}
		x.Mod(x, mod)
		pc += next
	}
	return []string{fmt.Sprintf("%s,%s,%s,%s", reg["a"], reg["b"], reg["c"], reg["d"])}
}

func mutateJSON(t *testing.T, input []byte) []string {
	var in struct {
		Document   map[string][]any
		Operations []string
	}
	decode(t, input, &in)
	doc := in.Document
	for _, line := range in.Operations {
		w := append(strings.Fields(line), "")
		x, y := w[1], w[2]
		n, _ := strconv.ParseFloat(y, 64)
		list, ok := doc[x]
		if !ok {
			t.Fatalf("%q names a list that is not there", line)
		}
		switch w[0] {
		case "push":
			doc[x] = append(list, n)
		case "add":
			for i := range list {
				list[i] = list[i].(float64) + n
			}
		case "reverse":
			var turned []any
			for _, v := range list {
				turned = append([]any{v}, turned...)
			}
			doc[x] = turned
		case "sort":
			slices.SortFunc(list, func(a, b any) int { return int(a.(float64) - b.(float64)) })
		case "rotate":
			for range int(n) {
				list = append(slices.Clone(list[1:]), list[0])
			}
			doc[x] = list
		case "copy":
			doc[y] = slices.Concat(doc[y], list)
		case "move":
			doc[y] = slices.Concat(doc[y], list)
			delete(doc, x)
		case "drop":
			delete(doc, x)
		default:
			t.Fatalf("the instructions do not tell of %q", w[0])
		}
	}
	text, err := json.Marshal(doc)
	check.Must(t, err)
	return []string{string(text)}
}

func everySubset(t *testing.T, input []byte) []string {
	var in struct {
		Apart           [][]int
		Numbers         []int
		Even, Size, Sum int
	}
	decode(t, input, &in)
	var found []string
	for set := range uint(1) << len(in.Numbers) {
		if bits.OnesCount(set) != in.Size {
			continue
		}
		var chosen []int
		sum, even := 0, 0
		for i, n := range in.Numbers {
			if set>>i&1 == 1 {
				chosen, sum = append(chosen, n), sum+n
				if n%2 == 0 {
					even++
				}
			}
		}
		broken := slices.ContainsFunc(in.Apart, func(p []int) bool {
			return slices.Contains(chosen, p[0]) && slices.Contains(chosen, p[1])
		})
		if sum == in.Sum && even == in.Even && !broken {
			slices.Sort(chosen)
			found = append(found, strings.ReplaceAll(strings.Trim(fmt.Sprint(chosen), "[]"), " ", ","))
		}
	}
	return found
}

func decode(t *testing.T, input []byte, v any) {
	t.Helper()
	check.Must(t, json.Unmarshal(input, v))
}

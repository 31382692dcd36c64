package challenge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/actionproof/mediator/evidence"
)

// mutation asks for the final state of a JSON document after a list of operations.
type mutation struct{}

type mutationInput struct {
	Document   map[string][]int `json:"document"`
	Operations []operation      `json:"operations"`
}

type operation struct {
	Op  string `json:"op"`
	Key string `json:"key"`
	To  string `json:"to,omitempty"`
	Num int    `json:"num,omitempty"`
}

const (
	maxMutationKeys = 64
	maxMutationList = 1024
	maxOperations   = 512
	maxMutationNum  = 1 << 30
)

func (mutation) Kind() string { return "json" }

func (mutation) Instructions() string {
	return `The input is a "document", an object whose members are lists of integers, and a list of "operations" to do to it in order. push: append num (0 if absent) to the list at key. add: add num to every element of the list at key. reverse: reverse the list at key. sort: sort the list at key in ascending order. rotate: move the first element of the list at key to its end, num times. move: take the list at key out of the document and append its elements, in order, to the list at to. copy: append the elements of the list at key, in order, to the list at to. drop: take the list at key out of the document. A list at to that is not there begins as an empty one. The answer text is the final document as JSON with its members sorted by name and without any white space, for example {"k0":[1,2],"k1":[]}. Submit the lowercase hex SHA-256 of the answer text.`
}

func (p mutation) Generate(r io.Reader, d Difficulty) (any, string, error) {
	rnd := &random{r: r}
	in := mutationInput{Document: make(map[string][]int)}
	count := pick(d, 2, 4, 6)
	for k := range count {
		list := make([]int, rnd.between(2, 4))
		for i := range list {
			list[i] = rnd.between(1, 99)
		}
		in.Document[fmt.Sprintf("k%d", k)] = list
	}
	doc := clone(in.Document)
	ops := []string{"push", "add", "reverse", "sort", "rotate", "copy", "move", "drop"}
	for want := pick(d, 4, 8, 20); len(in.Operations) < want && rnd.err == nil; {
		o := operation{Op: ops[rnd.below(len(ops))], Key: fmt.Sprintf("k%d", rnd.below(count))}
		switch o.Op {
		case "push", "add":
			o.Num = rnd.between(1, 99)
		case "rotate":
			o.Num = rnd.between(1, 3)
		case "copy", "move":
			o.To = fmt.Sprintf("k%d", rnd.below(count))
		}
		// An operation that could not be done, or would empty the document, is drawn again.
		next := clone(doc)
		if o.apply(next) && len(next) > 1 && size(next) <= 64 {
			doc, in.Operations = next, append(in.Operations, o)
		}
	}
	if rnd.err != nil {
		return nil, "", rnd.err
	}
	answer, err := json.Marshal(doc) // Go sorts the members of a map
	return in, string(answer), err
}

func (p mutation) Solve(_ context.Context, raw json.RawMessage) (string, error) {
	var in mutationInput
	if err := evidence.ParseStrict(raw, &in); err != nil || len(in.Operations) > maxOperations || len(in.Document) > maxMutationKeys {
		return "", malformed(p.Kind())
	}
	for name, list := range in.Document {
		if list == nil || len(name) > 32 || slices.ContainsFunc(list, func(n int) bool { return n < -maxMutationNum || n > maxMutationNum }) {
			return "", malformed(p.Kind())
		}
	}
	for _, o := range in.Operations {
		if !o.apply(in.Document) || len(in.Document) > maxMutationKeys || size(in.Document) > maxMutationList {
			return "", malformed(p.Kind())
		}
	}
	answer, err := json.Marshal(in.Document)
	if err != nil {
		return "", malformed(p.Kind())
	}
	return string(answer), nil
}

// apply does o to doc; false means that it cannot be done.
func (o operation) apply(doc map[string][]int) bool {
	list, ok := doc[o.Key]
	if !ok || o.Num < -maxMutationNum || o.Num > maxMutationNum || len(o.To) > 32 {
		return false
	}
	switch o.Op {
	case "push":
		doc[o.Key] = append(list, o.Num)
	case "add":
		for i := range list {
			if list[i] += o.Num; list[i] < -maxMutationNum || list[i] > maxMutationNum {
				return false
			}
		}
	case "reverse":
		slices.Reverse(list)
	case "sort":
		slices.Sort(list)
	case "rotate":
		if o.Num < 0 {
			return false
		}
		if len(list) > 0 {
			n := o.Num % len(list)
			doc[o.Key] = append(slices.Clone(list[n:]), list[:n]...)
		}
	case "move":
		if o.To == "" || o.To == o.Key {
			return false
		}
		delete(doc, o.Key)
		doc[o.To] = append(slices.Clip(doc[o.To]), list...)
	case "copy":
		if o.To == "" {
			return false
		}
		doc[o.To] = append(slices.Clip(doc[o.To]), list...)
	case "drop":
		delete(doc, o.Key)
	default:
		return false
	}
	return true
}

func clone(doc map[string][]int) map[string][]int {
	out := make(map[string][]int, len(doc))
	for k, v := range doc {
		out[k] = slices.Clone(v)
	}
	return out
}

// size counts the elements of all lists.
func size(doc map[string][]int) int {
	n := 0
	for _, v := range doc {
		n += len(v)
	}
	return n
}

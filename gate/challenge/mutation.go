package challenge

import (
	"context"
	"encoding/json"
	"io"
	"slices"
)

// mutation asks for a JSON document after a list of operations.
type mutation struct{}

// mutationInput holds its document as text, or as lists by their names.
type mutationInput[D json.RawMessage | map[string][]int] struct {
	Document   D        `json:"document"`
	Operations []string `json:"operations"`
}

const (
	lists         = 26  // one for each letter
	maxElements   = 512 // of all lists together
	maxOperations = 256
	maxElement    = 1 << 30 // either way
)

const mutationInstructions = `Input: do "operations" to "document" in order. x and y name lists of the document, n ` +
	`is a number. "push x n": append n to x. "add x n": add n to every element of x. "reverse x". "sort x": ` +
	`ascending. "rotate x n": n times, move the first element of x to its end. "copy x y": append the elements of x ` +
	`in order to y, which begins empty if there is none. "move x y": the same, then remove x. "drop x": remove x. ` +
	`The answer text is the final document as JSON, its members sorted by name, without white space, such as ` +
	`{"a":[7,-1],"c":[]}.` + hashIt

func (mutation) Kind() string { return "json" }

func (p mutation) Generate(r io.Reader, d Difficulty) (Task, string, error) {
	rnd := &random{r: r}
	width := pick(d, 3, 5, 7)
	var doc document
	for x := range width {
		doc[x] = make([]int, rnd.between(2, 4), 16)
		for i := range doc[x] {
			doc[x][i] = rnd.between(-99, 99)
		}
	}
	in := mutationInput[json.RawMessage]{Document: json.RawMessage(doc.text()),
		Operations: make([]string, pick(d, 5, 9, 24))}
	for i := range in.Operations {
		in.Operations[i] = doc.draw(rnd, width)
		if !doc.apply(in.Operations[i]) && rnd.err == nil {
			return Task{}, "", errUnsolvable(p.Kind())
		}
	}
	if rnd.err != nil {
		return Task{}, "", rnd.err
	}
	t, err := newTask(mutationInstructions, in)
	return t, doc.text(), err
}

func (p mutation) Solve(_ context.Context, t Task) (string, error) {
	in := mutationInput[map[string][]int]{Operations: make([]string, 0, 16)}
	if !decodeInput(t.Input, &in) || len(in.Operations) > maxOperations {
		return "", errUnsolvable(p.Kind())
	}
	var doc document
	for key, list := range in.Document {
		x, ok := letter(key, lists)
		if !ok || list == nil || slices.ContainsFunc(list, outOfRange) {
			return "", errUnsolvable(p.Kind())
		}
		doc[x] = list
	}
	for i := -1; i < len(in.Operations); i++ {
		if i >= 0 && !doc.apply(in.Operations[i]) || doc.size() > maxElements {
			return "", errUnsolvable(p.Kind())
		}
	}
	return doc.text(), nil
}

func outOfRange(n int) bool { return n < -maxElement || n > maxElement }

// document holds the lists by letter; nil is no list.
type document [lists][]int

// draw returns an operation that d allows, keeps two lists and bounds their growth.
func (d *document) draw(rnd *random, width int) string {
	const mostElements = 40
	present := make([]int, 0, lists)
	for x := range width {
		if d[x] != nil {
			present = append(present, x)
		}
	}
	x := present[rnd.below(len(present))]
	ops := [...]string{"push", "add", "rotate", "reverse", "sort", "copy", "move", "drop"}
	choice := len(ops)
	if len(present) <= 2 {
		choice -= 2 // none that removes a list
	}
	op := ops[rnd.below(choice)]
	if op == "copy" && d.size()+len(d[x]) > mostElements {
		op = "reverse"
	}
	switch op {
	case "push":
		return line(op, name(x), rnd.between(-99, 99))
	case "add":
		return line(op, name(x), rnd.between(2, 99))
	case "rotate":
		return line(op, name(x), rnd.between(1, 3))
	case "copy", "move":
		return op + " " + name(x) + " " + name((x+1+rnd.below(width-1))%width)
	}
	return op + " " + name(x)
}

func (d *document) apply(line string) bool {
	w, n := words(line)
	x, ok := letter(w[1], lists)
	if !ok || d[x] == nil {
		return false
	}
	switch n {
	case 2:
		return d.whole(w[0], x)
	case 3:
		if w[0] == "copy" || w[0] == "move" {
			return d.transfer(w[0] == "move", x, w[2])
		}
		return d.numeric(w[0], x, w[2])
	}
	return false
}

func (d *document) whole(op string, x int) bool {
	switch op {
	case "reverse":
		slices.Reverse(d[x])
	case "sort":
		slices.Sort(d[x])
	case "drop":
		d[x] = nil
	default:
		return false
	}
	return true
}

func (d *document) numeric(op string, x int, operand string) bool {
	n, ok := number(operand, -maxElement, maxElement)
	if !ok {
		return false
	}
	list := d[x]
	switch op {
	case "push":
		d[x] = append(list, n)
	case "add":
		for i := range list {
			if list[i] += n; outOfRange(list[i]) {
				return false
			}
		}
	case "rotate":
		if n < 0 {
			return false
		}
		if len(list) > 0 { // rotating reverses both parts, then the whole
			k := n % len(list)
			slices.Reverse(list[:k])
			slices.Reverse(list[k:])
			slices.Reverse(list)
		}
	default:
		return false
	}
	return true
}

func (d *document) transfer(move bool, x int, to string) bool {
	y, ok := letter(to, lists)
	if !ok || y == x {
		return false
	}
	if d[y] = append(d[y], d[x]...); d[y] == nil {
		d[y] = []int{} // an empty list is still a list
	}
	if move {
		d[x] = nil
	}
	return true
}

func (d *document) size() (n int) {
	for _, list := range d {
		n += len(list)
	}
	return n
}

func (d *document) text() string {
	b := append(make([]byte, 0, 256), '{')
	for x, list := range d {
		if list == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, '"', 'a'+byte(x), '"', ':', '[')
		b = append(appendList(b, list), ']')
	}
	return string(append(b, '}'))
}

package challenge

import (
	"context"
	"io"
	"slices"
)

type subset struct{}

type subsetInput struct {
	Apart   []pair `json:"apart"`
	Even    int    `json:"even"`
	Numbers []int  `json:"numbers"`
	Size    int    `json:"size"`
	Sum     int    `json:"sum"`
}

type pair [2]int

// Bounds on the numbers, and with maxVisits on the work.
const (
	maxNumbers = 24
	maxNumber  = 1 << 20
	maxApart   = 64
	maxVisits  = 1 << 18 // partial choices; honest tasks stay far below
)

const subsetInstructions = `Input: distinct numbers. Choose exactly "size" of "numbers" so that they add up to ` +
	`"sum", exactly "even" of them are even, and no pair in "apart" is chosen with both its numbers. There is ` +
	`exactly one such choice. The answer text is the chosen numbers in ascending order with commas, such as ` +
	`12,57,301.` + hashIt

func (subset) Kind() string { return "subset" }

func (subset) Generate(r io.Reader, d Difficulty) (Task, string, error) {
	rnd := &random{r: r}
	for rnd.err == nil {
		in := drawSubset(rnd, d)
		var s chooser
		if s.run(&in); s.found != 1 || s.visits > maxVisits/2 {
			continue // draw again: ambiguous, or close to the solver's limit
		}
		if rnd.err != nil {
			break
		}
		t, err := newTask(subsetInstructions, in)
		return t, s.text(), err
	}
	return Task{}, "", rnd.err
}

func drawSubset(rnd *random, d Difficulty) subsetInput {
	count, high := pick(d, 10, 16, 20), pick(d, 999, 9_999, 99_999)
	in := subsetInput{Size: pick(d, 4, 6, 8), Numbers: make([]int, 0, count)}
	for len(in.Numbers) < count && rnd.err == nil {
		if n := rnd.between(10, high); !slices.Contains(in.Numbers, n) {
			in.Numbers = append(in.Numbers, n)
		}
	}
	if rnd.err != nil {
		return subsetInput{}
	}
	for _, n := range in.Numbers[:in.Size] { // in random order, so the first are a random choice
		in.Sum += n
		in.Even += 1 - n%2
	}
	for want := pick(d, 1, 3, 4); len(in.Apart) < want && rnd.err == nil; {
		i, k := rnd.two(count)
		p := pair{min(in.Numbers[i], in.Numbers[k]), max(in.Numbers[i], in.Numbers[k])}
		if (i >= in.Size || k >= in.Size) && !slices.Contains(in.Apart, p) {
			in.Apart = append(in.Apart, p)
		}
	}
	shuffle(rnd, in.Numbers)
	return in
}

func (p subset) Solve(_ context.Context, t Task) (string, error) {
	in := subsetInput{Apart: make([]pair, 0, 4), Numbers: make([]int, 0, maxNumbers)}
	if !decodeInput(t.Input, &in) || !in.valid() {
		return "", errUnsolvable(p.Kind())
	}
	var s chooser
	if s.run(&in); s.found != 1 || s.visits > maxVisits {
		return "", errUnsolvable(p.Kind())
	}
	return s.text(), nil
}

func (in *subsetInput) valid() bool {
	if len(in.Numbers) > maxNumbers || in.Size < 1 || in.Size > len(in.Numbers) || len(in.Apart) > maxApart {
		return false
	}
	for i, n := range in.Numbers {
		if n < 0 || n > maxNumber || slices.Contains(in.Numbers[:i], n) {
			return false
		}
	}
	for _, p := range in.Apart {
		if p[0] == p[1] || !slices.Contains(in.Numbers, p[0]) || !slices.Contains(in.Numbers, p[1]) {
			return false
		}
	}
	return true
}

// chooser searches depth first and cuts off choices that cannot reach the sum.
type chooser struct {
	numbers [maxNumbers]int // ascending
	reach   [maxNumbers + 1]int
	apart   [maxNumbers]uint32 // bit k of apart[i]: i and k exclude each other
	count   int

	visits int    // partial choices seen so far
	found  int    // choices found; the search ends with the second
	choice uint32 // the first of them
}

func (s *chooser) run(in *subsetInput) {
	s.count = len(in.Numbers)
	numbers := s.numbers[:copy(s.numbers[:], in.Numbers)]
	slices.Sort(numbers)
	for i, n := range numbers { // reach[i] is the sum of the first i numbers
		s.reach[i+1] = s.reach[i] + n
	}
	for _, p := range in.Apart {
		i, k := slices.Index(numbers, p[0]), slices.Index(numbers, p[1])
		s.apart[i] |= 1 << k
		s.apart[k] |= 1 << i
	}
	s.visit(0, in.Size, in.Sum, in.Even, 0)
}

// visit chooses left more numbers from index from, which must add sum and even.
func (s *chooser) visit(from, left, sum, even int, choice uint32) {
	if s.visits++; s.visits > maxVisits || even < 0 || even > left {
		return
	}
	if left == 0 {
		if sum == 0 { // even is 0 too
			if s.found++; s.found == 1 {
				s.choice = choice
			}
		}
		return
	}
	most := s.reach[s.count] - s.reach[s.count-left+1] // the largest picks after the next one
	for i := from; i+left <= s.count && s.found < 2; i++ {
		n := s.numbers[i]
		if s.reach[i+left]-s.reach[i] > sum {
			return // even the smallest picks are too much
		}
		if n+most < sum || s.apart[i]&choice != 0 {
			continue
		}
		s.visit(i+1, left-1, sum-n, even-1+n%2, choice|1<<i)
	}
}

func (s *chooser) text() string {
	var chosen [maxNumbers]int
	k := 0
	for i := range s.count {
		if s.choice&(1<<i) != 0 {
			chosen[k] = s.numbers[i]
			k++
		}
	}
	return string(appendList(make([]byte, 0, 96), chosen[:k]))
}

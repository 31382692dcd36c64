package challenge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// subset asks for the one subset of numbers that meets several constraints.
type subset struct{}

type subsetInput struct {
	Numbers []int `json:"numbers"`
	Size    int   `json:"size"`
	Sum     int   `json:"sum"`
	Even    int   `json:"even"`
}

const (
	maxSubsetNumbers = 24
	maxSubsetNumber  = 1 << 20
)

func (subset) Kind() string { return "subset" }

func (subset) Instructions() string {
	return `The input has distinct "numbers". Choose exactly "size" of them that add up to "sum" and of which exactly "even" are even numbers; there is exactly one such choice. The answer text is the chosen numbers in ascending order, separated by commas, for example 12,57,301. Submit the lowercase hex SHA-256 of the answer text.`
}

func (p subset) Generate(r io.Reader, d Difficulty) (any, string, error) {
	rnd := &random{r: r}
	n, k := pick(d, 8, 12, 18), pick(d, 3, 4, 6)
	for rnd.err == nil {
		seen := make(map[int]bool, n)
		var in subsetInput
		for len(in.Numbers) < n && rnd.err == nil {
			if v := rnd.between(10, 9999); !seen[v] {
				seen[v] = true
				in.Numbers = append(in.Numbers, v)
			}
		}
		if rnd.err != nil {
			break
		}
		in.Size = k
		for _, v := range in.Numbers[:k] { // the numbers are in random order, so the first k are a random choice
			in.Sum += v
			in.Even += 1 - v%2
		}
		rnd.shuffle(n, func(i, j int) { in.Numbers[i], in.Numbers[j] = in.Numbers[j], in.Numbers[i] })
		if answer, unique := choose(in); unique {
			return in, answer, rnd.err
		}
	}
	return nil, "", rnd.err
}

func (p subset) Solve(_ context.Context, raw json.RawMessage) (string, error) {
	var in subsetInput
	err := evidence.ParseStrict(raw, &in)
	bad := slices.ContainsFunc(in.Numbers, func(v int) bool { return v < 0 || v > maxSubsetNumber })
	if err != nil || bad || len(in.Numbers) > maxSubsetNumbers || in.Size < 1 || in.Size > len(in.Numbers) {
		return "", malformed(p.Kind())
	}
	answer, unique := choose(in)
	if !unique {
		return "", malformed(p.Kind())
	}
	return answer, nil
}

// choose finds the choice that meets the constraints and whether it is the only one. It goes through at most all choices of
// Size among maxSubsetNumbers numbers, and cuts off what can no longer reach the sum.
func choose(in subsetInput) (answer string, unique bool) {
	numbers := slices.Clone(in.Numbers)
	slices.Sort(numbers)
	// The sums of the first i numbers: the reach of any number of further picks follows from them.
	prefix := make([]int, len(numbers)+1)
	for i, v := range numbers {
		prefix[i+1] = prefix[i] + v
	}
	picked := make([]int, 0, in.Size)
	var found []int
	count := 0
	var search func(from, sum, even int)
	search = func(from, sum, even int) {
		left := in.Size - len(picked)
		if left == 0 {
			if sum == in.Sum && even == in.Even {
				if count++; count == 1 {
					found = slices.Clone(picked)
				}
			}
			return
		}
		for i := from; i+left <= len(numbers) && count < 2; i++ {
			if sum+prefix[i+left]-prefix[i] > in.Sum {
				return // the smallest further picks are already too much
			}
			if sum+numbers[i]+prefix[len(numbers)]-prefix[len(numbers)-left+1] < in.Sum {
				continue // the largest further picks are not enough
			}
			picked = append(picked, numbers[i])
			search(i+1, sum+numbers[i], even+1-numbers[i]%2)
			picked = picked[:len(picked)-1]
		}
	}
	search(0, 0, 0)
	if count != 1 {
		return "", false
	}
	texts := make([]string, len(found))
	for i, v := range found {
		texts[i] = fmt.Sprint(v)
	}
	return strings.Join(texts, ","), true
}

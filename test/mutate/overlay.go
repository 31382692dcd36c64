package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// environment is the variable that tells a test binary which of the switched mutants it is; none where it is not set.
const environment = "MUTANT"

// switchFile is added to the package, for the switches to read.
const switchFile = `package %s

import (
	"os"
	"slices"
	"strconv"
)

var mutantOn = func() int {
	n, err := strconv.Atoi(os.Getenv("` + environment + `"))
	if err != nil {
		return -1
	}
	return n
}()

// mutantList leaves out the row of a list whose mutant this is.
func mutantList[S ~[]E, E any](first int, rows S) S {
	return mutantArgs(first, 1, rows...)
}

// mutantArgs does so for rows of width arguments each.
func mutantArgs[E any](first, width int, args ...E) []E {
	if i := (mutantOn - first) * width; mutantOn >= first && i < len(args) {
		return slices.Delete(slices.Clone(args), i, i+width)
	}
	return args
}

// mutantMap leaves out the row of a map whose mutant this is.
func mutantMap[M ~map[K]V, K comparable, V any](n int, rows M, name K) M {
	if mutantOn == n {
		delete(rows, name)
	}
	return rows
}

// mutantZero leaves out what a verifier is told to demand.
func mutantZero[T any](n int, demand T) T {
	if mutantOn == n {
		return *new(T)
	}
	return demand
}
`

// overlay writes files that the compiler shall take in place of others into dir, and returns the argument for -overlay.
func overlay(dir string, files map[string][]byte) (string, error) {
	replace := make(map[string]string)
	for path, raw := range files {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(replace[path], raw, 0o600); err != nil {
			return "", err
		}
	}
	spec, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, spec, 0o600)
}

// replaced is the file of a mutant that is compiled alone.
func (m mutant) replaced() (map[string][]byte, error) {
	raw, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{m.file: slices.Concat(raw[:m.start], []byte(m.text), raw[m.end:])}, nil
}

// switched is the package in dir with the switches of all mutants but those that are compiled alone.
func switched(dir, name string, mutants []mutant) (map[string][]byte, error) {
	type insertion struct {
		at, other int // where, and where the other half of the switch goes
		text      string
		opens     bool
		n         int
	}
	inserted := make(map[string][]insertion)
	for _, m := range mutants {
		if m.before != "" {
			before, after := numbered(m.before, m.number), numbered(m.after, m.number)
			inserted[m.file] = append(inserted[m.file], insertion{m.start, m.end, before, true, m.number}, insertion{m.end, m.start, after, false, m.number})
		}
	}
	files := map[string][]byte{filepath.Join(dir, "mutant_switch.go"): fmt.Appendf(nil, switchFile, name)}
	for path, list := range inserted {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		// At one place, what ends there ends first, the innermost before the others; what begins there begins with the outermost.
		slices.SortFunc(list, func(a, b insertion) int {
			switch {
			case a.at != b.at:
				return cmp.Compare(a.at, b.at)
			case a.opens != b.opens:
				return map[bool]int{true: 1, false: -1}[a.opens]
			case a.opens:
				return cmp.Or(cmp.Compare(b.other, a.other), cmp.Compare(a.n, b.n))
			default:
				return cmp.Or(cmp.Compare(b.other, a.other), cmp.Compare(b.n, a.n))
			}
		})
		var out []byte
		at := 0
		for _, i := range list {
			out = append(append(out, raw[at:i.at]...), i.text...)
			at = i.at
		}
		files[path] = append(out, raw[at:]...)
	}
	return files, nil
}

// numbered puts a mutant's number into one half of its switch.
func numbered(half string, n int) string {
	return strings.ReplaceAll(half, "%d", strconv.Itoa(n))
}

package strict

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Suggest ends a sentence about an unknown word with the known word that was probably meant, if one is near.
func Suggest(word string, known []string) string {
	if near := nearest(word, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// Which returns which of n types a YAML document is for: the type with most of its keys. A misspelt key counts half.
func Which(raw []byte, n int, types func(int) reflect.Type) (int, error) {
	none := errors.New(
		"its top-level keys match no kind of configuration, policy or manifest file, or match two kinds equally well")
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) { // a list has no keys, and a long one costs memory
		return 0, none
	}
	var doc yaml.Node
	if err := yaml.Load(raw, &doc); err != nil {
		return 0, syntaxError(err)
	}
	which, most := -1, 0
	for i := range n {
		has, known := 0, slices.Collect(maps.Keys(fields(types(i))))
		for at, key := range doc.Content[0].Content {
			switch {
			case doc.Content[0].Kind != yaml.MappingNode || at%2 == 1: // no key
			case slices.Contains(known, key.Value):
				has += 2
			case nearest(key.Value, known) != "":
				has++
			}
		}
		switch {
		case has > most:
			which, most = i, has
		case has == most:
			which = -1
		}
	}
	if which < 0 {
		return 0, none
	}
	return which, nil
}

func nearest(word string, words []string) string {
	if len(word) > 64 || len(words) == 0 {
		return ""
	}
	word = strings.ToLower(word)
	near := slices.MinFunc(words, func(a, b string) int {
		return cmp.Compare(distance(word, strings.ToLower(a)), distance(word, strings.ToLower(b)))
	})
	if distance(word, strings.ToLower(near)) > max(1, min(len(word), len(near))/3) {
		return ""
	}
	return near
}

func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

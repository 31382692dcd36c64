package learn

import (
	"strings"

	"github.com/actionproof/mediator/internal/pattern"
)

// Shapes of segments that are ids in every position: UUIDs, ULIDs, hashes, long numbers, and tokens with a prefix.
var ids = []pattern.Pattern{
	pattern.New(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`),
	pattern.New(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`),
	pattern.New(`^([0-9a-f]{7,64}|[0-9A-F]{7,64})$`),
	pattern.New(`^[0-9]{5,}$`),
	pattern.New(`^[A-Za-z]{1,8}_[0-9A-Za-z]{8,64}$`),
	pattern.New(`^[0-9A-Za-z]{20,64}$`),
}

// Shapes that are ids only below a word: /v1 and /2010-04-01 may be versions, /3 too.
var idsBelow = pattern.New(`^([0-9]{1,4}|[0-9]{4}-[0-9]{2}-[0-9]{2})$`)

var (
	digit   = pattern.New(`[0-9]`)
	numbers = pattern.New(`[0-9][^0-9]+[0-9]+[^0-9]+[0-9]`) // at least three
	spelt   = pattern.New(`[a-z]{5}`)
	version = pattern.New(`^[vV]?[0-9.]*$`)
)

// isID reports whether a segment is an id, given the segment before it. Words never are: /users/list and
// /users/delete differ in meaning, and so may any two names.
func isID(segment, before string) bool {
	if !digit.MatchString(segment) || spelt.MatchString(segment) && !numbers.MatchString(segment) {
		return false // a word, as in hexadecimal "defaced", or words, as in deleteS3Buckets
	}
	for _, shape := range ids {
		if shape.MatchString(segment) {
			return true
		}
	}
	return idsBelow.MatchString(segment) && !version.MatchString(before)
}

// template writes {id} for the ids of an escaped path.
func template(path string) string {
	segments := strings.Split(path[1:], "/")
	before := ""
	for i, s := range segments {
		if isID(s, before) {
			segments[i] = "{id}"
		}
		before = s
	}
	return "/" + strings.Join(segments, "/")
}

// isLiteral reports whether a path as a pattern means itself alone: an agent may call a path with pattern characters.
func isLiteral(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsAny(path, "{}*?#")
}

// common returns the narrowest template that covers templates of equal length with the same first and last segments:
// {name} where they differ.
func common(templates []string) string {
	out := strings.Split(templates[0], "/")
	for _, t := range templates[1:] {
		for i, s := range strings.Split(t, "/") {
			if out[i] != s {
				out[i] = "{name}"
			}
		}
	}
	return strings.Join(out, "/")
}

// alike reports whether [common] can cover two templates.
func alike(a, b string) bool {
	x, y := strings.Split(a, "/"), strings.Split(b, "/")
	return len(x) == len(y) && len(x) > 3 && x[1] == y[1] && x[len(x)-1] == y[len(y)-1]
}

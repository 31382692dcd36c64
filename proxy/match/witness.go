package match

import "strings"

// Witness returns a path of a pattern that more special patterns do not match.
func Witness(pattern string) string {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		switch {
		case s == "**":
			segments[i] = strings.Repeat("~/", 64) + "~"
		case strings.HasPrefix(s, "{"):
			segments[i] = "~"
		}
	}
	return strings.Join(segments, "/")
}

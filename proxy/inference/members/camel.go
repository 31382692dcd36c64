package members

import "strings"

// CamelCase returns the other spelling of a name in snake_case that Google's parsers take. Other names stay the same.
func CamelCase(name string) string {
	head, rest, found := strings.Cut(name, "_")
	if !found {
		return name
	}
	for part := range strings.SplitSeq(rest, "_") {
		if part != "" {
			head += strings.ToUpper(part[:1]) + part[1:]
		}
	}
	return head
}

package match

import (
	"fmt"
	"strings"
)

type node struct {
	literal map[string]*node
	param   *node
	end     *Endpoint // of a pattern that ends here
	rest    *Endpoint // of a pattern that ends here with **
}

func (n *node) add(pattern string, target *Endpoint) error {
	if !strings.HasPrefix(pattern, "/") {
		return fmt.Errorf("the path pattern %q does not begin with /", pattern)
	}
	segments := strings.Split(pattern[1:], "/")
	for i, s := range segments {
		switch {
		case s == "**":
			if i != len(segments)-1 {
				return fmt.Errorf("the path pattern %q has ** before its end", pattern)
			}
			return set(&n.rest, target, pattern)
		case strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") && len(s) > 2:
			if n.param == nil {
				n.param = &node{}
			}
			n = n.param
		case strings.ContainsAny(s, "{}*"):
			return fmt.Errorf("the segment %q of the path pattern %q is neither literal text, nor {name} for any one segment, "+
				"nor a last ** for all that follow", s, pattern)
		default:
			if n.literal == nil {
				n.literal = make(map[string]*node)
			}
			if n.literal[s] == nil {
				n.literal[s] = &node{}
			}
			n = n.literal[s]
		}
	}
	return set(&n.end, target, pattern)
}

// CheckPattern refuses what is no pattern of paths.
func CheckPattern(path string) error { return (&node{}).add(path, &Endpoint{}) }

func set(at **Endpoint, target *Endpoint, pattern string) error {
	if *at != nil && *at != target {
		return fmt.Errorf("another rule has the same path pattern %q", pattern)
	}
	*at = target
	return nil
}

func (n *node) find(segments []string) *Endpoint { return n.search(segments, false) }

// read finds one of the [readings]. Some servers, such as those with Rails, take what follows a dot for the format of
// the answer: /posts/publish.json is /posts/publish. Struts takes what follows an exclamation mark for a method's name.
func (n *node) read(path string) *Endpoint { return n.search(strings.Split(path[1:], "/"), true) }

func (n *node) search(segments []string, formats bool) *Endpoint {
	if n == nil {
		return nil
	}
	if len(segments) == 0 {
		return n.end
	}
	first, rest := segments[0], segments[1:]
	if r := n.literal[first].search(rest, formats); r != nil {
		return r
	}
	if formats && (len(rest) == 0 || len(rest) == 1 && rest[0] == "") {
		for name, next := range n.literal {
			after, is := strings.CutPrefix(first, name)
			if is = is && name != "" && strings.IndexAny(after, ".!") == 0; !is {
				continue
			}
			if r := next.search(rest, formats); r != nil {
				return r
			}
		}
	}
	if first != "" {
		if r := n.param.search(rest, formats); r != nil {
			return r
		}
	}
	return n.rest
}

// overlap reports whether an egress pattern matches some spelling of a path of the action pattern post, as lenient
// servers read it.
func overlap(post, egress string) bool {
	a, b := strings.Split(shortest(post), "/"), strings.Split(shortest(egress), "/")
	for i, s := range b {
		if s == "**" {
			return true
		}
		if i >= len(a) {
			return false
		}
		isParam := strings.HasPrefix(s, "{") || strings.HasPrefix(a[i], "{")
		if !isParam && s != a[i] {
			return false
		}
	}
	return len(a) == len(b)
}

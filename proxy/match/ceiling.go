package match

import (
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Ceiling bounds what rules and learning sessions may reach. A pattern without methods covers all of them. Nil bounds
// nothing.
type Ceiling []Match

// CheckRule refuses (ceiling_exceeded) a rule of which some method is within no single pattern.
func (c Ceiling) CheckRule(m Match) error {
	for _, method := range m.Methods {
		if c != nil && m.Host != Own && !c.covers(m, method) {
			return exceeds(method, upstream.Target{Scheme: m.Scheme, Host: m.Host, Port: m.Port}, m.Path)
		}
	}
	return nil
}

// CheckCall refuses (ceiling_exceeded) a call outside of all patterns. Without a rule, every path that a lenient server
// could read must be within one.
func (c Ceiling) CheckCall(t upstream.Target, method, escapedPath string, byRule bool) error {
	at := Match{Scheme: t.Scheme, Host: t.Host, Port: t.Port, Path: escapedPath}
	if c == nil || t.Host == Own {
		return nil
	}
	within := c.covers(at, method)
	if !byRule {
		folded := slices.Clone(c)
		for i := range folded {
			folded[i].Path = strings.ToLower(folded[i].Path)
		}
		for at.Path = range readings(escapedPath) {
			within = within && (folded.covers(at, method) || folded.covers(at.slashed(), method))
		}
	}
	if !within {
		return exceeds(method, t, escapedPath)
	}
	return nil
}

// slashed returns the match with a slash at the end of its path: readings have none.
func (m Match) slashed() Match {
	m.Path += "/"
	return m
}

func exceeds(method string, t upstream.Target, path string) error {
	return refusal.New("ceiling_exceeded", "%.32s %s%.1024s is outside of the manifest's egressCeiling", method, t,
		path)
}

func (c Ceiling) covers(m Match, method string) bool {
	return slices.ContainsFunc(c, func(p Match) bool {
		return p.Scheme == m.Scheme && p.Port == m.Port &&
			(len(p.Methods) == 0 || slices.Contains(p.Methods, method)) &&
			CoversHost(p.Host, m.Host) && contains(strings.Split(p.Path, "/"), strings.Split(m.Path, "/"))
	})
}

// CoversHost reports whether the host of a pattern, which may begin with "*.", covers another.
func CoversHost(pattern, host string) bool {
	domain, wild := strings.CutPrefix(pattern, "*")
	return pattern == host || wild && strings.HasSuffix(host, domain)
}

// contains reports whether the pattern outer matches every path of the pattern inner, by segments.
func contains(outer, inner []string) bool {
	for i, s := range outer {
		switch {
		case i >= len(inner):
			return false
		case s == "**":
			return true
		case inner[i] == "**":
			return false
		case strings.HasPrefix(s, "{"):
			if inner[i] == "" {
				return false
			}
		case s != inner[i]:
			return false
		}
	}
	return len(outer) == len(inner)
}

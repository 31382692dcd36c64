package match

import (
	"maps"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// Denied finds calls that no rule can allow. It never changes once built. A nil Denied denies none.
type Denied struct{ exact, suffix map[origin]*node }

// ParseDenied reads URLs as those of egress rules. They match calls by any method.
func ParseDenied(urls []string) (*Denied, error) {
	d := &Denied{exact: make(map[origin]*node), suffix: make(map[origin]*node)}
	here := &Endpoint{}
	for _, url := range urls {
		m, err := Parse(url, nil)
		if err != nil {
			return nil, err
		}
		index, host := d.exact, m.Host
		if domain, ok := strings.CutPrefix(m.Host, "*."); ok {
			index, host = d.suffix, domain
		}
		o := origin{m.Scheme, host, m.Port}
		if index[o] == nil {
			index[o] = &node{}
		}
		if err := index[o].add(shortest(m.Path), here); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Check refuses (call_denied) a call to a denied URL, in any spelling of its path.
func (d *Denied) Check(t upstream.Target, escapedPath string) error {
	for n := range d.of(t) {
		for path := range readings(escapedPath) {
			if n.read(path) != nil || n.read(path+"/") != nil { // readings have no slash at the end
				return refusal.New(problem.CallDenied, "the configuration denies calls to %s://%s%.1024s", t.Scheme,
					t.Authority(), escapedPath)
			}
		}
	}
	return nil
}

// CheckHost refuses (call_denied) a host all of whose paths are denied.
func (d *Denied) CheckHost(t upstream.Target) error {
	for n := range d.of(t) {
		if n.rest != nil {
			return refusal.New(problem.CallDenied, "the configuration denies all calls to %s", t.Authority())
		}
	}
	return nil
}

// Knows reports whether some calls to a host are denied: only their paths tell which.
func (d *Denied) Knows(t upstream.Target) bool {
	for range d.of(t) {
		return true
	}
	return false
}

// Hosts returns the hosts whose calls are denied by their paths.
func (d *Denied) Hosts() (hosts []string) {
	for o := range maps.Keys(d.exact) {
		if d.exact[o].rest == nil {
			hosts = append(hosts, o.host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

func (d *Denied) of(t upstream.Target) func(yield func(*node) bool) {
	return func(yield func(*node) bool) {
		if d == nil || t.Host == Own {
			return
		}
		if n := d.exact[origin{t.Scheme, t.Host, t.Port}]; n != nil && !yield(n) {
			return
		}
		for domain := range domainsAbove(t.Host) {
			if n := d.suffix[origin{t.Scheme, domain, t.Port}]; n != nil && !yield(n) {
				return
			}
		}
	}
}

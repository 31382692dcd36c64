// Package strategy holds what an agent can commit to before it meets a challenge: a strategy of four predicates, the commitment to it, and
// what of it held for the calls that were seen. docs/autonomy.md has the rules.
package strategy

import (
	"encoding/base64"
	"slices"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
)

// Bounds on a strategy and on the salt of a commitment.
const (
	MaxSize  = 32 << 10  // bytes of a strategy as JSON
	MaxNames = 64        // tools, and hosts
	MaxName  = 128       // bytes of a name
	MaxCalls = 1_000_000 // calls of models
	minSalt  = 16        // bytes
	maxSalt  = 64        // bytes
	maxNonce = 128       // bytes
)

// Predicates is how many predicates a strategy has.
const Predicates = 4

// Strategy is what an agent says that it will do from its commitment on: which tools it uses, which hosts it calls, which model it asks,
// and how often.
type Strategy struct {
	Calls Calls    `json:"calls"`
	Hosts []string `json:"hosts"`
	Model string   `json:"model"`
	Tools []string `json:"tools"`
}

// Calls bounds the number of calls to models.
type Calls struct {
	Max int64 `json:"max"`
	Min int64 `json:"min"`
}

// Parse reads a strategy. It refuses, as query_malformed, anything but the exact form: all four members, no other, and lists in order.
func Parse(raw []byte) (Strategy, error) {
	if len(raw) > MaxSize {
		return Strategy{}, malformed("has %d bytes; at most %d are accepted", len(raw), MaxSize)
	}
	var s Strategy
	if err := strictjson.Parse(raw, &s); err != nil {
		return Strategy{}, malformed("has another form: %w", err)
	}
	return s, s.Check()
}

// Check refuses a strategy that [Parse] would refuse.
func (s Strategy) Check() error {
	switch {
	case s.Tools == nil || s.Hosts == nil:
		return malformed("lacks tools or hosts; a list may be empty")
	case !names(s.Tools) || !names(s.Hosts):
		return malformed("has a list that is not at most %d different names of 1 to %d bytes, in the order of their bytes", MaxNames, MaxName)
	case s.Model == "" || len(s.Model) > MaxName:
		return malformed("has a model that is not a name of 1 to %d bytes", MaxName)
	case s.Calls.Min < 1 || s.Calls.Max < s.Calls.Min || s.Calls.Max > MaxCalls:
		return malformed("has calls that are not 1 <= min <= max <= %d", MaxCalls)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return refusal.New("query_malformed", "the strategy "+format, args...)
}

func names(list []string) bool {
	for i, name := range list {
		if name == "" || len(name) > MaxName || i > 0 && list[i-1] >= name {
			return false
		}
	}
	return len(list) <= MaxNames
}

// Commitment returns the commitment to a strategy: the lowercase hex SHA-256 of the canonical JSON of nonce, salt and strategy. The salt is
// base64url of 16 to 64 bytes, so that nobody can guess the strategy from its commitment.
func Commitment(nonce, salt string, s Strategy) (string, error) {
	if nonce == "" || len(nonce) > maxNonce {
		return "", malformed("is for a nonce that is empty or longer than %d bytes", maxNonce)
	}
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(salt); err != nil || len(raw) < minSalt || len(raw) > maxSalt {
		return "", malformed("has a salt that is not base64url of %d to %d bytes without padding", minSalt, maxSalt)
	}
	if err := s.Check(); err != nil {
		return "", err
	}
	return evidence.HashValue(struct {
		Nonce    string   `json:"nonce"`
		Salt     string   `json:"salt"`
		Strategy Strategy `json:"strategy"`
	}{nonce, salt, s})
}

// Trace is what was seen of an agent since its commitment, as far as a strategy speaks of it. It stays small however much was seen. The
// zero Trace has seen nothing.
type Trace struct {
	calls               int64
	tools, hosts, model set
}

// ToolUnknown notes a use of a tool whose name was not seen.
func (t *Trace) ToolUnknown() { t.tools.unknown = true }

// HostUnknown notes a call to a host that was not seen.
func (t *Trace) HostUnknown() { t.hosts.unknown = true }

// Call notes a call to a model at a host. An empty model is one that no strategy names.
func (t *Trace) Call(host, model string) {
	t.calls++
	t.hosts.add(host)
	t.model.add(model)
}

// Tool notes the use of a tool. No strategy names one with an empty name.
func (t *Trace) Tool(name string) { t.tools.add(name) }

// Host notes a call to another host than that of a model.
func (t *Trace) Host(name string) { t.hosts.add(name) }

// Held says which predicates of a strategy hold.
type Held struct {
	Tools bool `json:"tools"`
	Hosts bool `json:"hosts"`
	Model bool `json:"model"`
	Calls bool `json:"calls"`
}

// Count returns how many predicates hold.
func (h Held) Count() int64 {
	n := int64(0)
	for _, held := range []bool{h.Tools, h.Hosts, h.Model, h.Calls} {
		if held {
			n++
		}
	}
	return n
}

// Judge holds a strategy against a trace. Nothing holds for a trace without a call to a model.
func (s Strategy) Judge(t Trace) Held {
	if t.calls == 0 {
		return Held{}
	}
	return Held{
		Tools: t.tools.within(s.Tools), Hosts: t.hosts.within(s.Hosts), Model: t.model.within([]string{s.Model}),
		Calls: s.Calls.Min <= t.calls && t.calls <= s.Calls.Max,
	}
}

// Broken reports whether a trace rules out that the strategy was kept to: something was seen that it does not allow. What was not seen breaks
// nothing, as it may have been anything; nor does a tool without a name. closed says that nothing more can come.
func (s Strategy) Broken(t Trace, closed bool) bool {
	return t.tools.beyond(s.Tools) || t.hosts.beyond(s.Hosts) || t.model.beyond([]string{s.Model}) || t.calls > s.Calls.Max || closed && t.calls < s.Calls.Min
}

// set is a set of names, in their order. More than a strategy can name become unknown.
type set struct {
	names   []string
	unknown bool
}

func (s *set) add(name string) {
	at, ok := slices.BinarySearch(s.names, name)
	switch {
	case ok:
	case len(s.names) == MaxNames:
		s.unknown = true
	default:
		s.names = slices.Insert(s.names, at, name)
	}
}

// within reports whether all names are in an ordered list.
func (s *set) within(list []string) bool {
	return !s.unknown && !slices.ContainsFunc(s.names, func(name string) bool {
		_, ok := slices.BinarySearch(list, name)
		return !ok
	})
}

// beyond reports whether a name is not in an ordered list.
func (s *set) beyond(list []string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		_, ok := slices.BinarySearch(list, name)
		return !ok && name != ""
	})
}

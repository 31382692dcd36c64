// Package strategy holds the strategies that agents commit to before a challenge, and checks them against what was
// seen. docs/autonomy.md has the rules.
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
	MaxSize  = 32 << 10 // bytes of a strategy as JSON
	MaxNames = 64
	MaxName  = 128 // bytes of a name
	MaxCalls = 1_000_000
	minSalt  = 16  // bytes
	maxSalt  = 64  // bytes
	maxNonce = 128 // bytes
)

const Predicates = 4

// Strategy is what an agent commits to: its tools, hosts and model, and its number of model calls.
type Strategy struct {
	Calls Calls    `json:"calls"`
	Hosts []string `json:"hosts"`
	Model string   `json:"model"`
	Tools []string `json:"tools"`
}

// Calls bounds the number of model calls.
type Calls struct {
	Max int64 `json:"max"`
	Min int64 `json:"min"`
}

// Parse reads a strategy. It refuses any deviation from the form as query_malformed.
func Parse(raw []byte) (Strategy, error) {
	if len(raw) > MaxSize {
		return Strategy{}, malformed("has %d bytes; at most %d are accepted", len(raw), MaxSize)
	}
	var s Strategy
	if err := strictjson.Parse(raw, &s); err != nil {
		return Strategy{}, malformed("does not have the required form: %w", err)
	}
	return s, s.Check()
}

// Check refuses a strategy that [Parse] would refuse.
func (s Strategy) Check() error {
	switch {
	case s.Tools == nil || s.Hosts == nil:
		return malformed("lacks tools or hosts; a list may be empty")
	case !names(s.Tools) || !names(s.Hosts):
		return malformed("may have in each list at most %d different names of 1 to %d bytes, sorted by bytes", MaxNames,
			MaxName)
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

// Commitment returns the lowercase hex SHA-256 of the canonical JSON of nonce, salt and strategy. The salt, base64url
// of 16 to 64 bytes, keeps the strategy from being guessed.
func Commitment(nonce, salt string, s Strategy) (string, error) {
	if nonce == "" || len(nonce) > maxNonce {
		return "", malformed("is for a nonce that is empty or longer than %d bytes", maxNonce)
	}
	if raw, err := base64.RawURLEncoding.Strict().DecodeString(salt); err != nil || len(raw) < minSalt ||
		len(raw) > maxSalt {
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

// Trace is what was seen of an agent since its commitment. Its size is bounded. The zero Trace is empty.
type Trace struct {
	calls               int64
	tools, hosts, model set
}

// Call records a model call.
func (t *Trace) Call(host, model string) {
	t.calls++
	t.hosts.add(host)
	t.model.add(model)
}

// Tool records the use of a tool.
func (t *Trace) Tool(name string) { t.tools.add(name) }

// Host records a call to a host other than a model's. An empty name, of a tool or host, means one that was not seen.
func (t *Trace) Host(name string) { t.hosts.add(name) }

// Held says which predicates hold.
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

// Judge compares a strategy with a trace. Nothing holds for a trace without a model call.
func (s Strategy) Judge(t Trace) Held {
	if t.calls == 0 {
		return Held{}
	}
	return Held{
		Tools: t.tools.within(s.Tools), Hosts: t.hosts.within(s.Hosts), Model: t.model.within([]string{s.Model}),
		Calls: s.Calls.Min <= t.calls && t.calls <= s.Calls.Max,
	}
}

// Broken reports whether a trace, complete if closed, shows something that the strategy rules out.
func (s Strategy) Broken(t Trace, closed bool) bool {
	return t.tools.beyond(s.Tools) || t.hosts.beyond(s.Hosts) || t.model.beyond([]string{s.Model}) ||
		t.calls > s.Calls.Max || closed && t.calls < s.Calls.Min
}

// set is a sorted set of names. More names than a strategy can have become unknown.
type set struct {
	names   []string
	unknown bool
}

func (s *set) add(name string) {
	at, ok := slices.BinarySearch(s.names, name)
	switch {
	case ok:
	case name == "" || len(s.names) == MaxNames:
		s.unknown = true
	default:
		s.names = slices.Insert(s.names, at, name)
	}
}

func (s *set) within(list []string) bool { return !s.unknown && !s.beyond(list) }

func (s *set) beyond(list []string) bool {
	return slices.ContainsFunc(s.names, func(name string) bool {
		_, ok := slices.BinarySearch(list, name)
		return !ok
	})
}

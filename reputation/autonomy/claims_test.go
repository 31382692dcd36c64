package autonomy_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/check"
)

func claims() autonomy.Claims {
	s, baseline := measured(working(40, 1)), usual()
	s.Add(strings.Repeat("a1", 32), last(40))
	hash, err := baseline.Hash()
	if err != nil {
		panic(err)
	}
	return autonomy.NewClaims(s, hash, autonomy.Appraise(s, []autonomy.Challenge{{Nonce: "n"}}, baseline))
}

const noCustody = "nothing about the key"

func signed(t *testing.T, c autonomy.Claims) (string, error) {
	t.Helper()
	key, err := custody.NewMemory("appraiser-key")
	check.Must(t, err)
	version, err := key.Current(t.Context())
	check.Must(t, err)
	custody := evidence.CustodyExternalMediator
	if c.Audience == noCustody {
		custody = ""
	}
	autonomy.Kind.Stamp(&c, evidence.NewRegistered("node", "relying-party", noon, autonomy.MaxLifetime),
		evidence.KeyClaims{KeyCustody: custody})
	return evidence.Sign(t.Context(), version, autonomy.Kind, c)
}

func TestClaims(t *testing.T) {
	c := claims()
	token, err := signed(t, c)
	check.Must(t, err)
	got, err := evidence.UnverifiedClaims(autonomy.Kind, token)
	check.Must(t, err)
	if got.HeadNumber != 41 || got.HeadHash != strings.Repeat("a1", 32) || !got.Closed || got.Session != "ses_1" ||
		got.Agent != "agent" || got.Owner != "owner" ||
		got.ScoringHash != autonomy.ScoringHash || got.Version != autonomy.Version() || got.BaselineHash != c.BaselineHash ||
		got.Composite != c.Composite ||
		got.Signals.Timing.Score != c.Signals.Timing.Score || got.Interval.LeaveOut[9] != c.Interval.LeaveOut[9] ||
		got.Coverage.Share != 0.1 {
		t.Errorf("got %+v\nwant %+v", got, c)
	}
	if !got.Probabilistic || got.NonHumanIdentityProven {
		t.Error("it claims more than a likelihood")
	}
	if autonomy.Kind.Purpose != "appraiser" || autonomy.Kind.Typ != "autonomy-score+jwt" {
		t.Errorf("%s by a key for %s", autonomy.Kind.Typ, autonomy.Kind.Purpose)
	}
}

func TestClaimsOfOtherFormulas(t *testing.T) {
	c := claims()
	c.ScoringHash, c.Version, c.Composite, c.Band, c.Interval.Lower = strings.Repeat("0f", 32), "2", 50, "other", 40
	if _, err := signed(t, c); err != nil {
		t.Error(err)
	}
}

func TestClaimsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 257)
	for name, spoil := range map[string]func(*autonomy.Claims){
		"a proof":                        func(c *autonomy.Claims) { c.NonHumanIdentityProven = true },
		"certain":                        func(c *autonomy.Claims) { c.Probabilistic = false },
		"no owner":                       func(c *autonomy.Claims) { c.Owner = "" },
		"a long agent":                   func(c *autonomy.Claims) { c.Agent = long },
		"no session":                     func(c *autonomy.Claims) { c.Session = "" },
		"no version":                     func(c *autonomy.Claims) { c.Version = "" },
		"no head":                        func(c *autonomy.Claims) { c.HeadHash = "" },
		"no number":                      func(c *autonomy.Claims) { c.HeadNumber, c.N, c.OtherCalls = 0, 0, 0 },
		"no formulas":                    func(c *autonomy.Claims) { c.ScoringHash = "" },
		"a baseline that is no hash":     func(c *autonomy.Claims) { c.BaselineHash = "x" },
		"more calls than receipts":       func(c *autonomy.Claims) { c.N = 42 },
		"more other calls than receipts": func(c *autonomy.Claims) { c.OtherCalls = 2 },
		"calls below 0":                  func(c *autonomy.Claims) { c.N = -1 },
		"other calls below 0":            func(c *autonomy.Claims) { c.OtherCalls = -1 },
		"no custody":                     func(c *autonomy.Claims) { c.Audience = noCustody },
		"no list of hosts":               func(c *autonomy.Claims) { c.ModelHosts = nil },
		"no list of domains":             func(c *autonomy.Claims) { c.Signals.Knowledge.Domains = nil },
		"no list of blocks":              func(c *autonomy.Claims) { c.Interval.LeaveOut = nil },
		"no list of parts":               func(c *autonomy.Claims) { c.Signals.Challenge.Parts = nil },
		"an empty host":                  func(c *autonomy.Claims) { c.ModelHosts = []string{""} },
		"hosts in another order":         func(c *autonomy.Claims) { c.ModelHosts = []string{"b", "a"} },
		"more observed than there was":   func(c *autonomy.Claims) { c.Coverage.CallsObserved = 11 },
		"more bytes observed":            func(c *autonomy.Claims) { c.Coverage.BytesObserved = 11 },
		"observed below 0":               func(c *autonomy.Claims) { c.Coverage.CallsObserved = -1 },
		"bytes observed below 0":         func(c *autonomy.Claims) { c.Coverage.BytesObserved = -1 },
		"a share above 1":                func(c *autonomy.Claims) { c.Coverage.Share = 1.1 },
		"a share below 0":                func(c *autonomy.Claims) { c.Coverage.Share = -0.1 },
		"another score":                  func(c *autonomy.Claims) { c.Composite -= 0.001 },
		"a score above 100": func(c *autonomy.Claims) {
			c.ScoringHash, c.Composite, c.Interval.Upper = strings.Repeat("0f", 32), 101, 101
		},
		"another seed's score": func(c *autonomy.Claims) { c.SeedWeighted += 0.001 },
		"a seed's score below 0": func(c *autonomy.Claims) {
			c.ScoringHash, c.SeedWeighted = strings.Repeat("0f", 32), -1
		},
		"another band":                  func(c *autonomy.Claims) { c.Band = "very_high" },
		"no band":                       func(c *autonomy.Claims) { c.ScoringHash, c.Band = strings.Repeat("0f", 32), "" },
		"a long band":                   func(c *autonomy.Claims) { c.ScoringHash, c.Band = strings.Repeat("0f", 32), long },
		"an interval above the score":   func(c *autonomy.Claims) { c.Interval.Lower = c.Composite + 0.001 },
		"an interval below it":          func(c *autonomy.Claims) { c.Interval.Upper = c.Composite - 0.001 },
		"an interval above 100":         func(c *autonomy.Claims) { c.Interval.Upper = 100.1 },
		"an interval below 0":           func(c *autonomy.Claims) { c.Interval.Lower = -0.1 },
		"a level above 1":               func(c *autonomy.Claims) { c.Interval.Level = 95 },
		"a signal without its parts":    func(c *autonomy.Claims) { c.Signals.Timing.Parts = nil },
		"a signal with another state":   func(c *autonomy.Claims) { c.Signals.Timing.State = "known" },
		"a part with another state":     func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].State = "" },
		"a part without a name":         func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Name = "" },
		"a part with a long name":       func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Name = long },
		"a part of fewer than none":     func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].N = -1 },
		"too many points":               func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Of = 1 },
		"points that were not measured": func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].State = "not_measured" },
		"points alone not measured": func(c *autonomy.Claims) {
			c.Signals.Timing.Parts[0].State, c.Signals.Timing.Parts[0].Value = "not_measured", 0
		},
		"other points than its parts'":  func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Points /= 2 },
		"a value that was not measured": func(c *autonomy.Claims) { c.Signals.Knowledge.Parts[1].Value = 1 },
		"not a number":                  func(c *autonomy.Claims) { c.Signals.Timing.Latency = math.NaN() },
	} {
		c := claims()
		spoil(&c)
		if token, err := signed(t, c); token != "" || !errors.Is(err, refusal.New("artifact_malformed", "")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClaimsAtTheirBounds(t *testing.T) {
	longest, others := strings.Repeat("x", 256), strings.Repeat("0f", 32)
	for name, edit := range map[string]func(*autonomy.Claims){
		"as they are":             func(*autonomy.Claims) {},
		"a long agent":            func(c *autonomy.Claims) { c.Agent = longest },
		"a long band":             func(c *autonomy.Claims) { c.ScoringHash, c.Band = others, longest },
		"a long name of a part":   func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Name = longest },
		"as many calls":           func(c *autonomy.Claims) { c.N = 41 },
		"as many other calls":     func(c *autonomy.Claims) { c.OtherCalls = 1 },
		"all observed":            func(c *autonomy.Claims) { c.Coverage.CallsObserved, c.Coverage.BytesObserved = 10, 10 },
		"nothing observed":        func(c *autonomy.Claims) { c.Coverage.CallsObserved, c.Coverage.BytesObserved = 0, 0 },
		"the last digits":         func(c *autonomy.Claims) { c.Composite += 1e-9 },
		"no baseline, no hosts":   func(c *autonomy.Claims) { c.BaselineHash, c.ModelHosts = "", []string{} },
		"an interval of one":      func(c *autonomy.Claims) { c.Interval.Lower, c.Interval.Upper = c.Composite, c.Composite },
		"an interval of all":      func(c *autonomy.Claims) { c.Interval.Lower, c.Interval.Upper = 0, 100 },
		"32 hosts that are alike": func(c *autonomy.Claims) { c.ModelHosts = slices.Repeat([]string{host}, 32) },
	} {
		c := claims()
		edit(&c)
		if _, err := signed(t, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

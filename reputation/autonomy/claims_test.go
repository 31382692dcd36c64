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

// TestClaimsThatAreRefused: what the golden vectors do not show.
func TestClaimsThatAreRefused(t *testing.T) {
	long := strings.Repeat("x", 257)
	for name, spoil := range map[string]func(*autonomy.Claims){
		"no head":                        func(c *autonomy.Claims) { c.HeadHash = "" },
		"no number":                      func(c *autonomy.Claims) { c.HeadNumber, c.N, c.OtherCalls = 0, 0, 0 },
		"more other calls than receipts": func(c *autonomy.Claims) { c.OtherCalls = 2 },
		"no custody":                     func(c *autonomy.Claims) { c.Audience = noCustody },
		"no list of domains":             func(c *autonomy.Claims) { c.Signals.Knowledge.Domains = nil },
		"no list of blocks":              func(c *autonomy.Claims) { c.Interval.LeaveOut = nil },
		"no list of parts":               func(c *autonomy.Claims) { c.Signals.Challenge.Parts = nil },
		"bytes observed below 0":         func(c *autonomy.Claims) { c.Coverage.BytesObserved = -1 },
		"a score above 100": func(c *autonomy.Claims) {
			c.ScoringHash, c.Composite, c.Interval.Upper = strings.Repeat("0f", 32), 101, 101
		},
		"a seed's score below 0": func(c *autonomy.Claims) {
			c.ScoringHash, c.SeedWeighted = strings.Repeat("0f", 32), -1
		},
		"no band":                    func(c *autonomy.Claims) { c.ScoringHash, c.Band = strings.Repeat("0f", 32), "" },
		"a long band":                func(c *autonomy.Claims) { c.ScoringHash, c.Band = strings.Repeat("0f", 32), long },
		"a signal without its parts": func(c *autonomy.Claims) { c.Signals.Timing.Parts = nil },
		"a part with a long name":    func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Name = long },
		"too many points":            func(c *autonomy.Claims) { c.Signals.Timing.Parts[0].Of = 1 },
		"points alone not measured": func(c *autonomy.Claims) {
			c.Signals.Timing.Parts[0].State, c.Signals.Timing.Parts[0].Value = "not_measured", 0
		},
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

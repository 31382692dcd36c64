package strategy_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/reputation/strategy"
	"github.com/actionproof/mediator/test/check"
)

const host = "api.models.example:443"

var salt = base64.RawURLEncoding.EncodeToString(make([]byte, 16))

func plan() strategy.Strategy {
	return strategy.Strategy{Tools: []string{"fetch", "search"}, Hosts: []string{host, "mcp.example:443"}, Model: "m",
		Calls: strategy.Calls{Min: 2, Max: 3}}
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("name-%03d", i)
	}
	return out
}

// TestParse: what the golden vectors do not show.
func TestParse(t *testing.T) {
	long := strings.Repeat("x", strategy.MaxName)
	for name, test := range map[string]struct {
		edit func(*strategy.Strategy)
		ok   bool
	}{
		"nothing but a model": {func(s *strategy.Strategy) { s.Tools, s.Hosts = []string{}, []string{} }, true},
		"64 tools":            {func(s *strategy.Strategy) { s.Tools = names(64) }, true},
		"65 tools":            {func(s *strategy.Strategy) { s.Tools = names(65) }, false},
		"65 hosts":            {func(s *strategy.Strategy) { s.Hosts = names(65) }, false},
		"a long name":         {func(s *strategy.Strategy) { s.Tools = []string{long} }, true},
		"a longer name":       {func(s *strategy.Strategy) { s.Tools = []string{long + "x"} }, false},
		"no list of hosts":    {func(s *strategy.Strategy) { s.Hosts = nil }, false},
		"a long model":        {func(s *strategy.Strategy) { s.Model = long }, true},
		"a longer model":      {func(s *strategy.Strategy) { s.Model = long + "x" }, false},
		"one number of calls": {func(s *strategy.Strategy) { s.Calls = strategy.Calls{Min: 1, Max: 1} }, true},
		"as many calls":       {func(s *strategy.Strategy) { s.Calls.Max = strategy.MaxCalls }, true},
	} {
		s := plan()
		test.edit(&s)
		raw, err := json.Marshal(s)
		check.Must(t, err)
		got, err := strategy.Parse(raw)
		if test.ok && (err != nil || !reflect.DeepEqual(got, s)) || !test.ok &&
			!errors.Is(err, refusal.New("query_malformed", "")) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	const least = `{"calls":{"max":1,"min":1},"hosts":[],"model":"m","tools":[]}`
	for name, text := range map[string]string{
		"nothing": ``, "a list": `[]`, "null": `null`, "two": least + `{}`,
		"another member":          least[:len(least)-1] + `,"more":1}`,
		"another member of calls": strings.Replace(least, `"min":1`, `"min":1,"mean":1`, 1),
		"too large":               strings.Repeat(" ", strategy.MaxSize) + least,
	} {
		if _, err := strategy.Parse([]byte(text)); !errors.Is(err, refusal.New("query_malformed", "")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := strategy.Parse([]byte(`{"more":1}`)); err == nil || !strings.Contains(err.Error(), "more") {
		t.Errorf("%v does not name the member", err)
	}
	if _, err := strategy.Parse([]byte(strings.Repeat(" ", strategy.MaxSize-len(least)) + least)); err != nil {
		t.Error(err)
	}
}

func TestCommitment(t *testing.T) {
	raw, err := json.Marshal(plan())
	check.Must(t, err)
	want, err := evidence.HashJSON([]byte(`{"strategy":` + string(raw) + `,"salt":"` + salt + `","nonce":"n"}`))
	check.Must(t, err)
	if got, err := strategy.Commitment("n", salt, plan()); err != nil || got != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	of := func(n int) string { return base64.RawURLEncoding.EncodeToString(make([]byte, n)) }
	for name, test := range map[string]struct {
		nonce, salt string
		ok          bool
	}{
		"as long as can be": {strings.Repeat("n", 128), of(64), true}, "no nonce": {"", salt, false},
		"a long nonce": {strings.Repeat("n", 129), salt, false},
		"a short salt": {"n", of(15), false}, "a long salt": {"n", of(65), false}, "no salt": {"n", "", false},
		"padding": {"n", salt + "==", false}, "stray bits": {"n", salt[:21] + "B", false},
		"another character": {"n", of(24) + "!", false},
	} {
		if _, err := strategy.Commitment(test.nonce, test.salt, plan()); test.ok != (err == nil) || !test.ok &&
			!errors.Is(err, refusal.New("query_malformed", "")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := strategy.Commitment("n", salt, strategy.Strategy{}); err == nil {
		t.Error("there is a commitment to no strategy")
	}
}

func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		seen []string // kind and name, or host and model
		want string   // the predicates that hold
	}{
		"nothing":              {nil, ""},
		"tools and no call":    {[]string{"tool search"}, ""},
		"as it says":           {[]string{"call m", "call m", "tool search", "tool search", "host mcp.example:443"}, "thmc"},
		"one call":             {[]string{"call m"}, "thm"},
		"three calls":          {[]string{"call m", "call m", "call m"}, "thmc"},
		"four calls":           {[]string{"call m", "call m", "call m", "call m"}, "thm"},
		"another tool":         {[]string{"call m", "call m", "tool post"}, "hmc"},
		"a tool without name":  {[]string{"call m", "call m", "tool "}, "hmc"},
		"a tool not known":     {[]string{"call m", "call m", "tool?"}, "hmc"},
		"another host":         {[]string{"call m", "call m", "host x"}, "tmc"},
		"a host not known":     {[]string{"call m", "call m", "host?"}, "tmc"},
		"a call elsewhere":     {[]string{"call m", "call m", "elsewhere m"}, "tmc"},
		"another model":        {[]string{"call m", "call m", "call n"}, "thc"},
		"a model without name": {[]string{"call m", "call m", "call "}, "thc"},
	} {
		var trace strategy.Trace
		for _, one := range test.seen {
			switch kind, name, _ := strings.Cut(one, " "); kind {
			case "call":
				trace.Call(host, name)
			case "elsewhere":
				trace.Call("x", name)
			case "tool":
				trace.Tool(name)
			case "host":
				trace.Host(name)
			case "tool?":
				trace.Tool("")
			case "host?":
				trace.Host("")
			}
		}
		has := func(predicate string) bool { return strings.Contains(test.want, predicate) }
		want := strategy.Held{Tools: has("t"), Hosts: has("h"), Model: has("m"), Calls: has("c")}
		if got := plan().Judge(trace); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if n := (strategy.Held{Tools: true, Calls: true}).Count(); n != 2 {
		t.Errorf("%d hold", n)
	}
	if n := (strategy.Held{Tools: true, Hosts: true, Model: true, Calls: true}).Count(); n != strategy.Predicates {
		t.Errorf("%d hold", n)
	}
}

func TestTraceIsBounded(t *testing.T) {
	s := plan()
	s.Tools = names(strategy.MaxNames)
	var trace strategy.Trace
	trace.Call(host, "m")
	trace.Call(host, "m")
	for i := range s.Tools {
		trace.Tool(s.Tools[(i*37)%len(s.Tools)])
		trace.Tool(s.Tools[i])
	}
	if !s.Judge(trace).Tools {
		t.Error("it does not hold for its own tools")
	}
	trace.Tool("name-999")
	if s.Judge(trace).Tools {
		t.Error("it holds for a tool more")
	}
}

// FuzzParse: a strategy that is read is written and read the same, has a commitment, and another one another.
func FuzzParse(f *testing.F) {
	raw, err := json.Marshal(plan())
	check.Must(f, err)
	f.Add(raw)
	f.Add([]byte(`{"calls":{"max":1,"min":1},"hosts":[],"model":"\u00e9","tools":["a","b"]}`))
	f.Add([]byte(`{"calls":{"max":1,"min":1},"hosts":null,"model":"m","tools":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := strategy.Parse(raw)
		if err != nil {
			return
		}
		one, err := strategy.Commitment("n", salt, s)
		check.Must(t, err)
		text, err := json.Marshal(s)
		check.Must(t, err)
		back, err := strategy.Parse(text)
		if err != nil || !reflect.DeepEqual(s, back) {
			t.Errorf("%s is read as %+v, %v", text, back, err)
		}
		back.Calls.Max++
		if other, err := strategy.Commitment("n", salt, back); err == nil && other == one {
			t.Error("two strategies have one commitment")
		}
	})
}

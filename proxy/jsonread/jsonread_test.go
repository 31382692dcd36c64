package jsonread_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/actionproof/mediator/proxy/jsonread"
)

// nested is an object in which n objects or lists are nested, itself included.
func nested(n int, open, end string) string {
	return `{"a":` + strings.Repeat(open, n-1) + "1" + strings.Repeat(end, n-1) + "}"
}

func many(n int, more string) string {
	var members []string
	for i := range n {
		members = append(members, `"m`+strings.Repeat("x", i)+`":1`)
	}
	return "{" + strings.Join(append(members, more), ",") + "}"
}

func TestRead(t *testing.T) {
	bad, twice, list := jsonread.ErrMalformed, jsonread.ErrAmbiguous, jsonread.ErrList
	for name, tt := range map[string]struct {
		text            string
		strict, lenient error
	}{
		"an object":                         {` { "a" : [ 1 , { "b" : null } ] } `, nil, nil},
		"an empty object":                   {`{}`, nil, nil},
		"nothing":                           {``, bad, bad},
		"a list":                            {`[{}]`, list, list},
		"a list without an end":             {`[`, list, list},
		"a text":                            {`"a"`, bad, bad},
		"null":                              {`null`, bad, bad},
		"an object without an end":          {`{"a":1`, bad, bad},
		"something after it":                {`{} {}`, bad, bad},
		"a brace after it":                  {`{}}`, bad, bad},
		"a comma too many":                  {`{"a":1,}`, bad, bad},
		"a comment":                         {`{/**/}`, bad, bad},
		"a byte order mark":                 {"\ufeff{}", bad, bad},
		"not UTF-8":                         {"{\"a\":\"\xff\"}", bad, bad},
		"not UTF-8 in a name":               {"{\"\xff\":1}", bad, bad},
		"half of a surrogate pair":          {`{"a":"\ud800"}`, bad, bad},
		"a name twice":                      {`{"a":1,"a":1}`, twice, twice},
		"a name twice, spelled differently": {`{"a":1,"\u0061":1}`, twice, twice},
		"a name twice below a list":         {`{"a":[[{"b":1,"b":1}]]}`, twice, twice},
		"two cases of a name":               {`{"name":1,"Name":1}`, twice, nil},
		"two cases below a list":            {`{"a":[[{"name":1,"NAME":1}]]}`, twice, nil},
		"two cases beyond ASCII":            {`{"k":1,"\u212a":1}`, twice, nil}, // the Kelvin sign
		"two cases of a long s":             {`{"params":1,"param\u017f":1}`, twice, nil},
		"two cases in two objects":          {`{"a":{"name":1},"b":{"Name":1}}`, nil, nil},
		"two cases among many":              {many(20, `"MXX":1`), twice, nil},
		"two cases among the last of many":  {many(20, `"name":1,"namE":1`), twice, nil},
		"NUL in a name":                     {`{"a\u0000b":1}`, twice, nil},
		"members for JavaScript":            {`{"a":{"__proto__":{"b":1}}}`, twice, nil},
		"NUL in a value":                    {`{"a":"\u0000"}`, nil, nil},
		"just so many values":               {`{"a":[` + strings.Repeat("1,", jsonread.MaxItems-4) + `1]}`, nil, nil},
		"too many values": {`{"a":[` + strings.Repeat("1,", jsonread.MaxItems-3) + `1]}`,
			bad, bad},
		"many":                        {many(20, `"name":1`), nil, nil},
		"nested just so deep":         {nested(jsonread.MaxDepth, `[`, `]`), nil, nil},
		"objects nested just so deep": {nested(jsonread.MaxDepth, `{"a":`, `}`), nil, nil},
		"lists nested too deep":       {nested(jsonread.MaxDepth+1, `[`, `]`), bad, nil},
		"objects nested too deep":     {nested(jsonread.MaxDepth+1, `{"a":`, `}`), bad, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, keep := range []int{0, 1, 2} {
				if _, err := jsonread.Strict([]byte(tt.text), keep); !errors.Is(err, tt.strict) {
					t.Errorf("of a client, keep %d: got %v, want %v", keep, err, tt.strict)
				}
				if _, err := jsonread.Lenient([]byte(tt.text), keep); !errors.Is(err, tt.lenient) {
					t.Errorf("of a server, keep %d: got %v, want %v", keep, err, tt.lenient)
				}
			}
		})
	}
	deep, long := nested(200, `[`, `]`), `{"a":`+strings.Repeat("1", 4301)+`}` // what some clients do not read
	for _, text := range []string{deep, long} {
		if _, err := jsonread.Lenient([]byte(text), 1); !errors.Is(err, bad) {
			t.Errorf("of a server: %.20s...: %v", text, err)
		}
	}
}

func TestKeep(t *testing.T) {
	const text = "{\"b\": {\"d\" : {\"e\":1} , \"c\":2},\n\"a\":\t[ {\"x\":1} ], \"\\u0066\":\"\\u0067\\n\"}"
	for keep, want := range []string{
		``,
		`b={"d" : {"e":1} , "c":2} a=[ {"x":1} ] f="\u0067\n"`,
		`b={"d" : {"e":1} , "c":2}(d={"e":1} c=2) a=[ {"x":1} ] f="\u0067\n"`,
		`b={"d" : {"e":1} , "c":2}(d={"e":1}(e=1) c=2) a=[ {"x":1} ] f="\u0067\n"`,
	} {
		for name, read := range map[string]func([]byte, int) (jsonread.Object, error){"strict": jsonread.Strict,
			"lenient": jsonread.Lenient} {
			o, err := read([]byte(text), keep)
			if got := written(o); err != nil || got != want {
				t.Errorf("%s, keep %d: got %s, want %s, %v", name, keep, got, want, err)
			}
		}
	}
	o, err := jsonread.Strict([]byte(text), 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := o.Get("f").Text(); !ok || got != "g\n" {
		t.Errorf("the text is %q, %t", got, ok)
	}
	for _, none := range []jsonread.Member{o.Get("F"), o.Get("a"), o.Get("b").Members.Get("c"), {}} {
		if got, ok := none.Text(); ok || got != "" {
			t.Errorf("%q is the text %q", none.Value, got)
		}
	}
	if o.Get("F").Value != nil {
		t.Error("a member that is not there has a value")
	}
}

func written(o jsonread.Object) string {
	var all []string
	for _, m := range o {
		text := m.Name + "=" + string(m.Value)
		if len(m.Members) > 0 {
			text += "(" + written(m.Members) + ")"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestExceeds(t *testing.T) {
	for _, tt := range []struct {
		text string
		many bool
	}{
		{"", false},
		{`[` + strings.Repeat("1,", jsonread.MaxItems-2) + `1]`, false},
		{`[` + strings.Repeat("1,", jsonread.MaxItems-1) + `1]`, true},
		{`[` + strings.Repeat(" 1 , ", jsonread.MaxItems-2) + `1]`, false},
		{strings.Repeat(`[`, jsonread.MaxItems+1), true},
		{strings.Repeat(`{"":`, jsonread.MaxItems/2+1), true},
		{`{"a":"` + strings.Repeat(`,:{[`, jsonread.MaxItems) + `"}`, false},
		{`{"a":"\"` + strings.Repeat(`,:{[\"`, jsonread.MaxItems) + `"}`, false},
		{`{"a":"\\",` + strings.Repeat(`"a":1,`, jsonread.MaxItems) + `}`, true},
	} {
		if got := jsonread.Exceeds([]byte(tt.text)); got != tt.many {
			t.Errorf("%.20q: %t", tt.text, got)
		}
	}
}

func TestOtherCase(t *testing.T) {
	for _, tt := range []struct{ text, has, meant string }{
		{`{"tools":1,"type":2}`, "", ""},
		{`{"a":1,"Type":2,"TOOLS":3}`, "Type", "type"},
		{`{"tool\u017f":1}`, "tool\u017f", "tools"},
		{`{"tool":1,"typed":1}`, "", ""},
		{`{}`, "", ""},
	} {
		o, err := jsonread.Strict([]byte(tt.text), 1)
		if err != nil {
			t.Fatal(err)
		}
		if has, meant, found := o.OtherCase("tools", "type"); has != tt.has || meant != tt.meant ||
			found != (tt.has != "") {
			t.Errorf("%s: %q stands for %q, %t", tt.text, has, meant, found)
		}
	}
}

// TestErrorsRepeatNothing: a value may be secret.
func TestErrorsRepeatNothing(t *testing.T) {
	for _, text := range []string{`{"a":"secret"`, `{"a":"secret","a":1}`, `{"a":"secret","A":1}`, `{"a":"secret"} {}`,
		"{\"a\":\"secret\xff\"}", nested(jsonread.MaxDepth+1, `["secret",`, `]`)} {
		if _, err := jsonread.Strict([]byte(text), 1); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.30q: %v", text, err)
		}
	}
	_, err := jsonread.Strict([]byte(`{"`+strings.Repeat("n", 1<<10)+`":1,"`+strings.Repeat("N", 1<<10)+`":1}`), 1)
	if err == nil || len(err.Error()) > 200 {
		t.Errorf("a long name: %v", err)
	}
}

func TestFold(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"", "", true}, {"name", "NAME", true}, {"name", "names", false}, {"name", "nome", false},
		{"k", "\u212a", true},
		{"s", "\u017f", true},
		{"ß", "ẞ", true}, {"ß", "ss", false}, {"Σ", "ς", true},
		{"İ", "i", false}, {"ı", "i", false}, {"é", "É", true},
		{"\u00e9", "e\u0301", false},
	} {
		if got := strings.EqualFold(tt.a, tt.b); got != tt.same {
			t.Errorf("%q and %q: compared, %t", tt.a, tt.b, got)
		}
		if got := jsonread.Fold(tt.a) == jsonread.Fold(tt.b); got != tt.same {
			t.Errorf("%q and %q: folded, %t", tt.a, tt.b, got)
		}
	}
}

// FuzzRead: what is accepted is what other libraries read too, with these names and values; nothing is accepted of a
// client that would not be of a server; and what is refused is refused in few words.
func FuzzRead(f *testing.F) {
	for _, text := range []string{`{"a":{"b":[1,"\u00e9"]},"c":null}`, `{"a":1,"A":2}`, `{"a":1} {}`,
		many(12, `"k":{"K":1}`), "{\"\u212a\":\"\",\"k\":1}"} {
		f.Add([]byte(text), uint8(2))
	}
	f.Fuzz(func(t *testing.T, text []byte, keep uint8) {
		given := bytes.Clone(text)
		strict, strictErr := jsonread.Strict(text, int(keep%4))
		lenient, lenientErr := jsonread.Lenient(text, int(keep%4))
		if !bytes.Equal(text, given) {
			t.Error("the text was changed")
		}
		for _, err := range []error{strictErr, lenientErr} {
			if err != nil && !errors.Is(err, jsonread.ErrMalformed) && !errors.Is(err, jsonread.ErrAmbiguous) &&
				!errors.Is(err, jsonread.ErrList) || err != nil && len(err.Error()) > 1000 {
				t.Errorf("it says %v", err)
			}
		}
		if strictErr == nil && (lenientErr != nil || written(strict) != written(lenient)) {
			t.Errorf("of a client it is %s, of a server %s, %v", written(strict), written(lenient), lenientErr)
		}
		if lenientErr == nil {
			sameAsOthers(t, text, lenient, int(keep%4))
		}
	})
}

func sameAsOthers(t *testing.T, text []byte, o jsonread.Object, keep int) {
	t.Helper()
	var want map[string]json.RawMessage
	if err := json.Unmarshal(text, &want); err != nil {
		t.Errorf("encoding/json refuses %q: %v", text, err)
		return
	}
	if keep == 0 {
		want = nil
	}
	if len(o) != len(want) {
		t.Errorf("%d members of %q are kept, of %d", len(o), text, len(want))
	}
	for _, m := range o {
		if !bytes.Equal(m.Value, want[m.Name]) {
			t.Errorf("%q is %s, and to encoding/json %s", m.Name, m.Value, want[m.Name])
		}
		if m.Value.Kind() == '{' && keep > 1 {
			sameAsOthers(t, m.Value, m.Members, keep-1)
		}
	}
}

// TestMemory checks that empty objects, of which a text can hold the most, take no memory of their own.
func TestMemory(t *testing.T) {
	text := []byte(strings.Replace(many(1000, `"last":{}`), ":1", ":{}", -1))
	if got := testing.AllocsPerRun(10, func() { _, _ = jsonread.Lenient(text, 2) }); got > 2500 {
		t.Errorf("%v allocations for 1000 empty objects", got)
	}
}

package vectors_test

import (
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/strictjson"
)

type canonicalVector struct {
	Name      string `json:"name"`
	Input     string `json:"input"`
	Canonical string `json:"canonical,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	Verdict   string `json:"verdict"`
}

type canonicalFile struct {
	About   string            `json:"about"`
	Vectors []canonicalVector `json:"vectors,omitempty"`
}

func (f canonicalFile) verify(v canonicalVector) string {
	got, err := strictjson.Canonical(must(b64.DecodeString(v.Input)))
	if err == nil && (string(got) != v.Canonical || evidence.HashBytes(got) != v.SHA256) {
		return "another canonical form: " + string(got)
	}
	return codeOf(err)
}

func canonicalVectors() canonicalFile {
	f := canonicalFile{About: "Posted JSON: see docs/vectors.md, The canonical form."}
	for _, v := range []struct{ name, input, want string }{
		{"names in another order", `{"to":"world","text":"hello"}`, `{"text":"hello","to":"world"}`},
		{"white space", " {\t\"a\" :\r\n[ 1 , 2 ] } ", `{"a":[1,2]}`},
		{"names by UTF-16 code units", "{\"\ufb33\":1,\"\U0001F600\":2,\"\u20ac\":3,\"a\":4,\"\":5}",
			"{\"\":5,\"a\":4,\"\u20ac\":3,\"\U0001F600\":2,\"\ufb33\":1}"},
		{"names inside of arrays and objects", `[{"b":{"d":1,"c":2},"a":3}]`, `[{"a":3,"b":{"c":2,"d":1}}]`},
		{"escapes of equal value", `"\u0041\u00e9\/\ud83d\ude00"`, "\"A\u00e9/\U0001F600\""},
		{"escapes that stay", "\"\\u0000\\b\\t\\n\\f\\r\\u001f\\\"\\\\\"", `"\u0000\b\t\n\f\r\u001f\"\\"`},
		{"characters that HTML and JavaScript fear", "\"<&>\u2028\u2029\x7f\"", "\"<&>\u2028\u2029\x7f\""},
		{"no normalisation", "\"e\u0301\"", "\"e\u0301\""},
		{"literals", `[true,false,null]`, `[true,false,null]`}, {"nothing in them", `[[],{},""]`, `[[],{},""]`},
		{"a text alone", `"x"`, `"x"`}, {"a number alone", `1`, `1`},
		{"whole numbers", `[1.0,1e2,100E-2,0.0,-0,-0.0,-1.50]`, `[1,100,1,0,0,0,-1.5]`},
		{"where exponents begin", `[100000000000000000000,1e21,0.000001,0.0000001]`,
			`[100000000000000000000,1e+21,0.000001,1e-7]`},
		{"the largest and the smallest", `[1.7976931348623157e308,5e-324]`, `[1.7976931348623157e+308,5e-324]`},
		{"the last integer of every integer's double", `[9007199254740991,9007199254740992,-9007199254740992]`,
			`[9007199254740991,9007199254740992,-9007199254740992]`},
		{"a fraction to the nearest double", `[0.1,333333333.33333329,0.30000000000000004]`,
			`[0.1,333333333.3333333,0.30000000000000004]`},
		{"a large number as its shortest decimal", `[1e23,295147905179352830000]`, `[1e+23,295147905179352830000]`},
		{"a name that JavaScript knows", `{"a":1,"__proto__":{"toString":2}}`, `{"__proto__":{"toString":2},"a":1}`},
		{"a number of 1100 characters", "0." + strings.Repeat("0", 1098), "0"},
		{"a number of 18 digits, of which the last are zeros", "9007199254740992.00", "9007199254740992"},
		{"100 levels", strings.Repeat("[", 100) + strings.Repeat("]", 100),
			strings.Repeat("[", 100) + strings.Repeat("]", 100)},
	} {
		f.Vectors = append(f.Vectors,
			canonicalVector{Name: v.name, Input: b64.EncodeToString([]byte(v.input)), Canonical: v.want,
				SHA256: evidence.HashBytes([]byte(v.want)), Verdict: "ok"})
	}
	for _, v := range []struct{ name, input string }{
		{"a name twice", `{"a":1,"a":2}`},
		{"a name twice, spelled otherwise", `{"a":1,"\u0061":1}`},
		{"a name twice, below", `[{"x":{"a":1,"b":2,"a":1}}]`},
		{"nothing", ``}, {"two texts", `{} {}`},
		{"a comma too many", `[1,]`},
		{"a comma missing", `[1 2]`}, {"a name without quotes", `{a:1}`},
		{"single quotes", `['a']`},
		{"a comment", `[1/**/]`}, {"no end", `[1`},
		{"no end of a text", `"a`},
		{"another literal", `[True]`}, {"NaN", `[NaN]`},
		{"a zero before", `[01]`}, {"no digit before the point", `[.5]`},
		{"no digit after the point", `[5.]`},
		{"a plus", `[+1]`}, {"hexadecimal", `[0x10]`},
		{"no digit in the exponent", `[1e+]`}, {"a sign alone", `-`},
		{"less than everything", `-Infinity`},
		{"an unknown escape", `"\a"`}, {"half an escape", `"\u12"`},
		{"a control character", "\"\x01\""},
		{"a tab in a text", "\"\t\""}, {"half a surrogate pair", `"\ud83d"`},
		{"a surrogate pair the wrong way", `"\ude00\ud83d"`},
		{"not UTF-8", "\"\xff\""}, {"an overlong form", "\"\xc0\xaf\""},
		{"a surrogate in UTF-8", "\"\xed\xa0\xbd\""},
		{"a byte order mark", "\xef\xbb\xbf[]"}, {"UTF-16", "\x00[\x00]"},
		{"white space that is none", "\u00a0[]"},
		{"the first integer that has no double", `9007199254740993`},
		{"a negative one", `[-9007199254740993]`},
		{"a double that is not the shortest decimal", `1152921504606846976`},
		{"too large", `1e400`},
		{"too small", `1e-400`}, {"many digits", `123456789012345678901234567890`},
		{"a number of 1101 characters", "0." + strings.Repeat("0", 1099)},
		{"an integer that has no double, as a fraction", `9007199254740993.0`},
		{"101 levels", strings.Repeat("[", 101) + strings.Repeat("]", 101)},
		{"101 levels of objects", strings.Repeat(`{"a":`, 101) + "1" + strings.Repeat("}", 101)},
	} {
		f.Vectors = append(f.Vectors,
			canonicalVector{Name: v.name, Input: b64.EncodeToString([]byte(v.input)), Verdict: "content_malformed"})
	}
	return f
}

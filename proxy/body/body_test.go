package body

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
)

func TestTurns(t *testing.T) {
	b := NewStore(0)
	var taken []func()
	for i := range runtime.GOMAXPROCS(0) {
		done, err := b.Turn(t.Context(), fmt.Sprint(i), small+1)
		check.Must(t, err)
		taken = append(taken, done)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Turn(over, "other", small+1)
	check.WantCode(t, err, "overloaded")
	done, err := b.Turn(over, "other", small)
	check.Must(t, err)
	done()
	taken[0]()
	done, err = b.Turn(t.Context(), "other", small+1)
	check.Must(t, err)
	done()
}

func TestMethodOverride(t *testing.T) {
	const form, parts = "application/x-www-form-urlencoded", "multipart/form-data; boundary=b"
	part := func(header string) string { return "--b\r\n" + header + "\r\n\r\n_method\r\n--b--\r\n" }
	for _, tt := range []struct{ kind, body, want string }{
		{form, "a=b&_method=DELETE", "_method"},
		{"Application/X-WWW-Form-Urlencoded; charset=utf-8", "%5fmethod=put", "_method"},
		{"", "_method=DELETE", "_method"}, {form, "payment_method=card&a=_method", ""}, {"text/plain", "_method=DELETE", ""},
		{"application/json", `{"a":1,"_method":"DELETE"}`, "_method"},
		{"application/vnd.api+json", `{"\u005fmethod":"DELETE"}`, "_method"},
		{"application/json", `{"_m\u0065thod":"DELETE"}`, "_method"},
		{"application/json", `{"method":"DELETE","a":{"_method":"DELETE"},"b":"_method"}`, ""},
		{"application/json", `["_method"]`, ""}, {"application/json", `{"_meth`, ""},
		{parts, part(`Content-Disposition: form-data; name="_method"`), "_method"},
		{parts, part(`content-disposition: form-data;` + "\r\n" + ` NAME = _METHOD`), "_METHOD"},
		{parts, part(`Content-Disposition: form-data; name='.method'`), ".method"},
		{parts, part(`Content-Disposition: form-data; name="payment_method"; filename="_method"`), ""},
		{parts, part(`Content-Disposition: form-data; name="page"`) + `<input name="_method">`, ""},
		{parts, "--b\r\n" + `Content-Disposition: form-data; name="page"` + "\r\n\r\n" + `<input name="_method">`, ""},
		{"text/plain", `{"_method":"DELETE"}`, "_method"}, {"", "\ufeff" + `{"_method":"DELETE"}`, "_method"},
		{"", `{"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `,"_method":"DELETE"}`, "_method"},
		{"", `{"a":"b", /* " */ "_m\u0065thod" : "DELETE"}`, "_method"}, {"", "{\"a\":\"\t\",\"_method\":1}", "_method"},
		{"", `{"a":NaN,"b":{"c":"_method"}}`, ""}, {"", `{"a":1,"_method"/**/:"DELETE"}`, "_method"},
		{"", `/* a */ {"_method":"DELETE"}`, "_method"}, {"", "\xff" + `{"_method":"DELETE"}`, "_method"},
		{"", units(`{"a":NaN,"_method":1}`, 2), "_method"},
		{"", units("\ufeff{\"a\":\"\u2200\u2200,\",\"_method\":\"DELETE\"}", 2), "_method"}, // U+2200 has the byte of a quote
		{"", units("{\"a\":\"\u2200\",\"_method\":\"DELETE\"}", 4), "_method"},
		{"", units("{\"a\":\"\u2200\",\"method\":1}", 2), ""},
		{"application/grpc", "\x00\x00\x00\x00{\"_method", ""},
		{"", "\xff\xfe{\x00\"\x00_\x00m\x00e\x00t\x00h\x00o\x00d\x00\"\x00:\x00", "_method"}, // UTF-16
		{"x/y", "\x00{\x00\"\x00_\x00m\x00e\x00t\x00h\x00o\x00d\x00\"\x00:", "_method"},
		{"", "\x00\x00\x00" + strings.Join(strings.Split(`{"_method":`, ""), "\x00\x00\x00"), "_method"}, // UTF-32
		// as PHP and Rack read them
		{form, strings.Repeat("+", 300) + "_method=DELETE", strings.Repeat(" ", 300) + "_method"},
		{form, strings.Repeat("%5B", 300) + "_method%5d=DELETE", strings.Repeat("[", 300) + "_method]"},
		{form + "; x=multipart", "_method=DELETE", "_method"}, {parts + "; x=json", `{"_method":"DELETE"}`, "_method"},
		{parts, part(`Content-Disposition: form-data; name="_method"` + "\r\n--x: y"), "_method"},
		{parts, part(" \r\n" + `Content-Disposition: form-data; name="_method"`), "_method"},
		{parts, "--b\n" + `Content-Disposition: form-data; name="_method"` + "\n\nDELETE\n--b--", "_method"},
		{parts, part("X: y\n\n" + `Content-Disposition: form-data; name="_method"`), "_method"},
		{parts, "\v" + part(`Content-Disposition: form-data; name="_method"`), "_method"},
		{parts, part(`Content-Disposition: form-data; name="` + strings.Repeat(" ", 300) + `_method"`), "_method"},
		{parts, part(`Content-Disposition: form-data; name="` + "\r\n" + ` _method"`), "_method"},
		{parts, part(`Content-Disposition: form-data; name="_method` + "\r\n" + `X: "`), "_method"},
		{parts, part(`Content-Disposition: form-data; name="\_method"`), "_method"},
		{parts, part(`Content-Disposition: form-data; name=[_method]`), "[_method"},
		{parts, part(`Content-Disposition: form-data; n\ame="_met` + "\n" + `hod"`), "_method"},
		{parts, "--b\r\n" + part(`Content-Disposition: form-data; name="_method"`), "_method"},
		{parts, "--b--Content-ID: _method\r\n\r\nDELETE\r\n--b--", "_method"},
		{parts, part(`Content-ID: _method`), "_method"},
	} {
		h := http.Header{}
		if tt.kind != "" {
			h.Set("Content-Type", tt.kind)
		}
		if got := methodOverride(http.MethodPost, h, []byte(tt.body)); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.kind, tt.body, got, tt.want)
		}
	}
}

func TestHiddenFields(t *testing.T) {
	const coding, kind, form = "Content-Encoding", "Content-Type", "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		method string
		header http.Header
		want   string
	}{
		{"POST", http.Header{coding: {"gzip"}}, coding},
		{"POST", http.Header{coding: {"identity, gzip"}}, coding},
		{"POST", http.Header{coding: {" Identity"}}, ""},
		{"PUT", http.Header{coding: {"gzip"}}, ""}, // no server takes another method for one that is not POST
		{"POST", http.Header{kind: {"application/json; charset=utf-7"}}, kind},
		{"POST", http.Header{kind: {form + `; Charset="UTF-16"`}}, kind},
		{"POST", http.Header{kind: {form + "; charset*=utf-8''utf-7"}}, kind},
		{"POST", http.Header{kind: {form + "; charset=utf-8, " + form + "; charset=ibm037"}}, kind},
		{"POST", http.Header{kind: {form, "text/plain; charset=utf-16"}}, kind},
		{"POST", http.Header{kind: {form + "; charset=UTF-8"}}, ""},
		{"POST", http.Header{kind: {form + "; charset=latin1"}}, ""},
		{"POST", http.Header{kind: {form + "; charset="}}, ""},
		{"PUT", http.Header{kind: {"text/html; charset=shift_jis"}}, ""},
		{"POST", http.Header{coding: {""}}, ""},
		{"POST", http.Header{kind: {`text/plain; charset = "iso-8859-15" ; x=y`}}, ""},
	} {
		if got := hidesFields(tt.method, tt.header); got != tt.want {
			t.Errorf("%s %v: got %q", tt.method, tt.header, got)
		}
	}
}

func FuzzMethodOverride(f *testing.F) {
	f.Add("application/json", []byte(`{"_method":"DELETE"}`))
	f.Add("multipart/form-data", []byte("--b\r\nContent-Disposition: form-data; name=_method\r\n\r\n"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		name := methodOverride(http.MethodPost, http.Header{"Content-Type": {kind}}, body)
		folded := wire.FoldParameter(name)
		if name != "" && folded != "_httpheaders" && !strings.Contains(folded, "method") {
			t.Errorf("%q is no method", name)
		}
	})
}

// units writes a text of ASCII and U+2200 in units of so many bytes, the least significant first.
func units(text string, size int) string {
	var b strings.Builder
	for _, c := range text {
		unit := make([]byte, size)
		unit[0], unit[1] = byte(c), byte(c>>8)
		b.Write(unit)
	}
	return b.String()
}

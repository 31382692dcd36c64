package echo_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/actionproof/mediator/proxy/echo"
	"github.com/actionproof/mediator/test/check"
)

const token = "sk+Qm/9Z'x=<&%41\"\\Kp-7_w.T~a"

func newSecret(t testing.TB, prefix, secret string) *echo.Secret {
	t.Helper()
	s, err := echo.New(prefix, secret, echo.Auto)
	check.Must(t, err)
	return s
}

// asJSON writes a JSON string and also escapes the characters in always.
func asJSON(s, always string) string {
	raw, _ := json.Marshal(s)
	for _, c := range always {
		raw = bytes.ReplaceAll(raw, []byte(string(c)), fmt.Appendf(nil, `\u%04X`, c))
	}
	return string(raw)
}

func asUTF16(s string) string {
	var b strings.Builder
	for _, c := range utf16.Encode([]rune(s)) {
		b.Write([]byte{byte(c), byte(c >> 8)})
	}
	return b.String()
}

// each formats each byte of a text.
func each(s, format string) (all string) {
	for _, b := range []byte(s) {
		all += fmt.Sprintf(format, b)
	}
	return all
}

// repeated has every way in which servers repeat a text.
func repeated(s string) map[string]string {
	php := strings.ReplaceAll(asJSON(s, ""), "/", `\/`)
	all := map[string]string{
		"as it is":        s,
		"in a line":       "Authorization: Bearer " + s + "\r\n",
		"in JSON":         asJSON(s, ""),
		"in JSON of PHP":  php,
		"in JSON of .NET": asJSON(s, "+'`"),
		"in JSON in JSON": asJSON(asJSON(s, ""), ""),
		"in JavaScript": strings.NewReplacer("+", `\x2B`, "'", `\'`, "/",
			`\x2f`).Replace(strings.ReplaceAll(s, `\`, `\\`)),
		"in a query":            "?token=" + url.QueryEscape(s) + "&x=1",
		"in a path":             "/a/" + url.PathEscape(s) + "/b",
		"in percent, all of it": each(s, "%%%02x"),
		"in HTML":               "<td>" + html.EscapeString(s) + "</td>",
		"in HTML, by numbers": strings.NewReplacer("+", "&#x2B;", "/", "&#047;", "=", "&#61", "'",
			"&apos;").Replace(html.EscapeString(s)),
		"in HTML that shows JSON":           html.EscapeString(php),
		"in a query in JSON":                asJSON("x=1&token="+url.QueryEscape(s), "&"),
		"in JSON of PHP in a query":         "?state=" + url.QueryEscape(php),
		"in JSON of .NET in a fragment":     "/cb#" + url.PathEscape(asJSON(s, "+'`")),
		"in HTML in a query":                "?page=" + url.QueryEscape(html.EscapeString(s)),
		"in JSON as hexadecimal characters": each(s, `\u%04x`),
		"in UTF-16":                         asUTF16(s),
		"in hex":                            hex.EncodeToString([]byte(s)),
		"in upper hex":                      strings.ToUpper(hex.EncodeToString([]byte(s))),
	}
	for i := range 3 {
		text := strings.Repeat("\xff", i) + s + "?>"
		all[fmt.Sprintf("in base64 after %d bytes", i)] = base64.StdEncoding.EncodeToString([]byte(text))
		all[fmt.Sprintf("in base64 of URLs after %d bytes", i)] = base64.RawURLEncoding.EncodeToString([]byte(text))
		all[fmt.Sprintf("in base64 in JSON of PHP after %d bytes", i)] = strings.ReplaceAll(
			base64.StdEncoding.EncodeToString([]byte(text)), "/", `\/`)
	}
	return all
}

func TestIn(t *testing.T) {
	for _, secret := range []string{token, "ghp_0123456789abcdefABCDEF0123456789abcd", "abcdefgh", "pass word/1+2",
		"eyJhbGciOiJFZERTQSJ9." + strings.Repeat("eyJpc3MiOiJhIn0", 60)} {
		s := newSecret(t, "Bearer ", secret)
		other := repeated(secret[:len(secret)-1] + "!")
		for way, text := range repeated(secret) {
			for _, around := range []string{"", " ", "x", `","a":"`, `\`, "%", "&", "\x00"} {
				if !s.In([]byte(around + text + around)) {
					t.Errorf("%.20q %s, in %q: not found in %.200q", secret, way, around, text)
				}
			}
			if s.In([]byte(other[way])) {
				t.Errorf("%.20q %s: found in %.200q, which has another end", secret, way, other[way])
			}
		}
	}
	s := newSecret(t, "", "a b+c/defg")
	if !s.In([]byte("token=" + url.QueryEscape("a b+c/defg"))) {
		t.Error("a space is not found as the plus of a form")
	}
}

// Only a part of a header's value is secret, and a server may repeat that part alone.
func TestWhatIsSecret(t *testing.T) {
	basic := func(pair string) string { return base64.StdEncoding.EncodeToString([]byte(pair)) }
	for _, tt := range []struct {
		name, prefix, secret string
		found, not           []string
	}{
		{"a token", "Bearer ", "0123456789", []string{"0123456789", "Bearer 0123456789"},
			[]string{"Bearer 012345678", "Bearer 1123456789"}},
		{"a token with its scheme", "", "Bearer 0123456789", []string{"0123456789"}, []string{"Bearer "}},
		{"a name and a token", "session=", "0123456789", []string{"0123456789"}, []string{"session="}},
		{"a name and a token after a scheme", "GoogleLogin auth=", "0123456789", []string{"0123456789"},
			[]string{"GoogleLogin auth="}},
		{"a phrase", "", "open sesame", []string{"open sesame", "open%20sesame", "open+sesame"},
			[]string{"sesame", "open", "opensesame"}},
		{"a password", "Basic ", basic("alice@example.com:0123456789"),
			[]string{"0123456789", basic("alice@example.com:0123456789")},
			[]string{"alice@example.com", "alice@example.com:"}},
		{"a password with its scheme", "", "basic " + basic("alice@example.com:0123456789"),
			[]string{"0123456789", basic("alice@example.com:0123456789")}, []string{"alice@example.com"}},
		{"a key as the user", "Basic ", basic("sk_0123456789:"), []string{"sk_0123456789", basic("sk_0123456789:")},
			[]string{"sk_012345678"}},
		{"a key beside a placeholder", "Basic ", basic("ghp_0123456789:x-oauth-basic"), []string{"ghp_0123456789"},
			[]string{"x-oauth-basic"}},
		{"a short pair", "Basic ", basic("alice:12345"), []string{"alice:12345", basic("alice:12345")},
			[]string{"alice", "12345"}},
		{"no Basic", "Basic ", "%%0123456789", []string{"%%0123456789"}, []string{"0123456789"}},
	} {
		s := newSecret(t, tt.prefix, tt.secret)
		for _, text := range tt.found {
			if !s.In([]byte(text)) {
				t.Errorf("%s: %q is not found", tt.name, text)
			}
		}
		for _, text := range tt.not {
			if s.In([]byte(text)) {
				t.Errorf("%s: %q is found", tt.name, text)
			}
		}
	}
	for _, short := range []struct{ prefix, secret string }{{"", ""}, {"Bearer ", "seven77"},
		{"a-long-prefix ", "seven77"}, {"Basic ", basic("a:12345")}} {
		if _, err := echo.New(short.prefix, short.secret, echo.Auto); err == nil {
			t.Errorf("%q is taken for a secret", short)
		}
	}
}

// Of a Basic credential only the configured half and the whole are found.
func TestHalves(t *testing.T) {
	basic := func(pair string) string { return base64.StdEncoding.EncodeToString([]byte(pair)) }
	const user, password = "user-0123456789", "password-0123456789"
	for _, tt := range []struct {
		half           echo.Half
		pair           string
		user, password bool // whether it is found
		refused        string
	}{
		{echo.Auto, user + ":" + password, false, true, ""},
		{echo.Password, user + ":" + password, false, true, ""},
		{echo.User, user + ":" + password, true, false, ""},
		{echo.Both, user + ":" + password, true, true, ""},
		{echo.User, user + ":x", true, false, ""},
		{echo.Password, user + ":api_token", false, false, ""}, // its author says that it is the secret
		{echo.Password, user + ":short", false, false, "fewer than 8 bytes"},
		{echo.User, "short:" + password, false, false, "fewer than 8 bytes"},
		{echo.Both, "short:" + password, false, false, "fewer than 8 bytes"},
		{"pasword", user + ":" + password, false, false, "not a part"},
	} {
		s, err := echo.New("Basic ", basic(tt.pair), tt.half)
		if tt.refused != "" {
			if err == nil || !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("%s of %s: %v", tt.half, tt.pair, err)
			}
			continue
		}
		check.Must(t, err)
		for text, want := range map[string]bool{user: tt.user, password: tt.password, basic(tt.pair): true} {
			if s.In([]byte(text)) != want {
				t.Errorf("%q of %s: found %v in %s", tt.half, tt.pair, !want, text)
			}
		}
	}
	for _, no := range [][2]string{{"Bearer ", basic(user + ":" + password)}, {"", "0123456789"},
		{"Basic ", "%%0123456789"}} {
		if _, err := echo.New(no[0], no[1], echo.User); err == nil ||
			!strings.Contains(err.Error(), "not a Basic credential") {
			t.Errorf("%q has a half: %v", no, err)
		}
	}
}

func TestSecretIsNotPrinted(t *testing.T) {
	s := newSecret(t, "", token)
	if got := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); got != "REDACTED REDACTED REDACTED REDACTED" {
		t.Errorf("it prints as %s", got)
	}
}

// pieces reads a text in pieces of the given sizes, the last of which recurs.
type pieces struct {
	text  string
	sizes []int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(b, p.text[:min(len(p.text), p.sizes[0])])
	if p.text = p.text[n:]; len(p.sizes) > 1 {
		p.sizes = p.sizes[1:]
	}
	return n, nil
}

// reads returns all that a reader gives, read by read, into buffers of size bytes.
func reads(r io.Reader, size int) (all []string, err error) {
	for buf := make([]byte, size); ; {
		n, err := r.Read(buf)
		if n > 0 {
			all = append(all, string(buf[:n]))
		}
		if err != nil {
			return all, err
		}
	}
}

// TestReader cuts a stream with the secret at every place. No part of the secret comes through.
func TestReader(t *testing.T) {
	const before, after = `{"a":"some text`, "more\" }\n"
	s := newSecret(t, "Bearer ", token)
	for way, text := range repeated(token) {
		whole := before + " " + text + " " + after
		begin := len(whole)
		for !s.In([]byte(whole[begin:])) {
			begin--
		}
		for cut := range whole {
			for _, size := range []int{7, 16 << 10} {
				for _, from := range []io.Reader{&pieces{whole, []int{cut + 1, 1 << 20}},
					iotest.DataErrReader(&pieces{whole, []int{cut + 1, 40}})} {
					all, err := reads(s.Reader(from), size)
					check.WantCode(t, err, "answer_withheld")
					if got := strings.Join(all, ""); !strings.HasPrefix(whole[:begin], got) {
						t.Fatalf("%s, cut at %d, read by %d: %q came through", way, cut, size, got)
					}
				}
			}
		}
	}
}

// Other text comes through unchanged in any pieces, and so does the final error.
func TestReaderPassesTheRest(t *testing.T) {
	s := newSecret(t, "Bearer ", token)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var text []byte
		for len(text) < 10000 {
			switch i := rng.IntN(len(token)); rng.IntN(4) {
			case 0:
				text = append(text, token[:i]...) // a beginning
			case 1:
				text = append(text, each(token[i:], `\u%04x`)...)
			case 2:
				text = append(text, strings.Repeat("A", rng.IntN(3000))...) // longer than the held part
			default:
				text = append(text, byte(rng.IntN(256)))
			}
			if s.In(text) {
				text = text[:0]
			}
		}
		for _, size := range []int{1 + rng.IntN(3), 512, 16 << 10} {
			broken := errors.New("broken")
			for _, end := range []error{io.EOF, broken} {
				all, err := reads(
					s.Reader(io.MultiReader(&pieces{string(text), []int{rng.IntN(100), 1 + rng.IntN(5000)}},
						iotest.ErrReader(end))), size)
				got := strings.Join(all, "")
				if !errors.Is(err, end) || end == io.EOF && got != string(text) ||
					!strings.HasPrefix(string(text), got) {
					t.Fatalf("read by %d: %d of %d bytes, %v", size, len(got), len(text), err)
				}
			}
		}
	}
}

func TestEventsAreNotHeldBack(t *testing.T) {
	s := newSecret(t, "Bearer ", token)
	events := []string{"data: {\"a\":\"" + token[:10] + "\"}\n\n", "data: " + token[:20] + "\n\n", "{\"watch\":1}\r\n",
		": ping\n", "\n"}
	var from []io.Reader
	for _, e := range events {
		from = append(from, strings.NewReader(e))
	}
	if all, err := reads(s.Reader(io.MultiReader(from...)), 1024); err != io.EOF || !slices.Equal(all, events) {
		t.Errorf("read %q, %v", all, err)
	}
}

// The held parts of a text reveal nothing about the secret, even to an agent that chooses the text and its pieces.
func TestTheSecretCannotBeTried(t *testing.T) {
	secret, other := newSecret(t, "", token), newSecret(t, "", strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r ^ 1
		}
		if r|0x20 >= 'a' && r|0x20 <= 'z' {
			return (r-1)&0x1f%26 + r&0x60 + 1
		}
		return r
	}, token))
	for n := range token {
		for _, begin := range []string{token[:n], base64.StdEncoding.EncodeToString([]byte(token[:n])),
			each(token[:n], `\u%04x`)} {
			text := "a guess: " + begin
			one, _ := reads(secret.Reader(&pieces{text + "! and what follows", []int{len(text), 3}}), 1024)
			two, _ := reads(other.Reader(&pieces{text + "! and what follows", []int{len(text), 3}}), 1024)
			if !slices.Equal(one, two) {
				t.Errorf("with %q the pieces are %q, and %q with another secret", begin, one, two)
			}
		}
	}
}

// TestSingleBytes counts the pieces of a long text without an end, which comes byte by byte: each costs a search of all
// that is held back.
func TestSingleBytes(t *testing.T) {
	s := newSecret(t, "Bearer ", "abcdefghij")
	const most = 20
	text := strings.Repeat("x", most*160) // each byte of the secret can be escaped by 16
	got, err := reads(s.Reader(iotest.OneByteReader(strings.NewReader(text))), 1<<10)
	if whole := strings.Join(got, ""); whole != text || len(got) > most || err != io.EOF { //nolint:errorlint // as read
		t.Errorf("%d bytes in %d pieces, %v", len(whole), len(got), err)
	}
}

func TestHides(t *testing.T) {
	for name, want := range map[string]bool{"Range": true, "If-Range": true, "Accept-Encoding": true, "Accept": false,
		"Content-Range": false} {
		if echo.Hides(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}

func TestGuard(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, token)
	check.Must(t, z.Close())
	s := newSecret(t, "Bearer ", token)
	for _, tt := range []struct {
		name, body, header, readCode string
		set                          func(*http.Response)
	}{
		{name: "harmless", body: "ok", set: func(r *http.Response) {
			r.Header = http.Header{"Content-Encoding": {"", "Identity"}, "Location": {"/a"}}
			r.Trailer = http.Header{"X-Sum": {"1"}}
		}},
		{name: "in the header", header: "answer_withheld", set: func(r *http.Response) {
			r.Header.Set("Location", "/?t="+url.QueryEscape(token))
		}},
		{name: "in the second value of a header", header: "answer_withheld", set: func(r *http.Response) {
			r.Header["X-Seen"] = []string{"a", "Bearer " + token}
		}},
		{name: "in the body", body: "you sent " + token, readCode: "answer_withheld"},
		{name: "in a trailer", body: "ok", readCode: "answer_withheld", set: func(r *http.Response) {
			r.Trailer = http.Header{"Grpc-Message": {url.PathEscape(token)}}
		}},
		{name: "compressed", body: packed.String(), header: "answer_withheld", set: func(r *http.Response) {
			r.Header.Set("Content-Encoding", "gzip")
		}},
		{name: "compressed twice", header: "answer_withheld", set: func(r *http.Response) {
			r.Header["Content-Encoding"] = []string{"identity", "br"}
		}},
		{name: "gRPC, compressed", header: "answer_withheld", set: func(r *http.Response) {
			r.Header.Set("Grpc-Encoding", "gzip")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := &http.Response{Header: http.Header{}, Body: io.NopCloser(strings.NewReader(tt.body))}
			if tt.set != nil {
				tt.set(resp)
			}
			if err := s.Guard(resp); tt.header != "" {
				check.WantCode(t, err, tt.header)
				return
			} else if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if strings.Contains(string(body), token[:4]) {
				t.Errorf("the body is %q", body)
			}
			if tt.readCode != "" {
				check.WantCode(t, err, tt.readCode)
				if strings.Contains(err.Error(), token[:4]) {
					t.Errorf("the error is %q", err)
				}
			} else if err != nil || string(body) != tt.body {
				t.Errorf("the body is %q, %v", body, err)
			}
			check.Must(t, resp.Body.Close())
		})
	}
}

// A stream with the secret is refused, and any other comes through whole.
func FuzzReader(f *testing.F) {
	f.Add([]byte("before "+token), uint8(3), uint16(100))
	f.Add([]byte(`"\u0073k`+token[2:]), uint8(1), uint16(1))
	f.Add([]byte("&#x73;%73\x00"+base64.StdEncoding.EncodeToString([]byte(token))), uint8(9), uint16(2))
	f.Add([]byte("abc def"), uint8(200), uint16(2)) // what is held back fills the caller's buffer
	s := newSecret(f, "", token)
	f.Fuzz(func(t *testing.T, text []byte, piece uint8, size uint16) {
		all, err := reads(s.Reader(&pieces{string(text), []int{1 + int(piece)}}), 1+int(size))
		got := strings.Join(all, "")
		if strings.Contains(got, token) || !strings.HasPrefix(string(text), got) {
			t.Fatalf("%q came through of %q", got, text)
		}
		if err == io.EOF && got != string(text) {
			t.Fatalf("%q came through of %q", got, text)
		}
		if err != io.EOF && !s.In(text) {
			t.Fatalf("%q holds no secret: %v", text, err)
		}
	})
}

func TestEscapedTwice(t *testing.T) {
	secret := "Q7v0Zk2mR9+xLwE4/tY8sBnm+Q=="
	s := newSecret(t, "Bearer ", secret)
	for name, text := range map[string]string{
		"percent twice": "next=%2Fcb%3Ft%3D" + url.QueryEscape(url.QueryEscape(secret)),
		"HTML twice": strings.NewReplacer("+", "&amp;#43;", "/", "&amp;#47;", "=",
			"&amp;#61;").Replace(secret),
		"JSON in JSON":         each(secret, `\\u%04x`),
		"hex in JSON":          each(hex.EncodeToString([]byte(secret)), `\u%04x`),
		"UTF-16 in JSON":       each(secret, `\u%04x\u0000`),
		"long HTML":            each(secret, `&#%05d;`),
		"hex in JSON in JSON":  each(hex.EncodeToString([]byte(secret)), `\\u%04x`),
		"long HTML as in JSON": strings.ReplaceAll(each(secret, `&#%05d;`), "&", `\u0026`),
	} {
		if !s.In([]byte(text)) {
			t.Errorf("%s: not found as a whole", name)
		}
		out, err := io.ReadAll(s.Reader(iotest.OneByteReader(strings.NewReader(text + `" and more`))))
		if err == nil || len(out) > len(text)-8 {
			t.Errorf("%s: byte by byte %d of %d bytes came through, %v", name, len(out), len(text), err)
		}
	}
}

func TestEmptyAnswers(t *testing.T) {
	s := newSecret(t, "Bearer ", "0123456789abcdef")
	for name, tt := range map[string]struct {
		status         int
		method, coding string
		refused        bool
	}{
		"compressed": {200, "GET", "gzip", true}, "two codings": {200, "GET", "identity, gzip", true},
		"not modified": {304, "GET", "gzip", false}, "no content": {204, "DELETE", "br", false},
		"HEAD": {200, "HEAD", "gzip", false}, "a charset": {200, "GET", "UTF-8", false}, "none": {200, "GET", "none", false},
	} {
		resp := &http.Response{StatusCode: tt.status, Header: http.Header{"Content-Encoding": {tt.coding}}, Body: http.NoBody,
			Request: &http.Request{Method: tt.method}}
		if err := s.Guard(resp); (err != nil) != tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	resp := &http.Response{StatusCode: 200, Header: http.Header{"X-0123456789abcdef": {"1"}}, Body: http.NoBody}
	if s.Guard(resp) == nil {
		t.Error("a header's name that holds the secret was passed on")
	}
}

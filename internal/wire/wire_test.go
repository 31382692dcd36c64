package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
)

type ask struct {
	N int `json:"n"`
}

func double(_ context.Context, a ask) (ask, error) {
	switch a.N {
	case 1:
		return ask{}, refusal.New("policy_denied", "one is denied")
	case 2:
		return ask{}, errors.New("a secret detail")
	}
	return ask{2 * a.N}, nil
}

func TestCall(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/double", wire.Handle(double))
	mux.HandleFunc("/html", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>", http.StatusBadGateway)
	})
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{")) })
	s := httptest.NewServer(mux)
	defer s.Close()
	p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
	for _, tt := range []struct {
		path string
		n    int
		code string
	}{
		{"/double", 4, ""}, {"/double", 1, "policy_denied"}, {"/double", 2, "internal"},
		{"/html", 0, "gate_unavailable"}, {"/broken", 0, "gate_unavailable"}, {"/absent", 0, "gate_unavailable"},
	} {
		var answer ask
		err := p.Call(t.Context(), s.URL+tt.path, ask{tt.n}, &answer)
		if refusal.CodeOf(err) != tt.code || tt.code == "" && (err != nil || answer.N != 8) {
			t.Errorf("%s %d: got %v, %v", tt.path, tt.n, answer, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret detail") {
			t.Error("the error tells what nobody classified")
		}
	}
	s.Close()
	if err := p.Call(t.Context(), s.URL+"/double", ask{}, &ask{}); refusal.CodeOf(err) != "gate_unavailable" {
		t.Errorf("got %v", err)
	}
}

func TestCallSaysWhy(t *testing.T) {
	hung := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/closes", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/hangs", func(http.ResponseWriter, *http.Request) { <-hung })
	s := httptest.NewServer(mux)
	defer s.Close()
	defer close(hung)
	unix := func(path string) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
			error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	}
	nameless := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn,
		error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	}}}
	file := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(file, nil, 0o600))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, tt := range []struct {
		ctx    context.Context
		client *http.Client
		url    string
		want   string
	}{
		{t.Context(), unix(file + "s"), "http://peer/", "the peer does not answer (no such file or directory)"},
		{t.Context(), unix(file), "http://peer/", "the peer does not answer (connection refused)"},
		{t.Context(), s.Client(), s.URL + "/closes", "the peer does not answer (the connection was closed or broke)"},
		{late, s.Client(), s.URL + "/hangs", "the peer does not answer (it took too long)"},
		{ended, s.Client(), s.URL + "/hangs", "the peer does not answer (the caller has gone)"},
		{t.Context(), s.Client(), "https" + strings.TrimPrefix(s.URL, "http") + "/double",
			"the peer does not answer (it speaks no TLS)"},
		{t.Context(), nameless, "http://no-such.example/", "the peer does not answer (its name cannot be resolved)"},
	} {
		err := wire.Peer{HTTP: tt.client, Name: "the peer", Unavailable: "gate_unavailable"}.Call(tt.ctx, tt.url, ask{},
			&ask{})
		if refusal.CodeOf(err) != "gate_unavailable" || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

func TestReadIsStrictAndBounded(t *testing.T) {
	s := httptest.NewServer(wire.Handle(double))
	defer s.Close()
	for name, body := range map[string]string{
		"an unknown member": `{"n":4,"m":1}`, "a duplicate": `{"n":4,"n":4}`, "another case": `{"N":4}`,
		"text after it": `{"n":4} x`, "nothing": ``,
		"too large": `{"n":4` + strings.Repeat(" ", wire.MaxRequest) + `}`, "too deep": strings.Repeat("[", 200),
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := http.Post(s.URL, "application/json", strings.NewReader(body))
			check.Must(t, err)
			defer resp.Body.Close()
			said, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != http.StatusBadRequest ||
				(name == "too large") != strings.Contains(string(said), "larger than 262144 bytes") {
				t.Errorf("got %d: %s, %v", resp.StatusCode, said, err)
			}
		})
	}
}

func TestReadOfAnyLength(t *testing.T) {
	s := httptest.NewServer(wire.Handle(double))
	defer s.Close()
	for head, want := range map[string]string{
		"Transfer-Encoding: chunked\r\n\r\n7\r\n{\"n\":4}\r\n0\r\n\r\n":                  "200 ",
		"Content-Length: 1099511627776\r\n\r\n" + strings.Repeat(" ", wire.MaxRequest+1): "400 ",
	} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		check.Must(t, err)
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"+head); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, len("HTTP/1.1 200 "))
		if _, err := io.ReadFull(c, answer); err != nil || !strings.HasSuffix(string(answer), want) {
			t.Errorf("%.40q: %q, %v", head, answer, err)
		}
		c.Close()
	}
}

func TestWriteOfWhatIsNoJSON(t *testing.T) {
	s := httptest.NewServer(wire.Handle(func(context.Context, ask) (float64, error) { return math.NaN(), nil }))
	defer s.Close()
	p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
	if err := p.Call(t.Context(), s.URL, ask{}, new(float64)); refusal.CodeOf(err) != "internal" {
		t.Errorf("an answer: %v", err)
	}
	var wrong *json.UnsupportedValueError
	if err := p.Call(t.Context(), s.URL, math.NaN(), new(float64)); !errors.As(err, &wrong) {
		t.Errorf("a request: %v", err)
	}
	var noURL *url.Error
	if err := p.Call(t.Context(), "http://%", ask{}, &ask{}); !errors.As(err, &noURL) {
		t.Errorf("no URL: %v", err)
	}
}

func TestCallReadsNoFurther(t *testing.T) {
	const whole = 64 << 20
	sent := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		defer func() { sent <- n }()
		for block := make([]byte, 1<<20); n < whole; n += len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/short", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, `{"n":4}`)
	})
	mux.HandleFunc("/bound", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"n":4}`+strings.Repeat(" ", wire.MaxAnswer-len(`{"n":4}`)))
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
	for path, want := range map[string]string{"/long": "broke off, or is larger", "/short": "broke off, or is larger",
		"/bound": ""} {
		err := p.Call(t.Context(), s.URL+path, ask{}, &ask{})
		if want == "" && err != nil || want != "" &&
			(refusal.CodeOf(err) != "gate_unavailable" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := <-sent; n == whole {
		t.Error("all of a long answer was read")
	}
}

func TestCheckJSON(t *testing.T) {
	for _, tt := range []struct {
		types, encodings []string
		want             string
	}{
		{[]string{"application/json"}, nil, ""}, {[]string{"Application/JSON; charset=UTF-8"}, []string{"Identity"},
			""},
		{[]string{"application/vnd.api+json; version=1"}, nil, ""},
		{nil, nil, "0 Content-Type headers"},
		{[]string{"application/json", "application/json"}, nil, "2 Content-Type headers"},
		{[]string{"text/plain"}, nil, "not a JSON type"}, {[]string{"application/jsonp"}, nil, "not a JSON type"},
		{[]string{"application/json; charset"}, nil, "not a JSON type"},
		{[]string{"application/json; charset=utf-16"}, nil, `"utf-16" is not UTF-8`},
		{[]string{"application/json; charset="}, nil, `not a JSON type`},
		{[]string{"application/json; charset*=iso-8859-1''utf-7"}, nil, `not a JSON type`},
		{[]string{"application/json; charset*0=utf-; charset*2=7"}, nil, `not a JSON type`},
		{[]string{"application/json"}, []string{"gzip"}, `Content-Encoding "gzip"`},
		{[]string{"application/json"}, []string{"identity", "identity"}, `Content-Encoding "identity, identity"`},
	} {
		err := wire.CheckJSON(http.Header{"Content-Type": tt.types, "Content-Encoding": tt.encodings})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%q, %q: %v", tt.types, tt.encodings, err)
		}
	}
}

func TestCallIsStrictAndBounded(t *testing.T) {
	type inner struct {
		A string `json:"a"`
	}
	type embedded struct {
		E int `json:"e"`
	}
	type answer struct {
		embedded
		List  []inner           `json:"list"`
		Map   map[string]inner  `json:"map"`
		Next  *inner            `json:"next"`
		Raw   json.RawMessage   `json:"raw"`
		Time  time.Time         `json:"time"`
		Bytes []byte            `json:"bytes"`
		Names map[string]string `json:"names"`
	}
	const whole = `{"e":1,"list":[{"a":"x"},{}],"map":{"k":{"a":"x"}},"next":{"a":"x"},` +
		`"raw":{"n":12345678901234567890},"time":"2026-11-20T12:00:00Z","bytes":"AA==","names":{}}`
	for name, tt := range map[string]struct {
		body string
		ok   bool
	}{
		"as asked": {whole, true}, "with white space": {" " + whole + "\n\n", true}, "nothing in it": {`{}`, true},
		"null in it":     {`{"list":null,"map":null,"next":null,"raw":null}`, true},
		"unknown member": {`{"x":1}`, false}, "unknown member in a list": {`{"list":[{"a":"x"},{"b":1}]}`, false},
		"unknown member in a map":         {`{"map":{"k":{"b":1}}}`, false},
		"unknown member behind a pointer": {`{"next":{"b":1}}`, false},
		"a member twice":                  {`{"e":1,"e":1}`, false}, "a key twice": {`{"names":{"k":"a","k":"b"}}`,
			false},
		"twice in what is kept as it is": {`{"raw":{"n":1,"n":[]}}`, false},
		"another case":                   {`{"List":[]}`, false},
		"text after it":                  {whole + `x`, false}, "two documents": {`{}{}`, false},
		"half of it":   {whole[:len(whole)-1], false},
		"empty":        {``, false},
		"another type": {`{"list":{}}`, false}, "no object": {`[]`, false},
		"too large": {`{}` + strings.Repeat(" ", wire.MaxAnswer), false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(tt.body))
		}))
		p := wire.Peer{HTTP: s.Client(), Name: "the peer", Unavailable: "gate_unavailable"}
		var got answer
		err := p.Call(t.Context(), s.URL, ask{}, &got)
		if tt.ok && err != nil || !tt.ok && refusal.CodeOf(err) != "gate_unavailable" {
			t.Errorf("%s: got %v", name, err)
		}
		if tt.body == whole &&
			(got.E != 1 || len(got.List) != 2 || got.Next.A != "x" || len(got.Raw) == 0 || got.Time.IsZero()) {
			t.Errorf("got %+v", got)
		}
		s.Close()
	}
}

func TestQueryOverride(t *testing.T) {
	for query, want := range map[string]string{
		"": "", "a=b&c": "", "method=flickr.photos.search": "", "method=get": "", "methods=post": "", "a=_method": "",
		"x_method=DELETE": "",
		"_method=DELETE":  "_method", "a=b&_METHOD=put": "_METHOD", "a=b;_method": "_method",
		"%5Fmethod=DELETE": "_method", "_HttpMethod=PATCH": "_HttpMethod",
		"httpHeaders=a": "", "%24httpHeaders=X-HTTP-Method-Override:DELETE%0d%0a": "$httpHeaders",
		"$httpMethod=POST": "$httpMethod", ".method=DELETE": ".method", "+_method=DELETE": " _method",
		"%5Bmethod=DELETE": "[method", "_method%00x=DELETE": "_method\x00x",
		"X-HTTP-Method-Override=DELETE": "X-HTTP-Method-Override", "method=post": "method", "Method=DELETE": "Method",
		"method=PUT":      "",
		"method=%70%4FST": "method", "method=+delete%20": "method", "method=%2570ost": "",
		"_method%00%=DELETE": "_method\x00%", "%5fmethod=%": "_method",
		"[_method]=a": "[_method]", "[x-http-method]=a": "[x-http-method]", "_x_method=DELETE": "", "%zz+%4=a&_method%2": "",
		"__METHOD_OVERRIDE__=POST": "__METHOD_OVERRIDE__", "_http_method=a": "_http_method",
		"methodOverride=a":    "methodOverride",
		"x-tunneled-method=a": "x-tunneled-method", "payment_method_override=a": "", "http_method=POST": "",
		"x-http-method=a": "x-http-method", "x-method-override=a": "x-method-override", "method=patch": "method",
	} {
		if got := wire.QueryOverride(http.MethodPut, query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}

func TestMethodOverride(t *testing.T) {
	for name, want := range map[string]bool{
		"X-HTTP-Method-Override": true, "x-http-method": true, "X-Method-Override": true,
		"X_HTTP_Method_Override": true, "X-Tunneled-Method": true, "Access-Control-Request-Method": false,
		"X.Http.Method": true, "x*http~method'override": true, "X-Http-Methods": false, "Accept": false,
	} {
		if got := wire.MethodOverride(http.Header{name: {""}, "Content-Type": {"a"}}); (got == name) != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
	for c := rune(' '); c < 0x7f; c++ {
		plain := c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		name := "X" + string(c) + "Http-Method"
		if got := wire.MethodOverride(http.Header{name: {""}}); (got == name) == plain {
			t.Errorf("%s: got %q", name, got)
		}
		if got := wire.QueryOverride(http.MethodGet, url.QueryEscape(name)+"=POST"); (got == name) == plain {
			t.Errorf("the parameter %s: got %q", name, got)
		}
	}
	if got := wire.QueryOverride(http.MethodGet, "method=put"); got != "method" {
		t.Errorf("method=put: got %q", got)
	}
	if wire.MethodOverride(nil) != "" {
		t.Error("there is an override without headers")
	}
}

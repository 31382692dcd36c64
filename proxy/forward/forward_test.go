package forward

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/actionproof/mediator/proxy/upstream"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
)

func TestForwardRequest(t *testing.T) {
	target := upstream.Target{Scheme: "https", Host: "a.example", Port: 8443}
	r := httptest.NewRequest(http.MethodPost, "/a%2Fb//c?x=1;2&y=%zz", strings.NewReader("body"))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Connection", "Authorization")
	r.Header.Set("Expect", "100-continue")
	r.Header.Set("ActionProof-Capability", "mine")
	for _, name := range []string{"Signature", "Signature-Input", "Signature-Agent"} {
		r.Header.Set(name, "mine")
	}
	r.Header["Host"] = []string{"b.example"}
	before := r.Header.Clone()
	out := Request(r.Context(), r, target, r.Body)
	if got := out.URL.String(); got != "https://a.example:8443/a%2Fb//c?x=1;2&y=%zz" {
		t.Errorf("URL %s", got)
	}
	if out.Host != "a.example:8443" || out.ContentLength != 4 || out.GetBody != nil || out.RequestURI != "" {
		t.Errorf("host %s, length %d", out.Host, out.ContentLength)
	}
	if len(out.Header) != 1 || out.Header["User-Agent"] != nil {
		t.Errorf("header %v", out.Header)
	}
	if len(r.Header) != len(before) {
		t.Error("the client's request was changed")
	}
	if none := Request(r.Context(), r, target, nil); none.Body != http.NoBody || none.ContentLength != 0 {
		t.Errorf("a request without body has %T, length %d", none.Body, none.ContentLength)
	}
	if other := Request(r.Context(), r, target, bytes.NewReader([]byte("x"))); other.GetBody != nil {
		t.Error("GetBody is set")
	}
}

func TestEmptyPostIsNotChunked(t *testing.T) {
	up := proxytest.NewUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Content-Length")+strings.Join(r.TransferEncoding, ","))
	}, proxytest.HTTP1)
	defer up.Close()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	_, host, _ := strings.Cut(up.URL, "://")
	target, err := upstream.ParseConnect(host)
	check.Must(t, err)
	out := Request(r.Context(), r, target, bytes.NewReader(nil))
	out.ContentLength = 0
	resp, err := proxytest.NewTransport(t, up.Server).RoundTrip(out)
	check.Must(t, err)
	proxytest.WantBody(t, resp, "0")
}

func TestRelayResponse(t *testing.T) {
	for _, test := range []struct {
		name, method, code string
		status             int
		body               io.Reader
		length, wantN      int64
		truncated          bool
		left               time.Duration // time left for the call; 0: any
	}{
		{name: "whole", method: "GET", status: 200, body: strings.NewReader("abc"), length: 3, wantN: 3},
		{name: "unknown length", method: "GET", status: 200, body: strings.NewReader("abc"), length: -1, wantN: 3},
		{name: "unknown length, in time", method: "GET", status: 200, body: strings.NewReader("abc"), length: -1,
			wantN: 3,
			left:  time.Minute},
		{name: "unknown length, ended as the time was up", method: "GET", status: 200, body: strings.NewReader("abc"),
			length: -1, wantN: 3, left: -1, code: "upstream_timeout"},
		{name: "all of it as the time was up", method: "GET", status: 200, body: strings.NewReader("abc"), length: 3,
			wantN: 3, left: -1},
		{name: "HEAD", method: "HEAD", status: 200, body: iotestErr{}, length: 3},
		{name: "no content", method: "GET", status: 204, body: iotestErr{}},
		{name: "not modified", method: "GET", status: 304, body: iotestErr{}, length: 3},
		{name: "broken", method: "GET", status: 200, body: io.MultiReader(strings.NewReader("ab"), iotestErr{}),
			length: 3,
			wantN:  2, code: "upstream_lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			rec.Header().Set("X-Ours", "ours")
			ctx := t.Context()
			if test.left != 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.left)
				defer cancel()
			}
			n, err := Relay(rec, &http.Response{
				StatusCode: test.status, ContentLength: test.length, Body: io.NopCloser(test.body),
				Request: (&http.Request{Method: test.method}).WithContext(ctx),
				Header:  http.Header{"X-Ours": {"theirs"}, "X-Theirs": {"theirs"}, "Transfer-Encoding": {"chunked"}},
			})
			if test.code != "" {
				check.WantCode(t, err, test.code)
			} else if err != nil {
				t.Error(err)
			}
			if n != test.wantN {
				t.Errorf("%d bytes", n)
			}
			h := rec.Header()
			if h.Get("X-Ours") != "ours" || h.Get("Transfer-Encoding") != "" || h.Get("X-Theirs") != "theirs" {
				t.Errorf("header %v", h)
			}
		})
	}
}

// iotestErr fails every read.
type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errors.New("broken at 10.0.0.1:443") }

func TestRelayToAClientThatIsGone(t *testing.T) {
	_, err := Relay(goneWriter{},
		&http.Response{StatusCode: 200, ContentLength: 3, Body: io.NopCloser(strings.NewReader("abc")),
			Header: http.Header{}})
	check.WantCode(t, err, "client_gone")
}

type goneWriter struct{}

func (goneWriter) Header() http.Header       { return http.Header{} }
func (goneWriter) WriteHeader(int)           {}
func (goneWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// unread is a client that reads nothing: a write to it ends at its deadline.
type unread struct {
	goneWriter
	deadline chan time.Time
}

func (u unread) Write(p []byte) (int, error) {
	time.Sleep(time.Until(<-u.deadline))
	return u.goneWriter.Write(p)
}

func (u unread) SetWriteDeadline(t time.Time) error {
	select {
	case u.deadline <- t:
	default: // no write waits
	}
	return nil
}

// TestRelayAfterTheCall: a call that has ended does not wait for its client.
func TestRelayAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		_, err := Relay(unread{deadline: make(chan time.Time)}, &http.Response{StatusCode: 200, ContentLength: 3,
			Body: io.NopCloser(strings.NewReader("abc")), Request: new(http.Request).WithContext(ctx)})
		check.WantCode(t, err, "client_gone")
		if took := time.Since(began); took > 2*time.Hour {
			t.Errorf("it took %s", took)
		}
	})
}

// slow is a client's connection whose deadline takes a minute to set.
type slow struct {
	*httptest.ResponseRecorder
	set chan struct{}
}

func (s slow) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() {
		time.Sleep(time.Minute)
		close(s.set)
	}
	return nil
}

type ending struct{ end func() }

func (e ending) Read(p []byte) (int, error) {
	e.end()
	time.Sleep(time.Second)
	return copy(p, "abc"), io.EOF
}

// TestNoDeadlineAfterRelay: net/http panics if a deadline is set after the handler, over HTTP/2.
func TestNoDeadlineAfterRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := slow{httptest.NewRecorder(), make(chan struct{})}
		_, err := Relay(w, &http.Response{StatusCode: 200, ContentLength: 3, Body: io.NopCloser(ending{cancel}),
			Request: new(http.Request).WithContext(ctx)})
		check.Must(t, err)
		select {
		case <-w.set:
		default:
			t.Error("the call's end still sets a deadline")
		}
	})
}

package proxy

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/load"
	"github.com/actionproof/mediator/proxy/match"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
)

// What the tests share, by short names.
var (
	must             = check.Must
	wantCode         = check.WantCode
	codeOf           = check.CodeOf
	isTimeout        = check.IsTimeout
	wantAnswer       = proxytest.WantAnswer
	loopback         = proxytest.Loopback
	newTestTransport = proxytest.NewTransport
	hostOf           = proxytest.HostOf
	portOf           = proxytest.PortOf
	at               = proxytest.At
	roundTripRaw     = proxytest.RoundTripRaw
	readRaw          = proxytest.ReadRaw
	newFrames        = proxytest.NewFrames
	answerText       = proxytest.AnswerText
	newUpstream      = proxytest.NewUpstream
	mustGet          = proxytest.MustGet
	wantBody         = proxytest.WantBody
	poolOf           = proxytest.PoolOf
	get              = proxytest.Get
)

type (
	rig      = proxytest.Rig
	names    = proxytest.Names
	protocol = proxytest.Protocol
	Load     = load.Limits
	Rate     = load.Rate
)

const (
	maxRate = load.MaxRate
	ownURL  = "http://" + InternalHost
)

// unlimited is for fast machines.
var unlimited = Load{Session: Rate{PerSecond: maxRate}, Host: Rate{PerSecond: maxRate}, Refused: 1 << 20}

const (
	http1      = proxytest.HTTP1
	http2      = proxytest.HTTP2
	codeHeader = proxytest.CodeHeader
)

// newRig starts a proxy that forwards everything; change may alter its options.
func newRig(t testing.TB, change func(*intercept.Options), upstreams ...*httptest.Server) *rig {
	t.Helper()
	return proxytest.New(t, func(o *intercept.Options) {
		o.Handler = forwarding(newTestTransport(t, upstreams...))
		if change != nil {
			change(o)
		}
	}, upstreams...)
}

func forwarding(transport http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, ok := intercept.RouteFrom(r.Context())
		if !ok {
			panic("no route")
		}
		resp, err := transport.RoundTrip(forward.Request(r.Context(), r, route.Target, r.Body))
		if err != nil {
			proxytest.Refuse(w, r, err)
			return
		}
		defer resp.Body.Close()
		if _, err := forward.Relay(w, resp); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
}

func matching(t testing.TB, url string, methods ...string) match.Match {
	t.Helper()
	m, err := match.Parse(url, methods)
	must(t, err)
	return m
}

func rulesFor(t testing.TB, actions []rules.Action, egress []rules.Egress) *rules.Rules {
	t.Helper()
	rules, err := rules.New(actions, egress, nil)
	must(t, err)
	return rules
}

// flush writes texts and sends what is written.
func flush(w http.ResponseWriter, texts ...string) {
	for _, text := range texts {
		_, _ = io.WriteString(w, text)
	}
	_ = http.NewResponseController(w).Flush()
}

// eventually waits until done returns true.
func eventually(t testing.TB, done func() bool, format string, args ...any) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf(format, args...)
		}
	}
}

// basic returns proxy credentials.
func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

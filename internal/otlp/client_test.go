package otlp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	proto "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/test/check"
)

// refused is an ExportTraceServiceResponse.
func refused(n uint64, why string) string {
	partial := protowire.AppendTag(nil, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, n)
	partial = protowire.AppendTag(partial, 2, protowire.BytesType)
	partial = protowire.AppendString(partial, why)
	return string(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
}

func TestSend(t *testing.T) {
	for name, test := range map[string]struct {
		status       int
		answer, want string // want is the error, if any
	}{
		"taken":             {200, "", ""},
		"taken with advice": {200, refused(0, "slower"), ""},
		"taken in part":     {200, refused(3, "too\nold"), `the collector refused 3 items: "too\nold"`},
		"refused":           {400, "secret detail", "the collector answered with status 400"},
		"busy":              {429, "", "the collector answered with status 429"},
		"moved":             {307, "", "the collector answered with status 307"},
		"a long answer":     {200, strings.Repeat("x", 10<<20), "the collector's answer is larger than 65536 bytes"},
		"another answer":    {200, "<html>", "the collector's answer is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || len(body) == 0 || r.URL.Path != "/base/v1/traces" ||
					r.Header.Get("X-Key") != "secret" || r.Header.Get("Content-Type") != "application/x-protobuf" {
					t.Errorf("got %s %v %d bytes, %v", r.URL, r.Header, len(body), err)
				}
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.answer)
			}))
			defer s.Close()
			c := otlp.NewClient(otlp.Collector{Endpoint: s.URL + "/base/", Header: http.Header{"X-Key": {"secret"}}})
			defer c.Close()
			err := c.Send(t.Context(), "/v1/traces",
				&proto.TracesData{ResourceSpans: []*proto.ResourceSpans{{SchemaUrl: "x"}}})
			got := ""
			if err != nil {
				got = err.Error()
			}
			check.WantEqual(t, got, test.want)
			var part *otlp.RejectedError
			check.WantEqual(t, errors.As(err, &part), name == "taken in part")
		})
	}
}

func TestWaitOf(t *testing.T) {
	for after, want := range map[string]time.Duration{"": 0, "soon": 0, "-1": 0, "1.5": 0, "0": 0,
		"30": 30 * time.Second, "4294967295": otlp.MaxWait, "99999999999": 0, "Sun, 06 Nov 1994 08:49:37 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": otlp.MaxWait} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(http.StatusTooManyRequests)
		}))
		c := otlp.NewClient(otlp.Collector{Endpoint: s.URL})
		if got := otlp.WaitOf(c.Send(t.Context(), "/v1/logs", new(proto.TracesData))); got != want {
			t.Errorf("%q is %v, want %v", after, got, want)
		}
		c.Close()
		s.Close()
	}
}

func TestEnded(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := otlp.NewClient(otlp.Collector{Endpoint: "http://127.0.0.1:1"}).Send(ended, "/v1/traces",
		new(proto.TracesData))
	if err == nil || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}

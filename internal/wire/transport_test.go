package wire_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/test/check"
)

func TestTransports(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
			return
		}
		_, _ = io.WriteString(w, "shown: "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	next := server.Client().Transport
	for name, c := range map[string]struct {
		transport http.RoundTripper
		path      string
		status    int
		body      string
	}{
		"no token":       {wire.Bearer("", next), "/", 200, "shown: "},
		"a token":        {wire.Bearer("secret", next), "/", 200, "shown: Bearer secret"},
		"a short answer": {wire.Bounded(7, next), "/", 200, "shown: "},
		"a long answer":  {wire.Bounded(6, next), "/", 200, "shown:"},
		"a redirect":     {wire.Bearer("secret", wire.Bounded(0, next)), "/away", 307, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequest(http.MethodGet, server.URL+c.path, nil)
			check.Must(t, err)
			resp, err := (&http.Client{Transport: c.transport, CheckRedirect: wire.Stay}).Do(req)
			check.Must(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			check.Must(t, err)
			check.WantEqual(t, resp.StatusCode, c.status)
			check.WantEqual(t, string(body), c.body)
			check.WantEqual(t, req.Header.Get("Authorization"), "") // the caller's request stays as it was
		})
	}
}

package operate

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/test/check"
)

// TestUnused asks a sidecar for the calls of 30 days, of which it may have fewer.
func TestUnused(t *testing.T) {
	named := []config.Egress{{Rule: config.Rule{Name: "used"}}, {Rule: config.Rule{Name: "unused"}}}
	for name, tt := range map[string]struct{ before, since, want string }{
		"an old record":                 {`[{"id":"1"}]`, `[{"id":"2","rule":"used"}]`, "egress[1]"},
		"a new record":                  {`[]`, `[{"id":"2","rule":"used"}]`, ""},
		"a list that breaks off":        {`[{"id":"1"}]`, `[{"id":"2","rule":"used"},`, ""},
		"a rule of each":                {`[{"id":"1"}]`, `[{"rule":"unused"},{"rule":"used"}]`, ""},
		"another program at the socket": {`nothing`, `nothing`, ""},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", socket)
		check.Must(t, err)
		sidecar := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := tt.since
			if r.URL.Query().Has("until") {
				answer = tt.before
			}
			_, _ = io.WriteString(w, answer)
		}))
		sidecar.Listener = l
		sidecar.Start()
		c := &config.Sidecar{Admin: config.Admin{Endpoint: config.Endpoint{Unix: socket}}, Egress: named,
			EgressRules: []rules.Egress{{Name: "used"}, {Name: "unused"}}}
		got := ""
		for _, w := range unused(t.Context(), c, time.Now()) {
			got += w.Key
		}
		sidecar.Close()
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if more := unused(t.Context(), c, time.Now()); more != nil {
			t.Errorf("%s: without the sidecar: %v", name, more)
		}
	}
}

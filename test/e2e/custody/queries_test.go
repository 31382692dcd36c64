package custody

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"go.yaml.in/yaml/v4"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
	"github.com/actionproof/mediator/test/tlstest"
)

const (
	alertRules = "../../../deploy/helm/mediator/files/mediator.rules.yaml"
	alertTests = "testdata/mediator.test.yaml"
	board      = "../../../deploy/helm/mediator/files/mediator.json"
)

type rulesFile struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
	Tests []struct {
		Rules []struct {
			Alert string `yaml:"alertname"`
			Fires []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func readRules(t *testing.T, path string) (f rulesFile) {
	t.Helper()
	check.Must(t, yaml.Unmarshal(kit.Read(t, path), &f))
	return f
}

// Each alert has a test in which it fires.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	full.Only(t, "promtool")
	for _, args := range [][]string{{"check", "rules", alertRules}, {"test", "rules", alertTests}} {
		if out, err := exec.CommandContext(t.Context(), "promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tested := make(map[string]bool)
	for _, test := range readRules(t, alertTests).Tests {
		for _, r := range test.Rules {
			tested[r.Alert] = tested[r.Alert] || len(r.Fires) > 0
		}
	}
	for _, g := range readRules(t, alertRules).Groups {
		for _, r := range g.Rules {
			if !tested[r.Alert] {
				t.Errorf("%s has no test in which it fires", r.Alert)
			}
		}
	}
}

type metricLabels map[string]map[string]bool

var (
	exportedSample = regexp.MustCompile(`(?m)^([a-z_]+)(?:\{(.*)\})? (\S+)$`)
	exportedLabel  = regexp.MustCompile(`(?:^|,)([a-z_0-9]+)="`)
)

func (m metricLabels) scrape(t *testing.T, metrics io.Reader) map[string][]string {
	t.Helper()
	raw, err := io.ReadAll(metrics)
	check.Must(t, err)
	values := make(map[string][]string)
	for _, s := range exportedSample.FindAllStringSubmatch(string(raw), -1) {
		if m[s[1]] == nil {
			m[s[1]] = map[string]bool{"instance": true, "job": true} // from Prometheus
		}
		for _, l := range exportedLabel.FindAllStringSubmatch(s[2], -1) {
			m[s[1]][l[1]] = true
		}
		values[s[1]] = append(values[s[1]], s[3])
	}
	return values
}

// The processes export every metric and label in the alert rules and the board.
func TestQueries(t *testing.T) {
	t.Parallel()
	exported := make(metricLabels)
	v := newVaultRig(t, withLog, func(file string) string {
		return strings.NewReplacer("  - name: reads\n", "  - name: reads\n    expires: 2099-01-31\n",
			"\nactions:", "\nauditExport: {file: state/audit.jsonl}\nactions:").Replace(file)
	})
	v.OpenAgent(t).MustPost(t)
	for name, keys := range map[string]int{"trigger": 2, "control": 2, "serve": 4, "reputation": 1} {
		values := exported.scrape(t, strings.NewReader(kit.Metrics(t, v.Stack.Socket(name))))
		for metric, want := range map[string]int{
			"mediator_vault_reachable": keys, "mediator_signing_version": keys, "mediator_signing_version_created_seconds": keys,
			"mediator_key_versions":              keys,
			"mediator_vault_token_until_seconds": keys, "mediator_vault_certificate_until_seconds": 1,
		} {
			if got := values[metric]; len(got) < want || slices.Contains(got, "0") {
				t.Errorf("%s exports %s: %v", name, metric, got)
			}
		}
	}
	withRevocations(t, exported)
	withDisputes(t, exported)

	queries := boardQueries(t)
	for _, g := range readRules(t, alertRules).Groups {
		for _, r := range g.Rules {
			queries = append(queries, r.Expr)
		}
	}
	for _, q := range queries {
		checkQuery(t, q, exported)
	}
	// The queries use every metric about trust, keys and Vault.
	all := strings.Join(queries, "\n")
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		if strings.HasSuffix(name, "_until_seconds") && !strings.Contains(all, name) {
			t.Errorf("no query asks for %s", name)
		}
	}
}

var (
	selector = regexp.MustCompile(`\b((?:mediator|go|process)_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping = regexp.MustCompile(`\b(?:by|on|ignoring|without)\s*\(([^)]*)\)`)
)

func checkQuery(t *testing.T, query string, exported metricLabels) {
	t.Helper()
	labels := make(map[string]bool) // of all metrics of the query
	found := selector.FindAllStringSubmatch(query, -1)
	for _, m := range found {
		of, ok := exported[m[1]]
		if !ok {
			t.Errorf("%s: no process exports %s", query, m[1])
		}
		maps.Copy(labels, of)
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !of[l[1]] {
				t.Errorf("%s: %s has no label %s", query, m[1], l[1])
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("%s: it asks for nothing", query)
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			if !labels[strings.TrimSpace(l)] {
				t.Errorf("%s: no metric of it has the label %s", query, l)
			}
		}
	}
}

func boardQueries(t *testing.T) (queries []string) {
	t.Helper()
	var b struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	check.Must(t, json.Unmarshal(kit.Read(t, board), &b))
	for _, p := range b.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("the panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			queries = append(queries, target.Expr)
		}
	}
	if len(queries) < 10 {
		t.Errorf("the board has %d queries", len(queries))
	}
	return queries
}

func withRevocations(t *testing.T, exported metricLabels) {
	t.Helper()
	k := gatetest.NewAt(t, time.Now())
	k.Revoke(t, evidence.Revocation{Kind: evidence.RevokedArtifact, ID: "artifact"})
	f := k.Files(t, t.TempDir())
	c := config.Trust{Registry: f.Registry, Auditor: f.Auditor, Bundle: f.Bundle}
	files := tlstest.New(t).Write(t, t.TempDir(), nil, "spiffe://example.org/service/control")
	tls := config.TLS{Certificate: files.Certificate, Key: files.Key, Authorities: files.Authorities}
	p, err := daemon.New(t.Context(), zap.NewNop(), config.Process{TLS: &tls})
	check.Must(t, err)
	_, err = p.WaitForDeployment(t.Context(), daemon.Plan{Process: config.Process{Trust: c}})
	check.Must(t, err)
	w := httptest.NewRecorder()
	p.Mux().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	exported.scrape(t, w.Body)
}

func withDisputes(t *testing.T, exported metricLabels) {
	t.Helper()
	r := prometheus.NewRegistry()
	n := nodetest.New(t, gatetest.New(t), nil, func(o *reputation.Options) { o.Metrics = r })
	agent := n.Kit.Agent(t).String()
	_, err := n.Publish(t.Context(), n.Says(t, n.SignalOf(agent, "s-1")))
	check.Must(t, err)
	_, err = n.File(t.Context(), n.Says(t, n.Contract(agent, "c-1", "s-1")))
	gatetest.WantCode(t, err, "dispute_refused")
	receipts := n.Calls(t, "ses_1", 2).Receipts
	gatetest.WantCode(t, n.Deliver(t, receipts[1]).Err, "chain_incomplete")
	n.Delivered(t, 2, receipts[0])
	_, err = n.Reputation(t.Context(), agent)
	check.Must(t, err)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	exported.scrape(t, w.Body)
}

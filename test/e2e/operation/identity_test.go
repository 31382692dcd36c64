package operation

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/endpoint"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/tlstest"
	"github.com/actionproof/mediator/trigger"
)

// TestPods runs two sidecars with one configuration, manifest and bundle. Both take their names from their
// certificates, and reach the services over TLS. All certificates are rotated while they post.
func TestPods(t *testing.T) {
	t.Parallel()
	at := make(map[string]string)
	for _, name := range []string{"trigger", "control", "probes"} {
		var err error
		at[name], err = freeport.Address()
		check.Must(t, err)
	}
	const tls = "\ntls: {certificate: tls/NAME/bundle.pem, key: tls/NAME/bundle.pem, authorities: " +
		"tls/NAME/authorities.pem}\n"
	listens := func(name string) string {
		return fmt.Sprintf("internal: {tcp: %q, callers: [%q, %q]}", at[name], "spiffe://example.org/pod/agents/*",
			"spiffe://example.org/operator") + strings.ReplaceAll(tls, "NAME", name)
	}
	named := regexp.MustCompile(`allowedKeyIds: \[((?:runtime|session|request-proof|interaction-receipt)-key)\]`)
	r := kit.PrepareClientsRig(t, kit.ManyPosts, func(file string) string {
		file = named.ReplaceAllString(file, "allowedKeyIds: [$1/*]")
		return strings.NewReplacer(
			"runtime: worker-1\n", strings.ReplaceAll(tls, "NAME", "pod"), "[worker-1]", "[pod/agents/*]",
			"internal: {unix: run/trigger.sock}", listens("trigger"),
			"internal: {unix: run/control.sock}", listens("control")+"probes: {listen: \""+at["probes"]+"\"}\n",
			"{unix: run/trigger.sock}", fmt.Sprintf("{tcp: %q}", at["trigger"]),
			"{unix: run/control.sock}",
			fmt.Sprintf("{tcp: %q, name: %q}", at["control"], "spiffe://example.org/service/control"),
		).Replace(file)
	})
	first, second := r.Dir, t.TempDir()
	check.Must(t, errors.Join(os.MkdirAll(second+"/run", 0o700), os.MkdirAll(second+"/state", 0o700)))
	for _, name := range []string{devstack.SidecarFile, devstack.ManifestFile, devstack.PolicyFile, devstack.BundleFile,
		devstack.RegistryFile, devstack.AuditorFile, "secrets", "api-ca.pem"} {
		check.Must(t, os.Symlink(filepath.Join(first, name), filepath.Join(second, name)))
	}
	kit.Edit(t, r.In(devstack.SidecarFile), "listen: "+r.Listen, "listen: 127.0.0.1:0")

	authority := tlstest.New(t)
	dirs := map[string]string{
		"spiffe://example.org/pod/agents/one": first + "/tls/pod", "spiffe://example.org/pod/agents/two": second + "/tls/pod",
		"spiffe://example.org/service/trigger": first + "/tls/trigger",
		"spiffe://example.org/service/control": first + "/tls/control",
		"spiffe://example.org/operator":        first + "/tls/operator",
	}
	rotate := func() {
		for id, dir := range dirs {
			authority.Write(t, dir, nil, id)
		}
	}
	rotate()
	operator := r.In("tls/operator/client.yaml")
	kit.Write(t, operator, "certificate: bundle.pem\nkey: bundle.pem\nauthorities: authorities.pem\n")

	r.Stack = devstack.New(first)
	other := devstack.New(second)
	t.Cleanup(func() { other.Stop(); r.Stack.Stop() })
	manifest, err := r.Stack.PinHashes()
	check.Must(t, err)
	var endpoints []string
	for _, p := range []struct {
		of         *devstack.Stack
		name, file string
	}{{r.Stack, "trigger", devstack.TriggerFile}, {r.Stack, "control", devstack.ControlFile},
		{r.Stack, "serve", devstack.SidecarFile}, {other, "serve", devstack.SidecarFile}} {
		check.Must(t, p.of.StartProcess(p.name, p.file))
		started := p.of.Processes[len(p.of.Processes)-1]
		if over := at[p.name]; over != "" {
			started.Endpoint = "https://" + over + "," + operator
		}
		check.Must(t, p.of.WaitFor(t.Context(), started, "/healthz"))
		endpoints = append(endpoints, started.Endpoint)
	}
	registry, _, err := keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	r.Stack.Auditor, _, err = keyring.GenerateRoot("auditor", false)
	check.Must(t, err)
	published, err := keyring.ReadPublished(t.Context(), endpoints)
	check.Must(t, err)
	_, err = r.Stack.WriteTrust(t.Context(), manifest, registry, published)
	check.Must(t, err)

	says := regexp.MustCompile(`"proxy":"(127\.0\.0\.1:\d+)"`)
	var agents []kit.Agent
	for _, s := range []*devstack.Stack{r.Stack, other} {
		check.Must(t, s.WaitFor(t.Context(), s.Processes[len(s.Processes)-1], "/readyz"))
		var listen string
		kit.Until(t, "the sidecar to say where it listens", func() bool {
			found := says.FindSubmatch(kit.Read(t, s.Dir+"/serve.log"))
			if found != nil {
				listen = string(found[1])
			}
			return found != nil
		})
		agents = append(agents, r.OpenAgentAt(t, s.Admin(), func(s *admin.Session) {
			s.ProxyURL = strings.Replace(s.ProxyURL, "127.0.0.1:0", listen, 1)
		}))
	}
	taken := func(n int) bool {
		for _, log := range []string{first + "/trigger.log", first + "/control.log", first + "/serve.log",
			second + "/serve.log"} {
			if bytes.Count(kit.Read(t, log), []byte("TLS certificate taken over")) < n {
				return false
			}
		}
		return true
	}
	posts := 0
	for n := range 3 {
		if n > 0 {
			rotate()
		}
		for done := false; !done; posts++ {
			done = taken(n) // and then one more of each
			agents[0].MustPost(t)
			agents[1].MustPost(t)
		}
	}
	check.WantEqual(t, r.Posts.Load(), int64(2*posts))
	for i, s := range []*devstack.Stack{r.Stack, other} {
		name := []string{"one", "two"}[i]
		out := kit.Run(t, "posts", "list", "--admin", s.Admin(), "--keys")
		if !strings.Contains(out, "runtime-key/"+name+":v1") {
			t.Errorf("the key of pod %s is not in its record: %s", name, out)
		}
	}

	// The second pod cannot ask in the name of the first, nor for its event.
	id, err := identity.Load(authority.Write(t, t.TempDir(), nil, "spiffe://example.org/pod/agents/two"))
	check.Must(t, err)
	client, base := endpoint.Client(config.Peer{TCP: at["trigger"]}, id)
	defer client.CloseIdleConnections()
	triggers := trigger.NewClient(base, client)
	_, err = triggers.Done(t.Context(), agents[0].Event, "pod/agents/one")
	check.WantCode(t, err, "runtime_foreign")
	_, err = triggers.Done(t.Context(), agents[0].Event, "pod/agents/two")
	check.WantCode(t, err, "event_closed")

	for path, status := range map[string]int{"/metrics": 200, "/healthz": 200, "/startupz": 200, "/readyz": 200,
		"/v1/roles": 404, "/v1/looks": 404, "/v1/decide": 404, "/v1/reload": 404} {
		resp, err := http.Get("http://" + at["probes"] + path)
		check.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("GET %s is answered with %d by the probes", path, resp.StatusCode)
		}
	}
	kit.Mediator(t, "reload", endpoints[1]).Done()
	kit.Mediator(t, "reload", "https://"+at["control"]).Misused()
	kit.Write(t, operator, "certificate: bundle.pem\nkey: bundle.pem\nauthorities: authorities.pem\nname: other.example\n")
	kit.Mediator(t, "reload", endpoints[1]).Refused("not valid for other.example")
}

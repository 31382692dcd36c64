package runs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// An agent that no client setting helps learns with curl as it is.
func TestLearningRun(t *testing.T) {
	t.Parallel()
	kit.NeedRoot(t)
	r := kit.NewClientsRig(t, func(file string) string {
		file = strings.Replace(file, "\nactions:", "\nsession: {learning: true}\nactions:", 1)
		return strings.Replace(file, `/**", methods: [GET, HEAD]`, `/other/**", methods: [GET]`, 1)
	})
	event := r.Event(t)
	learn := func(change func(*exec.Cmd), flags ...string) (said string, err error) {
		cmd := r.RunCommand(t, "", append(flags, "--learn"), "sh", "-c", `
curl -sS "https://$0/repos/acme/site?page=2&secret"
curl -sS -H 'Content-Type: application/json' -d '{"body":"x"}' "https://$0`+kit.Comments+`"
curl -sS -H 'Content-Type: application/json' "https://$0/mcp" \
  -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay"}}'
curl -sS -F file=@/etc/hostname "https://$0/upload"
curl -sS --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' "https://$0/socket"
curl -sS https://no-rule.invalid/
curl -sS http://169.254.169.254/latest/
curl -sS --unix-socket "$1" -d '{"learning":true}' http://x/v1/sessions || true`, r.Plain(), r.Stack.Socket("serve"))
		if change != nil {
			change(cmd)
		}
		out, errs, err := kit.Output(cmd)
		return out + errs, err
	}
	before := len(r.Records(t, "limit=1000"))
	said, err := learn(nil)
	check.Must(t, err)
	all := r.Records(t, "oldestFirst=true&limit=1000")[before:]
	var got []string
	for _, rec := range all {
		got = append(got, strings.Join([]string{string(rec.State), rec.Code, rec.Unfit}, " "))
		if !rec.Learning || rec.Event != "" || len(rec.Artifacts) > 0 || rec.Interactions != nil {
			t.Errorf("recorded %+v", rec)
		}
	}
	if want := []string{
		"forwarded  ", "refused learning_refused ", "refused learning_refused ", "refused learning_refused ",
		"refused egress_denied ", "failed upstream_unresolvable ", "refused egress_address_denied egress_address_denied",
	}; !slices.Equal(got, want) || r.Posts.Load() > 0 {
		t.Fatalf("got %q, want %q: %s", got, want, said)
	}
	if first, action, tool := all[0], all[1], all[2]; !slices.Equal(first.QueryNames, []string{"page"}) ||
		first.Scheme != "https" || action.Rule != "comment" || tool.MCP == nil ||
		*tool.MCP != (ledger.MCPMessage{Method: "tools/call", Tool: "pay"}) {
		t.Errorf("recorded %+v", all)
	}
	if upload, socket := all[3], all[4]; upload.Carries != "multipart/form-data" || socket.Carries != ledger.WebSocket {
		t.Errorf("recorded %+v", all)
	}
	receipts, err := admin.Receipts(t.Context(), r.Stack.Admin(), all[0].Session, 1, 1)
	if err != nil || len(receipts) > 0 {
		t.Errorf("a learning session has %d receipts, %v", len(receipts), err)
	}
	list := kit.Mediator(t, "posts", "list", "--admin", r.Stack.Admin()).Done("(learning) GET ")
	if strings.Contains(list.Out, "secret") {
		t.Errorf("the record has a query's value: %s", list.Out)
	}
	for name, tt := range map[string]struct {
		change func(*exec.Cmd)
		flags  []string
		want   string
	}{
		"without namespaces": {withoutNamespaces(t), nil, "isolation_unavailable"},
		"from another network": {func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args = kit.Need(t, "unshare"), append([]string{"unshare", "-n", kit.Self(t)}, cmd.Args[1:]...)
		}, nil, "isolation_unavailable"},
		"for an event": {nil, []string{"--event", event}, "--learn takes no event"},
	} {
		if said, err := learn(tt.change, tt.flags...); err == nil || !strings.Contains(said, tt.want) {
			t.Errorf("%s: %v %s", name, err, said)
		}
	}
	check.Must(t, exec.CommandContext(t.Context(), "/proc/self/exe", "run", "--admin", r.Stack.Admin(), "--event", event,
		"--", "true").Run()) // the event still waits

	kit.Edit(t, r.In(devstack.ManifestFile), "\ndeploymentId:", `
egressCeiling: [{url: "https://`+r.Plain()+`/repos/**", methods: [GET, POST]}]
deploymentId:`)
	kit.Mediator(t, "config", "check", r.In(devstack.SidecarFile)).Refused("the rule reads", "egressCeiling")
	kit.Mediator(t, "reload", r.Stack.Admin()).Refused("the rule reads", "ceiling_exceeded")
}

package custody

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

type vaultRig struct {
	*kit.Rig
	vault *vaulttest.Server
	proxy *vaulttest.Proxy // between the processes and the server
	plan  *bootstrap.Plan
	auth  string // the folder of the roles' credentials
}

func newVault(t *testing.T) *vaultRig {
	t.Helper()
	v := &vaultRig{vault: kit.Vault(t), auth: t.TempDir()}
	v.proxy = v.vault.NewProxy(t)
	var err error
	v.plan, err = bootstrap.New(v.options())
	check.Must(t, err)
	v.apply(t)
	return v
}

func (v *vaultRig) options() bootstrap.Options {
	return bootstrap.Options{Transit: "transit",
		AppRole: &bootstrap.AppRole{Mount: "approle", Dir: v.auth, Wrap: time.Hour}}
}

func rolesOfPosts() []bootstrap.Role {
	return slices.DeleteFunc(slices.Clone(bootstrap.Roles), func(r bootstrap.Role) bool {
		return slices.Contains([]string{evidence.PurposeInteraction, evidence.PurposeStatement, evidence.PurposeAppraiser},
			r.Purpose)
	})
}

func (v *vaultRig) apply(t *testing.T) {
	t.Helper()
	v.carryOut(t, v.plan)
}

func (v *vaultRig) carryOut(t *testing.T, plan *bootstrap.Plan) {
	t.Helper()
	_, err := plan.Apply(t.Context(), v.vault.Client(t))
	check.Must(t, err)
}

func (v *vaultRig) config(file string) string {
	return kit.InVault(v.proxy.Address, v.vault.CAFile, v.auth)(file)
}

func newVaultRig(t *testing.T, change ...func(file string) string) *vaultRig {
	t.Helper()
	v := newVault(t)
	v.Rig = kit.NewClientsRig(t, append(change, v.config)...)
	return v
}

func (v *vaultRig) unstarted(t *testing.T, change func(file string) string) *trial.Deployment {
	t.Helper()
	return kit.Unstarted(t, func(files map[string][]byte) {
		for name, raw := range files {
			files[name] = []byte(change(string(raw)))
		}
	})
}

func wantNoStart(t *testing.T, d *trial.Deployment, process, words string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), kit.Patience)
	defer stop()
	said, err := kit.OneProcess(ctx, d, process).CombinedOutput()
	if err == nil || ctx.Err() != nil || !strings.Contains(string(said), words) {
		t.Errorf("mediator %s ended with %v and said\n%s", process, err, said)
	}
}

func (v *vaultRig) loseSecretIDs(t *testing.T, roles ...bootstrap.Role) {
	t.Helper()
	for _, r := range roles {
		at := "auth/approle/role/mediator-" + r.Purpose
		list, err := v.vault.Client(t).Logical().ListWithContext(t.Context(), at+"/secret-id")
		check.Must(t, err)
		for _, accessor := range list.Data["keys"].([]any) {
			v.vault.Write(t, at+"/secret-id-accessor/destroy", map[string]any{"secret_id_accessor": accessor})
		}
	}
}

func (v *vaultRig) redeliver(t *testing.T) {
	t.Helper()
	for _, process := range kit.Processes {
		plan, err := bootstrap.Deliver(v.options(), process)
		check.Must(t, err)
		v.carryOut(t, plan)
	}
	v.apply(t)
}

func (v *vaultRig) revokeTokens(t *testing.T) {
	t.Helper()
	v.vault.Write(t, "sys/leases/revoke-prefix/auth/approle/login", map[string]any{"sync": true})
}

func (v *vaultRig) tokenLifetime(t *testing.T, ttl, longest string) {
	t.Helper()
	for _, r := range bootstrap.Roles {
		v.vault.Write(t, "auth/approle/role/mediator-"+r.Purpose, map[string]any{"token_ttl": ttl, "token_max_ttl": longest})
	}
}

type reads struct {
	mu      sync.Mutex // guards the rest
	n       int
	slowest time.Duration
	failed  []kit.Outcome
}

func (r *reads) keepReading(ctx context.Context, a kit.Agent) {
	for ctx.Err() == nil {
		o := a.Read()
		r.mu.Lock()
		r.n++
		r.slowest = max(r.slowest, o.Took)
		if o.Code != "" {
			r.failed = append(r.failed, o)
		}
		r.mu.Unlock()
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *reads) take() (n int, slowest time.Duration, failed []kit.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, slowest, failed = r.n, r.slowest, r.failed
	r.n, r.slowest, r.failed = 0, 0, nil
	return n, slowest, failed
}

type held []float64

func (h held) within(before held, slack float64) bool {
	for i := range h {
		if h[i] > before[i]+slack {
			return false
		}
	}
	return true
}

var heldGauges = regexp.MustCompile(`(?m)^(go_goroutines|process_open_fds) (\d+)$`)

func (v *vaultRig) held(t *testing.T) (h held) {
	t.Helper()
	for _, p := range v.Stack.Processes {
		for _, found := range heldGauges.FindAllStringSubmatch(kit.Metrics(t, v.Stack.Socket(p.Name)), -1) {
			if n, err := strconv.ParseFloat(found[2], 64); err == nil && (found[1] == "process_open_fds" || p.Name == "serve") {
				h = append(h, n)
			}
		}
	}
	if len(h) != 1+len(v.Stack.Processes) {
		t.Fatalf("the metrics say only %v", h)
	}
	return h
}

const crowd = 8

func atOnce(n int, post func() kit.Outcome) []kit.Outcome {
	out := make([]kit.Outcome, n)
	var wait sync.WaitGroup
	for i := range out {
		wait.Go(func() { out[i] = post() })
	}
	wait.Wait()
	return out
}

func TestMain(m *testing.M) { kit.Main(m, nil) }

package custody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/vaulttest"
)

type fault struct {
	name string
	// post makes a post and reports whether it goes out.
	strike func(t *testing.T, v *vaultRig, post func() bool)
	mend   func(*testing.T, *vaultRig)
	// How long posts go on all the same; 0 if they are refused.
	harmless time.Duration
	// It lasts until the keys' last reading is too old, and posts are refused without asking.
	stale bool
}

// vaultFaults are the faults of the server and of the way to it, and those of clocks and logins.
func vaultFaults() (server, logins []fault) {
	network := func(name string, f vaulttest.Fault) fault {
		return fault{name: name,
			strike: func(t *testing.T, v *vaultRig, _ func() bool) { v.proxy.Set(t, f) },
			mend:   func(t *testing.T, v *vaultRig) { v.proxy.Set(t, vaulttest.Fault{}) },
		}
	}
	harmless := func(d time.Duration, f fault) fault {
		f.harmless = d
		return f
	}
	clock := func(name string, wrong time.Duration) fault { // with tokens that have to be renewed, and got anew, meanwhile
		return fault{name: name, harmless: 5 * time.Second,
			strike: func(t *testing.T, v *vaultRig, _ func() bool) {
				v.proxy.Set(t, vaulttest.Fault{Clock: wrong})
				v.tokenLifetime(t, "2s", "4s")
				v.revokeTokens(t)
			},
			mend: func(t *testing.T, v *vaultRig) {
				v.proxy.Set(t, vaulttest.Fault{})
				v.apply(t)
			},
		}
	}
	kill := func(t *testing.T, v *vaultRig, _ func() bool) {
		v.proxy.Set(t, vaulttest.Fault{Refuse: true})
		check.Must(t, v.vault.Kill())
	}
	start := func(t *testing.T, v *vaultRig) {
		check.Must(t, v.vault.Start())
		v.proxy.Set(t, vaulttest.Fault{})
		check.Must(t, v.vault.Unseal())
	}
	nothing := func(*testing.T, *vaultRig) {}
	deliver := func(t *testing.T, v *vaultRig) { v.redeliver(t) }
	server = []fault{
		{name: "sealed", strike: func(t *testing.T, v *vaultRig, _ func() bool) { check.Must(t, v.vault.Seal()) },
			mend: func(t *testing.T, v *vaultRig) { check.Must(t, v.vault.Unseal()) }},
		{name: "killed", strike: kill, mend: start},
		harmless(time.Second, fault{name: "restarted", strike: func(t *testing.T, v *vaultRig, _ func() bool) {
			kill(t, v, nil)
			start(t, v)
		}, mend: nothing}),
		{name: "frozen", stale: true,
			strike: func(t *testing.T, v *vaultRig, _ func() bool) { check.Must(t, v.vault.Freeze()) },
			mend:   func(t *testing.T, v *vaultRig) { check.Must(t, v.vault.Thaw()) }},
		harmless(time.Second, network("500 ms slower", vaulttest.Fault{Delay: 500 * time.Millisecond})),
		network("3 s slower", vaulttest.Fault{Delay: 3 * time.Second}),
		{name: "its audit disk full", strike: fillAudit, mend: emptyAudit},
		network("answers 403", vaulttest.Fault{Status: http.StatusForbidden}),
		network("answers 429", vaulttest.Fault{Status: http.StatusTooManyRequests}),
		network("answers 500", vaulttest.Fault{Status: http.StatusInternalServerError}),
		network("half-closes connections", vaulttest.Fault{HalfClose: true}),
		network("resets connections", vaulttest.Fault{Reset: true}),
		network("its certificate expired", vaulttest.Fault{Expired: true}),
	}
	logins = []fault{
		clock("its clock a day behind", -24*time.Hour),
		clock("its clock a day ahead", 24*time.Hour),
		harmless(time.Second, fault{name: "tokens revoked", strike: func(t *testing.T, v *vaultRig, _ func() bool) {
			v.revokeTokens(t)
		}, mend: nothing}),
		{name: "tokens revoked, logins refused", strike: func(t *testing.T, v *vaultRig, _ func() bool) {
			v.loseSecretIDs(t, bootstrap.Roles...)
			v.revokeTokens(t)
		}, mend: deliver},
		{name: "tokens expired, logins refused", strike: expireTokens, mend: deliver},
	}
	for _, role := range rolesOfPosts() {
		logins = append(logins, fault{name: "no login for " + role.Purpose,
			strike: func(t *testing.T, v *vaultRig, _ func() bool) {
				v.loseSecretIDs(t, role)
				v.revokeTokens(t)
			},
			mend: deliver,
		})
	}
	return server, logins
}

func auditDisk(v *vaultRig) string { return v.In("audit") }

// Vault answers no request that it cannot log.
func fillAudit(t *testing.T, v *vaultRig, _ func() bool) {
	disk := auditDisk(v)
	check.Must(t, os.Mkdir(disk, 0o700))
	fill, _ := check.SmallDisk(t, disk, "1m")
	v.vault.Write(t, "sys/audit/file",
		map[string]any{"type": "file", "options": map[string]string{"file_path": disk + "/audit.log"}})
	fill()
}

func emptyAudit(t *testing.T, v *vaultRig) {
	check.Must(t, os.Remove(filepath.Join(auditDisk(v), "filler")))
	if _, err := v.vault.Client(t).Logical().Delete("sys/audit/file"); err != nil {
		t.Fatal(err)
	}
}

func expireTokens(t *testing.T, v *vaultRig, post func() bool) {
	v.tokenLifetime(t, "2s", "2s")
	v.revokeTokens(t)
	kit.Until(t, "posts with tokens of two seconds", post)
	v.loseSecretIDs(t, bootstrap.Roles...)
	kit.Until(t, "the tokens' end", func() bool { return !post() })
}

const slack = 6

// Posts are refused with a reason and a time to come back, and reads continue. Nothing is left behind.
func TestVaultFaults(t *testing.T) {
	t.Parallel()
	faults, _ := vaultFaults()
	playFaults(t, faults)
}

func TestVaultLoginFaults(t *testing.T) {
	t.Parallel()
	_, faults := vaultFaults()
	playFaults(t, faults)
}

func playFaults(t *testing.T, faults []fault) {
	t.Helper()
	v := newVaultRig(t, kit.ManyPosts)
	poster, reader := v.OpenAgent(t), v.OpenAgent(t)
	for _, o := range atOnce(4*crowd, poster.Post) { // more than later, for as many connections as are ever kept
		if o.Code != "" {
			t.Fatalf("a sound deployment does not post: %+v", o)
		}
	}
	var all reads
	ctx, stop := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	wait.Go(func() { all.keepReading(ctx, reader) })
	defer wait.Wait()
	defer stop()
	before := v.held(t)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "VAULT\tA POST\tTAKES AT MOST\tPOSTS AFTER\tREADS\tSLOWEST\tHELD AFTER\tBECAUSE")
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			v.suffer(t, f, poster, &all, table)
		})
	}
	kit.Until(t, "descriptors and goroutines to be given back", func() bool { return v.held(t).within(before, slack) })
	table.Flush()
	t.Logf("held before: %.0f\n%s", before, &text)
}

func (v *vaultRig) suffer(t *testing.T, f fault, a kit.Agent, all *reads, table io.Writer) {
	all.take()
	sent := v.Posts.Load()
	var seen atomic.Int64
	post := func() kit.Outcome {
		o := a.Post()
		if o.Code == "" {
			seen.Add(1)
		}
		return o
	}
	// one can go out before each key that Vault was too slow for has been read again
	kit.Until(t, "sound posts", func() bool {
		return !slices.ContainsFunc(atOnce(crowd, post), func(o kit.Outcome) bool { return o.Code != "" })
	})
	f.strike(t, v, func() bool { return post().Code == "" })
	row, because, slowest := "goes out", "", time.Duration(0)
	var again time.Duration
	if f.harmless > 0 {
		again = kit.Until(t, "a post", func() bool { return post().Code == "" })
		out := 0
		for began := time.Now(); time.Since(began) < f.harmless || out == 0 && time.Since(began) < kit.Patience; {
			o := post()
			slowest = max(slowest, o.Took)
			switch {
			case o.Code == "":
				out++
			case !strings.Contains(a.Reason(o), "in time"): // as a busy machine can be late
				t.Errorf("a post is refused: %+v", o)
			}
		}
		if out == 0 {
			t.Error("no further post goes out")
		}
		f.mend(t, v)
	} else {
		recorded := false // the bound on records of refused calls may be reached
		for _, o := range atOnce(crowd, post) {
			slowest, recorded = max(slowest, o.Took), recorded || o.Post != ""
			// The receipt of an earlier post may have been refused a signature, which refuses the next post.
			if o.Code != "custody_unavailable" || o.Status != http.StatusServiceUnavailable || o.Retry < 1 {
				t.Errorf("got %+v", o)
			}
			if !strings.Contains(because, "key") {
				row, because = fmt.Sprintf("%d %s, Retry-After: %d", o.Status, o.Code, o.Retry), a.Reason(o)
			}
		}
		if recorded && !strings.Contains(because, "key") {
			t.Errorf("the record names no key: %q; the post: %s", because, row)
		}
		v.OpenAgent(t) // events and sessions go on
		if f.stale {
			kit.Until(t, "posts to be refused without asking", func() bool {
				o := post()
				return o.Code == "custody_unavailable" && strings.Contains(a.Reason(o), "is not known: the key")
			})
		}
		f.mend(t, v)
		again = kit.Until(t, "a post after Vault is back", func() bool { return post().Code == "" })
	}
	if arrived := v.Posts.Load() - sent; arrived != seen.Load() {
		t.Errorf("%d posts reached the upstream, and %d were said to go out", arrived, seen.Load())
	}
	n, slow, failed := all.take()
	if n == 0 || len(failed) > 0 {
		t.Errorf("of %d reads these failed: %+v", n, failed)
	}
	fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\t%.0f\t%s\n", f.name, row, slowest.Round(time.Millisecond),
		again.Round(time.Millisecond), n, slow.Round(time.Millisecond), v.held(t), because)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) has(what string) bool { return l.count(what) > 0 }

func (l *lockedBuffer) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), what)
}

// The process says once what it waits for, becomes ready by itself, and logs in once, with a secret id that can be
// unwrapped once.
func TestStartBeforeVault(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	const policy = "sys/policies/acl/mediator-policy_decision"
	network := func(f vaulttest.Fault) func() { return func() { v.proxy.Set(t, f) } }
	well := network(vaulttest.Fault{})
	must := func(do func() error) func() { return func() { check.Must(t, do()) } }
	for _, tt := range []struct {
		name         string
		strike, mend func()
		said         string
	}{
		{"sealed", must(v.vault.Seal), must(v.vault.Unseal), "Vault is sealed (503)"},
		{"frozen", must(v.vault.Freeze), must(v.vault.Thaw), "Vault does not answer in time"},
		{"not there", network(vaulttest.Fault{Refuse: true}), well, "Vault cannot be reached"},
		{"resets connections", network(vaulttest.Fault{Reset: true}), well, "Vault cannot be reached"},
		{"answers 500", network(vaulttest.Fault{Status: http.StatusInternalServerError}), well, "Vault fails (500)"},
		{"answers 429", network(vaulttest.Fault{Status: http.StatusTooManyRequests}), well,
			"Vault has too many requests (429)"},
		{"its certificate expired", network(vaulttest.Fault{Expired: true}), well, "certificate has expired"},
		{"denies the key", func() {
			v.vault.Write(t, policy, map[string]any{"policy": "# nothing"})
		}, func() { v.apply(t) }, "Vault denies it to this role (403)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v.redeliver(t)
			d := v.unstarted(t, v.config)
			tt.strike()
			ctx, stop := context.WithCancel(t.Context())
			var log lockedBuffer
			ended := make(chan error, 1)
			process := kit.OneProcess(ctx, d, "control")
			process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
			process.Stderr = &log
			go func() { ended <- process.Run() }()
			kit.Until(t, "the log to say "+tt.said, func() bool {
				return log.has("not ready: waiting for Vault") && log.has(tt.said)
			})
			tt.mend()
			took := kit.Until(t, "the process to publish its keys", func() bool {
				var roles []daemon.RoleDocument
				return admin.Get(ctx, "unix:"+d.Dir+"/run/control.sock", "/v1/roles", &roles) == nil &&
					len(roles) == 2
			})
			t.Logf("its keys are published after %s", took.Round(time.Millisecond))
			if n := log.count(`"msg":"logged in to Vault","for":"key policy-decision-key"`); n != 1 {
				t.Errorf("it logged in %d times", n)
			}
			stop()
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) && !log.has("stopped while waiting") {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// A process that refuses its files must not use up its wrapped secret id.
func TestStartSparesSecretIDs(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	unused := func(t *testing.T) {
		t.Helper()
		files, err := filepath.Glob(v.auth + "/*.secret-id")
		check.Must(t, err)
		for _, file := range files {
			wrapping := kit.Read(t, file)
			lookup := map[string]any{"token": strings.TrimSpace(string(wrapping))}
			if _, err := v.vault.Client(t).Logical().Write("sys/wrapping/lookup", lookup); err != nil {
				t.Errorf("%s is used up: %v", filepath.Base(file), err)
			}
		}
	}
	junk := []byte("this is neither a key nor a database")
	for _, tt := range []struct {
		name, process string
		change        map[string][]byte // nil removes a file
		said          string
	}{
		{"another environment is pinned", "serve", nil, "pin_mismatch"},
		{"other rules are pinned", "control", nil, "pin_mismatch"},
		{"no root key for the trigger service", "trigger", map[string][]byte{devstack.RegistryFile: junk}, "pinned root key"},
		{"no root key for the node", "reputation", map[string][]byte{devstack.RegistryFile: junk}, "pinned root key"},
		{"a ledger that is none", "serve", map[string][]byte{devstack.ManifestFile: nil, "state/ledger.db": junk},
			"the ledger of"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pins := regexp.MustCompile(`(required(?:Policy|Environment)Hash: ).*`)
			d := v.unstarted(t, func(file string) string {
				return pins.ReplaceAllString(v.config(file), `${1}"`+strings.Repeat("0", 64)+`"`)
			})
			for name, content := range tt.change {
				_ = os.Remove(filepath.Join(d.Dir, name)) // most are not there
				if content != nil {
					kit.Write(t, filepath.Join(d.Dir, name), content)
				}
			}
			wantNoStart(t, d, tt.process, tt.said)
			unused(t)
		})
	}
	t.Run("another role's secret id is used up", func(t *testing.T) {
		spent := v.auth + "/action_grant.secret-id"
		_, err := v.vault.Client(t).Logical().Unwrap(strings.TrimSpace(string(kit.Read(t, spent))))
		check.Must(t, err)
		var log lockedBuffer
		process := kit.OneProcess(t.Context(), v.unstarted(t, v.config), "control")
		process.Stderr = &log
		check.Must(t, process.Start())
		kit.Until(t, "the log to say it", func() bool {
			return log.has("action_grant.secret-id has expired or was unwrapped before")
		})
		check.Must(t, process.Process.Kill())
		_ = process.Wait()
		check.Must(t, os.Remove(spent))
		unused(t)
	})
}

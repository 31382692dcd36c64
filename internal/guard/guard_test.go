package guard

import (
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/full"
)

// alone moves the test into its own network namespace.
func alone(t *testing.T) {
	t.Helper()
	full.Only(t, "root, and nft")
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("a network namespace is needed (run the tests as root): %v", err)
	}
}

// command runs a system command in the test's network namespace.
func command(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v (is it there? run test/scripts/setup.sh): %v\n%s", args, err, out)
	}
	return string(out)
}

func everything() Options {
	return Options{
		UIDs: []uint32{10001, 10002}, Proxy: 8181, Transparent: 8183, Redirect: []uint16{443, 80},
		Admin:    []uint16{9090},
		Loopback: []PortRange{{3000, 3000}, {8000, 9999}}, Resolvers: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
		Inbound: []uint16{8282}, Devices: []string{"eth0", "eth1"},
	}
}

func TestInstalledAndPrintedRulesAreTheSame(t *testing.T) {
	for name, o := range map[string]Options{
		"everything":  everything(),
		"only proxy":  {UIDs: []uint32{10001}, Proxy: 8181},
		"transparent": {UIDs: []uint32{10001}, Proxy: 8181, Transparent: 8183, Redirect: []uint16{443}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Rules(o)
			check.Must(t, err)
			alone(t)
			command(t, "", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), "there are no rules") {
				t.Errorf("before they are installed: %v", err)
			}
			check.Must(t, s.Install())
			installed := command(t, "", "nft", "list", "ruleset")
			command(t, s.String(), "nft", "-f", "-")
			if err := s.Check(); err != nil {
				t.Errorf("printed rules: %v", err)
			}
			if printed := command(t, "", "nft", "list", "ruleset"); printed != installed {
				t.Errorf("installed:\n%s\nprinted:\n%s", installed, printed)
			}
			counted, err := s.Count()
			if err != nil || len(counted) != len(s.Counters()) {
				t.Errorf("counters %v, %v", counted, err)
			}
		})
	}
}

func TestChangedRulesAreFound(t *testing.T) {
	for name, tt := range map[string]struct{ change, want string }{
		"no table":        {"delete table inet mediator", "the table inet mediator is missing"},
		"no device table": {"delete table netdev mediator", "the table netdev mediator is missing"},
		"a rule more":     {"insert rule inet mediator leaving accept", "the chain leaving has"},
		"no rules":        {"flush chain inet mediator others", "the chain others has 0 rules"},
		"another policy": {"add chain inet mediator leaving { policy accept; }",
			"the chain leaving is not hooked in where"},
		"another chain": {"add chain inet mediator more", "has 6 chains, and should have 5"},
		"dormant":       {"add table inet mediator { flags dormant; }", "is dormant"},
		"another rule": {"replace rule inet mediator leaving handle HANDLE accept",
			`rule 1 of the chain leaving is not "ip daddr 192.0.2.1`},
		"another port": {
			"replace rule inet mediator redirected handle HANDLE ip daddr 192.0.2.1 tcp dport 443 redirect to :9999",
			`rule 1 of the chain redirected is not`},
		"another user": {"replace rule netdev mediator device0 handle HANDLE meta skuid 20000 accept",
			"rule 1 of the chain device0 is not"},
		"another hook": {
			"delete chain inet mediator passing; add chain inet mediator passing { type filter hook forward priority " +
				"7; policy drop; }; add rule inet mediator passing counter name refused_forward",
			"the chain passing is not hooked in where"},
		"one chain gone": {
			"add chain inet mediator more; flush chain inet mediator passing; delete chain inet mediator passing",
			"the chain passing is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t)
			command(t, "", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth1")
			s, err := Rules(everything())
			check.Must(t, err)
			check.Must(t, s.Install())
			if words := strings.Fields(tt.change); strings.Contains(tt.change, "HANDLE") {
				tt.change = strings.Replace(tt.change, "HANDLE", firstHandle(t, words[2], words[4]), 1)
			}
			command(t, tt.change+"\n", "nft", "-f", "-")
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if err := s.Install(); err != nil { // replaces the changed rules
				t.Error(err)
			}
		})
	}
}

// firstHandle returns the handle of a chain's first rule.
func firstHandle(t *testing.T, family, chain string) string {
	t.Helper()
	for line := range strings.Lines(command(t, "", "nft", "-a", "list", "chain", family, Name, chain)) {
		if rule, handle, ok := strings.Cut(line, "# handle "); ok && !strings.Contains(rule, "{") {
			return strings.TrimSpace(handle)
		}
	}
	t.Fatalf("the chain %s has no rules", chain)
	return ""
}

func TestOptionsThatAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no user":                {func(o *Options) { o.UIDs = nil }, "no user may connect out"},
		"root":                   {func(o *Options) { o.UIDs = []uint32{10001, 0} }, "cannot tell root from"},
		"no proxy":               {func(o *Options) { o.Proxy = 0 }, "the proxy's port is missing"},
		"nothing to lead to":     {func(o *Options) { o.Transparent = 0 }, "a transparent listener need each other"},
		"nothing to lead":        {func(o *Options) { o.Redirect = nil }, "a transparent listener need each other"},
		"a range from zero":      {func(o *Options) { o.Loopback = []PortRange{{0, 5}} }, "not a range of ports"},
		"a range backwards":      {func(o *Options) { o.Loopback = []PortRange{{5, 4}} }, "not a range of ports"},
		"a resolver over IPv6":   {func(o *Options) { o.Resolvers = []netip.Addr{netip.IPv6Loopback()} }, "is not IPv4"},
		"no resolver":            {func(o *Options) { o.Resolvers = []netip.Addr{{}} }, "is not IPv4"},
		"the loopback device":    {func(o *Options) { o.Devices = []string{"lo"} }, "not a network device"},
		"a device without name":  {func(o *Options) { o.Devices = []string{""} }, "not a network device"},
		"a device to break text": {func(o *Options) { o.Devices = []string{"a\" b"} }, "not a network device"},
	} {
		t.Run(name, func(t *testing.T) {
			o := everything()
			tt.change(&o)
			if _, err := Rules(o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

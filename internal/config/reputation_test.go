package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/test/check"
)

const correctReputation = `internal: {unix: run/reputation.sock}
public: {listen: "127.0.0.1:8443", tlsCertificate: tls.crt, tlsKey: tls.key}
state: state
custody: {type: memory}
agent: {uid: 2000}
keys:
  appraiser: {key: appraiser-key, issuer: mediator-appraiser, audience: posting-api}
audience: mediator-reputation
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: trust.json}
owners:
  - name: one
    registry: one.jwk
    bundle: one.json
    certificates: {issuers: [key-registry], audiences: [posting-api]}
    receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}
believedHosts: [api.openai.com]
`

func writeReputation(t *testing.T, oldnew ...string) string {
	t.Helper()
	return write(t, strings.NewReplacer(oldnew...).Replace(correctReputation))
}

func TestReputationMistakes(t *testing.T) {
	const second = "  - {name: NAME, registry: FILE, bundle: b.json, certificates: {issuers: [r], audiences: [a]}, " +
		"receipts: {issuers: [o], audiences: [a], keys: [k]}}\nbelievedHosts"
	for name, m := range map[string]struct{ old, new, want string }{
		"none": {"absent", "", ""},
		"no public address": {"public: {listen: \"127.0.0.1:8443\", tlsCertificate: tls.crt, tlsKey: tls.key}\n", "",
			""},
		"no hosts":    {"believedHosts: [api.openai.com]\n", "", ""},
		"no state":    {"state: state\n", "", "line 1, column 1: state: is required"},
		"no audience": {"audience: mediator-reputation\n", "", "line 1, column 1: audience: is required"},
		"no audience of scores": {", audience: posting-api}\naudience", "}\naudience",
			"line 7, column 14: keys.appraiser.audience: is required"},
		"no key": {"key: appraiser-key, ", "", "line 7, column 14: keys.appraiser.key: is required"},
		"no endpoint": {"{unix: run/reputation.sock}", "{}",
			"line 1, column 11: internal: needs unix, tcp or both"},
		"the agent at the socket": {"reputation.sock}", "reputation.sock, uids: [2000]}",
			"line 1, column 45: internal.uids: 2000 is agent.uid: the agent must not reach this socket"},
		"public, over plain HTTP": {", tlsCertificate: tls.crt, tlsKey: tls.key", "",
			"line 2, column 9: public.tlsCertificate: is required\nline 2, column 9: public.tlsKey: is required"},
		"public nowhere": {"listen: \"127.0.0.1:8443\"", "listen: \"8443\"",
			`line 2, column 18: public.listen: "8443" is not a host and a port, as 127.0.0.1:8181 is`},
		"a database without a DSN": {"state: state\n", "state: state\nstore: {postgres: {}}\n",
			"line 4, column 19: store.postgres.dsnFile: is required"},
		"a limit below 0": {"state: state\n", "state: state\nlimits: {sessions: -1}\n",
			`line 4, column 20: limits.sessions: must be a whole number in decimal digits, from 0 to 9223372036854775807, ` +
				`not "-1"`},
		"an absurd rate": {"state: state\n", "state: state\nlimits: {publicPerSecond: 1000001}\n",
			"line 4, column 27: limits.publicPerSecond: 1000001 is more than 1000000"},
		"no owner": {
			correctReputation[strings.Index(correctReputation, "owners:"):strings.Index(correctReputation,
				"believedHosts")], "",
			"line 1, column 1: owners: is required"},
		"an owner without a name": {"name: one\n    ", "", "line 11, column 5: owners[0].name: is required"},
		"no registry": {"registry: one.jwk", "registry: \"\"",
			"line 12, column 15: owners[0].registry: is required"},
		"any issuer": {"issuers: [mediator-observer]", "issuers: []",
			"line 15, column 25: owners[0].receipts.issuers: is required"},
		"any key": {", keys: [interaction-receipt-key]", "",
			"line 15, column 15: owners[0].receipts.keys: is required"},
		"an empty audience": {"issuers: [key-registry], audiences: [posting-api]",
			"issuers: [key-registry], audiences: [\"\"]",
			"line 14, column 56: owners[0].certificates.audiences: has an empty item"},
		"two of one name": {"believedHosts", strings.NewReplacer("NAME", "one", "FILE", "two.jwk").Replace(second),
			"line 16, column 12: owners[1].name: one is also the name of owners[0]"},
		"two of one registry": {"believedHosts", strings.NewReplacer("NAME", "two", "FILE", "one.jwk").Replace(second),
			"line 16, column 27: owners[1].registry: one.jwk is also the registry of owners[0]"},
		"a URL for a host": {"[api.openai.com]", "[\"https://api.openai.com\"]",
			`line 16, column 17: believedHosts[0]: "https://api.openai.com" is neither a host, such as api.example.com, nor ` +
				`a host and a port`},
		"verification as it is": {"believedHosts", "verification: {}\nbelievedHosts", ""},
		"another mode": {"believedHosts", "verification: {mode: strict}\nbelievedHosts",
			`line 16, column 22: verification.mode: "strict" is none of observed, seed`},
		"a URL for a name": {"believedHosts", "verification: {hosts: [\"https://node.example\"]}\nbelievedHosts",
			`line 16, column 24: verification.hosts[0]: "https://node.example" is not a host name; write it without scheme ` +
				`and port`},
		"a server without a name": {"believedHosts", "verification: {servers: [{role: x}]}\nbelievedHosts",
			"line 16, column 26: verification.servers[0].name: is required"},
		"a gate nowhere": {"believedHosts", "verification: {xray: {govern: {}}}\nbelievedHosts",
			"line 16, column 31: verification.xray.govern.url: is required"},
		"a gate over plain HTTP": {"believedHosts",
			"verification: {xray: {govern: {url: \"http://g.example/mcp\"}}}\nbelievedHosts",
			"line 16, column 37: verification.xray.govern.url: must be an https URL such as " +
				"https://xray.example.com/mcp: plain text could be changed on the way"},
		"a gate with a password": {"believedHosts",
			"verification: {xray: {govern: {url: \"https://me:hunter2@g.example/mcp\"}}}\nbelievedHosts",
			"line 16, column 37: verification.xray.govern.url: must not hold a user or a password: put them into a " +
				"file"},
		"a gate on this machine": {"believedHosts",
			"verification: {xray: {govern: {url: \"http://127.0.0.1:1/mcp\"}}}\nbelievedHosts", ""},
		"a token for no gate": {"believedHosts",
			"verification: {xray: {govern: {url: \"https://g.example/mcp\", header: X-Api-Key}}}\nbelievedHosts",
			"line 16, column 70: verification.xray.govern.header: has no meaning without a tokenFile"},
		"a token as the host": {"believedHosts",
			"verification: {xray: {govern: {url: \"https://g.example/mcp\", header: Host}}}\nbelievedHosts",
			"line 16, column 70: verification.xray.govern.header: the header Host has a meaning of its own, so it " +
				"cannot carry a credential\nline 16, column 70: verification.xray.govern.header: has no meaning " +
				"without a tokenFile"},
		"disputes as they are": {"believedHosts", "verification: {}\ndisputes: {}\nbelievedHosts", ""},
		"disputes of strangers": {"believedHosts", "disputes: {}\nbelievedHosts",
			"line 16, column 11: disputes: needs the key verification, because only agents registered " +
				"there can open disputes"},
		"a window of no time": {"believedHosts", "verification: {}\ndisputes: {windows: {short: 10ms}}\nbelievedHosts",
			"line 17, column 29: disputes.windows.short: 10ms is not between 1s and 2160h0m0s"},
		"a window of zero": {"believedHosts", "verification: {}\ndisputes: {windows: {short: 0s}}\nbelievedHosts",
			"line 17, column 29: disputes.windows.short: must be above 0s; leave it out for the default"},
		"a deadline for ever": {"believedHosts", "verification: {}\ndisputes: {deadline: 2161h}\nbelievedHosts",
			"line 17, column 22: disputes.deadline: 2161h0m0s is not between 1s and 2160h0m0s"},
		"statements of any key": {"believedHosts", "    statements: {issuers: [s], audiences: [a]}\nbelievedHosts",
			"line 16, column 17: owners[0].statements.keys: is required"},
		"an unknown key": {"audience: mediator-reputation", "audiense: mediator-reputation",
			"line 8, column 1: audiense: is not known; did you mean audience?"},
	} {
		t.Run(name, func(t *testing.T) {
			path, got := writeReputation(t, m.old, m.new), ""
			if _, err := Load[Reputation](path); err != nil {
				got = strings.NewReplacer(path+": ", "", filepath.Dir(path)+"/", "").Replace(err.Error())
			}
			if got != m.want {
				t.Errorf("got  %s\nwant %s", got, m.want)
			}
		})
	}
}

func TestReputation(t *testing.T) {
	path := writeReputation(t, "[api.openai.com]", "[API.OpenAI.com, \"models.example:8443\", \"[::1]\"]")
	c, err := Load[Reputation](path)
	check.Must(t, err)
	if want := []string{"api.openai.com:443", "models.example:8443", "[::1]:443"}; !slices.Equal(c.ModelHosts, want) {
		t.Errorf("the hosts are %q, want %q", c.ModelHosts, want)
	}
	if want := filepath.Join(filepath.Dir(path), "one.json"); c.Owners[0].Bundle != want {
		t.Errorf("the bundle is %s, want %s", c.Owners[0].Bundle, want)
	}
	next := *c
	next.Owners, next.BelievedHosts, next.ModelHosts = nil, nil, nil
	if got := fields.ChangedBound(*c, next); len(got) != 0 {
		t.Errorf("a restart takes over %v", got)
	}
	c.Store.Postgres, next.Store.Postgres = &Postgres{}, &Postgres{DSN: "x"}
	next.Audience, next.Public = "x", nil
	if got := fields.ChangedBound(*c, next); !reflect.DeepEqual(got,
		[]string{"public", "store.postgres.dsnFile", "audience"}) {
		t.Errorf("a restart takes over %v", got)
	}
}

func TestManyOwners(t *testing.T) {
	owners := strings.Builder{}
	for i := range 256 {
		fmt.Fprintf(&owners, "  - {name: o%[1]d, registry: r%[1]d, bundle: b.json, certificates: {issuers: [r], "+
			"audiences: [a]}, receipts: {issuers: [o], audiences: [a], keys: [k]}}\n", i)
	}
	if _, err := Load[Reputation](writeReputation(t, "believedHosts", owners.String()+"believedHosts")); err == nil ||
		!strings.Contains(err.Error(), "there are 257; at most 256 are allowed") {
		t.Error(err)
	}
}

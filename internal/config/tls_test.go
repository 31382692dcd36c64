package config

import (
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

// correctTCP is a sidecar that takes its name from its certificate.
var correctTCP = strings.NewReplacer("runtime: worker-1\n", "", "{unix: run/admin.sock, uids: [1000]}",
	`{tcp: "0.0.0.0:8443", callers: ["spiffe://example.org/operator/*"]}`, "{unix: run/trigger.sock}",
	`{tcp: "trigger.mediator:8444"}`, "{unix: run/control.sock}",
	`{tcp: "10.0.0.1:8445", name: "spiffe://example.org/service/mediator/control"}`, "state: state\n",
	"state: state\ntls: {certificate: tls.pem, key: tls.pem, authorities: ca.pem}\nprobes: {listen: \":9090\"}\n",
).Replace(correctSidecar)

func TestMistakesAboutTCP(t *testing.T) {
	const (
		callers = `callers: ["spiffe://example.org/operator/*"]`
		name    = `name: "spiffe://example.org/service/mediator/control"`
		tls     = "tls: {certificate: tls.pem, key: tls.pem, authorities: ca.pem}"
	)
	token, short := write(t, strings.Repeat("t", 32)), write(t, strings.Repeat("t", 31))
	noMatch := func(pattern, why string) string {
		return `admin.callers[0]: "` + pattern +
			`" is not a pattern of SPIFFE ids, such as spiffe://example.org/pod/agents/*: ` + why
	}
	for _, m := range []struct{ old, by, says string }{
		{"tls:", "tls:", ""}, // the correct file
		{`"trigger.mediator:8444"`, `"[::1]:8444", name: "::1"`, ""},
		{callers, `callers: ["spiffe://example.org/pod/*/worker", "spiffe://example.org/operator"]`, ""},
		{tls + "\n", "", "admin.tcp: needs tls: over TCP, each process must have a certificate that names it"},
		{tls + "\n", "", "trigger.tcp: needs tls"},
		{tls + "\n", "", "runtime: is required without tls; with tls, the certificate names the runtime"},
		{"key: tls.pem, ", "", "tls.certificate: is required together with key"},
		{"certificate: tls.pem, ", "", "tls.certificate: is required together with key"},
		{", authorities: ca.pem", "", "tls.authorities: is required"},
		{"authorities: ca.pem", "authority: ca.pem", "tls.authority: is not known; did you mean authorities?"},
		{"authorities: ca.pem", "authorities: [ca.pem]", "tls.authorities: must be a single value, not a list"},
		{tls, "tls: tls.pem", `tls: must be keys with values, not "tls.pem"`},
		{", " + callers, "", "admin.callers: is required for tcp: only the callers that it lists may connect"},
		{", " + callers, ", callers: []", "admin.callers: is required for tcp"},
		{callers, callers + ", uids: [1]", "admin.uids: has no meaning without unix: over tcp, certificates identify"},
		{`tcp: "0.0.0.0:8443"`, "unix: run/a.sock",
			"admin.callers: has no meaning without tcp: at a unix socket, the kernel identifies the caller's user"},
		{`tcp: "0.0.0.0:8443"`, `unix: run/a.sock, uids: [1], tcp: "0.0.0.0:8443"`, ""},
		{`tcp: "0.0.0.0:8443"`, `unix: run/a.sock, uids: [1], tcp: "0.0.0.0:0"`,
			`admin.tcp: "0.0.0.0:0" needs a port other than 0`},
		{`{tcp: "0.0.0.0:8443", ` + callers + "}", "{}", "admin: needs unix, tcp or both"},
		{`"0.0.0.0:8443"`, `"trigger.mediator:8444", unix: run/a.sock`,
			"trigger.tcp: trigger.mediator:8444 is also the endpoint of admin"},
		{callers, "tokens: {read: TOKEN, operate: TOKEN}", ""},
		{callers, "tokens: {operate: TOKEN}, " + callers, ""},
		{callers, "tokens: {read: absent}, " + callers, "admin.tokens.read: read secret: open "},
		{callers, "tokens: {operate: SHORT}, " + callers, "has fewer than 32 bytes"},
		{callers, "tokens: {write: TOKEN}, " + callers,
			"admin.tokens.write: is not known; known here are operate, read"},
		{callers, "tokens: {}", "admin.callers: is required for tcp"},
		{`tcp: "0.0.0.0:8443", ` + callers, "unix: run/a.sock, tokens: {read: TOKEN}",
			"admin.tokens.read: has no meaning without tcp"},
		{`"0.0.0.0:8443"`, `"0.0.0.0:0"`, `admin.tcp: "0.0.0.0:0" needs a port other than 0`},
		{`"0.0.0.0:8443"`, `"8443"`, `admin.tcp: "8443" is not a host and a port`},
		{callers, "tokenFile: token, " + callers, "admin.tokenFile: is not known"},
		{callers, `callers: ["*"]`, noMatch("*", "scheme is missing or invalid")},
		{callers, `callers: ["https://example.org/a"]`,
			noMatch("https://example.org/a", "scheme is missing or invalid")},
		{callers, `callers: ["spiffe://*/a"]`, noMatch("spiffe://*/a", "trust domain characters are limited")},
		{callers, `callers: ["spiffe://example.org"]`, noMatch("spiffe://example.org", "it names only a trust domain")},
		{callers, `callers: ["spiffe://example.org/a*"]`,
			noMatch("spiffe://example.org/a*", "path segment characters")},
		{callers, `callers: ["spiffe://example.org/a/"]`,
			noMatch("spiffe://example.org/a/", "path cannot have a trailing")},
		{callers, `callers: [""]`, noMatch("", "cannot be empty")},
		{name, `name: "spiffe://example.org/service/*"`, "control.name: "},
		{name, `name: "https://control"`, `control.name: "https://control" is neither a host name`},
		{name, `name: "control:8445"`, `control.name: "control:8445" is neither a host name, such as control.example`},
		{"{tcp: \"10.0.0.1:8445\", ", "{unix: run/c.sock, ", "control.name: has no meaning with unix"},
		{name, callers, "control.callers: is not known; known here are name, tcp, unix"},
		{`"10.0.0.1:8445"`, `"trigger.mediator:8444"`,
			"control.tcp: trigger.mediator:8444 is also the endpoint of trigger"},
		{`probes: {listen: ":9090"}`, "probes: {}", "probes.listen: is required"},
		{`":9090"`, `"9090"`, `probes.listen: "9090" is not a host and a port`},
	} {
		text := strings.Replace(correctTCP, m.old, strings.NewReplacer("TOKEN", token, "SHORT", short).Replace(m.by), 1)
		if text == correctTCP && m.says != "" {
			t.Fatalf("%s is not in the file", m.old)
		}
		_, err := Load[Sidecar](write(t, text))
		if m.says == "" {
			check.Must(t, err)
		} else if err == nil || !strings.Contains(err.Error(), m.says) {
			t.Errorf("%s: it says %v\nwant %s", m.by, err, m.says)
		}
	}
	for text, says := range map[string]string{
		"certificate: a\nkey: a\nauthorities: b\n":                     "",
		"certificate: a\nkey: a\nauthorities: b\nname: control\n":      "",
		"certificate: a\nkey: a\nauthorities: b\nname: \"a b\"\n":      `name: "a b" is neither a host name`,
		"certificate: a\nauthorities: b\nname: spiffe://example.org/a": "certificate: is required together with key",
		"tokenFile: a\nauthorities: b\n":                               "",
		"tokenFile: a\nkey: c\nauthorities: b\n": "certificate: is required together with key, " +
			"or else",
		"authorities: b\nname: a\n": "certificate: is required together with key, " +
			"or else", "tokenFile: a\n": "authorities: is required",
	} {
		checked, err := CheckFile(write(t, text), true)
		if checked.Kind != "operator's client" || (err == nil) != (says == "") || err != nil &&
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", text, err, says)
		}
	}
}

func TestGuardAdmitsProbes(t *testing.T) {
	c, err := Load[Sidecar](write(t, correctTCP+"guard: {uids: [1], inbound: [1234]}\n"))
	check.Must(t, err)
	o := c.GuardOptions()
	check.WantEqual(t, o.Inbound, []uint16{1234, 9090})
	check.WantEqual(t, o.Admin, []uint16{8443, 8444, 8445, 8184})
}

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/check"
)

const correctSidecar = `runtime: worker-1
listen: 127.0.0.1:8080
admin: {unix: run/admin.sock, uids: [1000]}
trigger: {unix: run/trigger.sock}
control: {unix: run/control.sock}
state: state
audience: posting-api
manifest: manifest.yaml
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: trust.json}
custody: {type: memory}
agent: {uid: 2000}
keys:
  runtime: {key: runtime-key, issuer: mediator-runtime}
  session: {key: session-key, issuer: mediator-session}
  requestProof: {key: proof-key, issuer: mediator-proof, lifetime: 30s}
actions:
  - name: post
    match: {url: "https://api.example.com/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
egress:
  - name: reads
    match: {url: "https://api.example.com/**", methods: [GET]}
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const correctTrigger = `internal: {unix: run/trigger.sock}
state: state
custody: {type: memory}
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: trust.json}
keys:
  origin: {key: origin-key, issuer: mediator-source, audience: mediator-trigger}
  receipt: {key: receipt-key, issuer: mediator-trigger, audience: mediator-runtime}
sources:
  - name: nightly
    schedule: {cron: "0 3 * * *"}
  - name: jobs
    queue: {dir: jobs}
`

func TestMistakes(t *testing.T) {
	const sidecar, trigger = correctSidecar, correctTrigger
	longSocket, tooLong := strings.Repeat("s", 108), " is too long for a socket, whose path has at most 107 bytes"
	withReceipts := strings.NewReplacer("state: state\n",
		"state: state\nreputation: {unix: run/node.sock, audience: node}\nreceipts: {subject: agent:worker-1}\n",
		"keys:\n", "keys:\n  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n").Replace(
		sidecar)
	for _, m := range []struct{ file, old, new, want string }{
		// What is no YAML, or not one document.
		{sidecar, sidecar, "", "the file is empty"},
		{sidecar, sidecar, "# nothing\n", "the file is empty"},
		{sidecar, "custody: {type: memory}", "custody: {type: memory",
			`line 11, column 6: this is not YAML: did not find expected ',' or '}'`},
		{sidecar, "custody: {type: memory}", "custody: {type: {}memory}",
			`line 10, column 19: this is not YAML: did not find expected ',' or '}'`},
		{sidecar, "agent: {uid: 2000}", "\tagent: {uid: 2000}",
			"line 11, column 1: this is not YAML: found character that cannot start any token"},
		{sidecar, "audience: posting-api", "audience: *name",
			"line 7, column 11: this is not YAML: unknown anchor 'name' referenced"},
		{sidecar, "egress:\n", "---\negress:\n", "the file has a second document (---); only one is allowed"},
		{sidecar, sidecar, "[runtime]", "line 1, column 1: the file: must be keys with values, not a list"},

		// Keys.
		{sidecar, "egress:\n", "egres:\n", "line 21, column 1: egres: is not known; did you mean egress?"},
		{sidecar, "    subject: ", "    subjekt: ",
			"line 19, column 5: actions[0].subjekt: is not known; did you mean subject?"},
		{sidecar, "requestProof:", "request_proof:",
			"line 15, column 3: keys.request_proof: is not known; did you mean requestProof?"},
		{sidecar, "Landlock", "", ""}, // the correct file
		{sidecar, "agent: {uid: 2000}", "agent: {user: 2000}",
			"line 11, column 9: agent.user: is not known; known here are gids, uid"},
		{sidecar, "state: state\n", "state: state\nstate: other\n", "line 7, column 1: state: is there twice"},
		{sidecar, "agent: {uid: 2000}", "agent: {<<: {uid: 2000}}",
			"line 11, column 9: agent: merges another mapping (<<): write its keys out"},
		{sidecar, "agent: {uid: 2000}", "guard:",
			"line 11, column 7: guard: has no value: write one, or leave the key out"},
		{sidecar, "runtime: worker-1\n", "",
			"line 1, column 1: runtime: is required without tls; with tls, the certificate names the runtime"},
		{sidecar, "issuer: mediator-session", "lifetime: 30s", "line 14, column 12: keys.session.issuer: is required"},
		{trigger, "state: state\n", "", "line 1, column 1: state: is required"},

		// Values of another kind.
		{sidecar, "uid: 2000", "uid: nobody",
			`line 11, column 14: agent.uid: must be a whole number in decimal digits, from 0 to 4294967295, not "nobody"`},
		{sidecar, "uid: 2000", "uid: -1",
			`line 11, column 14: agent.uid: must be a whole number in decimal digits, from 0 to 4294967295, not "-1"`},
		{sidecar, "uid: 2000", "uid: 4294967296",
			`line 11, column 14: agent.uid: must be a whole number in decimal digits, from 0 to 4294967295, not "4294967296"`},
		{sidecar, "uid: 2000", "uid: 0644",
			`line 11, column 14: agent.uid: must be a whole number in decimal digits, from 0 to 4294967295, not "0644"`},
		{sidecar, "methods: [POST]", "methods: POST",
			`line 18, column 60: actions[0].match.methods: must be a list, not "POST"`},
		{sidecar, "audience: posting-api", "audience: [posting-api]",
			"line 7, column 11: audience: must be a single value, not a list"},
		{sidecar, "custody: {type: memory}", "custody: memory",
			`line 10, column 10: custody: must be keys with values, not "memory"`},
		{sidecar, "actions:\n", "actions:\n  - post\n",
			`line 17, column 5: actions[0]: must be keys with values, not "post"`},
		{sidecar, "lifetime: 30s", "lifetime: 30",
			`line 15, column 68: keys.requestProof.lifetime: must be a duration such as 15s or 24h, not "30"`},
		{sidecar, "state: state\n", "state: state\nsession: {standing: yes}\n",
			`line 7, column 21: session.standing: must be true or false, not "yes"`},
		{sidecar, "state: state\n", "state: state\nlimits: {calls: 1e3}\n",
			`line 7, column 17: limits.calls: must be a whole number in decimal digits, from 0 to 9223372036854775807, not ` +
				`"1e3"`},

		// Values that mean nothing.
		{sidecar, "type: memory", "type: valt",
			`line 10, column 17: custody.type: "valt" is none of memory, vault, pkcs11; did you mean vault?`},
		{sidecar, "state: state\n", "state: state\nlog: {level: verbose}\n",
			`line 7, column 14: log.level: "verbose" is none of info, debug, warn, error`},
		{sidecar, "listen: 127.0.0.1:8080", "listen: 8080",
			`line 2, column 9: listen: "8080" is not a host and a port, as 127.0.0.1:8181 is`},
		{sidecar, "state: state\n", "state: state\nupstreams: [{host: \"a.test:443\", address: 10.0.0.5}]\n",
			"line 7, column 43: upstreams[0].address: 10.0.0.5 is not public (class private): list its range in networks, " +
				"unless it is that of a metadata service"},
		{sidecar, "uids: [1000]", "uids: [2000]",
			"line 3, column 37: admin.uids: 2000 is agent.uid: the agent must not reach this socket"},
		{sidecar, "{unix: run/trigger.sock}", "{unix: run/control.sock}",
			"line 5, column 17: control.unix: run/control.sock is also the endpoint of trigger"},
		{sidecar, "run/trigger.sock", longSocket, "line 4, column 17: trigger.unix: " + longSocket + tooLong},
		{sidecar, "run/admin.sock", longSocket, "line 3, column 15: admin.unix: " + longSocket + tooLong},
		{sidecar, "{unix: run/trigger.sock}", "{}", "line 4, column 10: trigger: needs exactly one of unix, tcp"},
		{sidecar, "state: state\n", "state: state\nreputation: {unix: run/node.sock, audience: node}\n",
			"line 7, column 13: reputation: needs receipts and keys.interactionReceipt: the node appraises receipts"},
		{withReceipts, "reputation: {unix: run/node.sock, audience: node}", "reputation: {unix: run/node.sock}",
			"line 7, column 13: reputation.audience: is required"},
		{withReceipts, "unix: run/node.sock", "unix: run/control.sock",
			"line 5, column 17: control.unix: run/control.sock is also the endpoint of reputation"},
		{sidecar, `{url: "https://api.example.com/posts", methods: [POST]}`,
			`{url: "http://mediator.internal/mcp", mcp: {tools: [register_plugin]}}`,
			"line 18, column 18: actions[0].match.url: names mediator.internal, where the node answers: set the " +
				"section reputation too"},
		{withReceipts, `{url: "https://api.example.com/posts", methods: [POST]}`,
			`{url: "http://mediator.internal/v1/dispute", methods: [POST]}`,
			"line 21, column 18: actions[0].match.url: has the path /v1/dispute, where the agent publishes: set " +
				"keys.agentStatement too"},
		{withReceipts, `{url: "https://api.example.com/posts", methods: [POST]}`,
			`{url: "http://mediator.internal/v1/event", methods: [POST]}`,
			"line 20, column 5: actions[0]: (post) a rule for http://mediator.internal must be for /mcp, " +
				"/v1/signals, /v1/dispute: everything else there needs no rule"},
		{withReceipts, `{url: "https://api.example.com/**", methods: [GET]}`,
			`{url: "http://mediator.internal/mcp", mcp: {tools: [register_plugin]}}`,
			"line 25, column 5: egress[0]: (reads) others can read what register_plugin writes: only an action may " +
				"name it"},
		{withReceipts, `{url: "https://api.example.com/**", methods: [GET]}`,
			`{url: "http://mediator.internal/mcp", mcp: {}}` + "\n    credential: {vault: {path: kv, field: f}}",
			"line 27, column 17: egress[0].credential: the node takes no credential: the sidecar names the calling " +
				"agent\nline 27, column 25: egress[0].credential.vault: needs custody.type: vault"},
		{withReceipts, `{url: "https://api.example.com/posts", methods: [POST]}`,
			`{url: "http://mediator.internal/mcp", mcp: {tools: [register_plugin]}}` +
				"\n    gate: api\n    api: {challenge: \"https://a.example/c\", verify: \"https://a.example/v\"}",
			"line 22, column 11: actions[0].gate: the node verifies no chain: leave gate and api out"},
		{withReceipts, "unix: run/node.sock, ", "", "line 7, column 13: reputation: needs exactly one of unix, tcp"},
		{withReceipts, "unix: run/node.sock", "unix: run/node.sock, uids: [1]",
			"line 7, column 35: reputation.uids: is not known; known here are audience, name, tcp, unix"},
		{withReceipts, "Landlock", "", ""}, // the correct file
		{sidecar, "lifetime: 30s", "lifetime: 1h",
			"line 15, column 68: keys.requestProof.lifetime: 1h0m0s is not between 1s and 10m0s"},
		{sidecar, "key: proof-key", "key: session-key",
			"line 15, column 23: keys.requestProof.key: session-key is also the key of keys.session"},
		{sidecar, "custody: {type: memory}", "custody: {type: memory}\nca: {permit: [later.example, \"*\"]}",
			`line 11, column 30: ca.permit[1]: "*" is neither a host name, such as example.com, nor an IP address`},
		{sidecar, "custody: {type: memory}",
			"custody: {type: memory}\nca: {unconstrained: true, permit: [later.example]}",
			"line 11, column 35: ca.permit: has no meaning with ca.unconstrained, which permits every host"},
		{sidecar, "https://api.example.com/posts", "api.example.com/posts",
			`line 18, column 12: actions[0].match: "api.example.com/posts" is not of the form https://host/path`},
		{sidecar, "methods: [POST]", "methods: [GET]",
			"line 17, column 5: actions[0]: (post) an action must have exactly one method, and not one that only " +
				"reads"},
		{sidecar, "methods: [GET]", "methods: [GET, POST]",
			"line 22, column 5: egress[0]: (reads) POST /** also matches spellings of an action's path /posts: name " +
				"its paths one by one"},
		{sidecar, "name: reads", "name: post",
			"line 22, column 5: egress[0]: (post) another rule has this name"},
		{sidecar, "    action: create_post", "    action: create_post\n    content: jsn",
			`line 21, column 14: actions[0].content: "jsn" is none of json, raw; did you mean json?`},
		{sidecar, "    action: create_post",
			"    action: create_post\n    credential: {vault: {path: kv, field: f}, basicSecret: pasword}",
			"line 21, column 25: actions[0].credential.vault: needs custody.type: vault\n" +
				`line 21, column 60: actions[0].credential.basicSecret: "pasword" is none of auto, password, user, both; did ` +
				`you mean password?`},
		{sidecar, "egress:\n", "upstreams:\n  - {host: \"api.example.com:443\", ca: /absent.pem}\negress:\n",
			"line 22, column 39: upstreams[0].ca: open /absent.pem: no such file or directory"},
		{sidecar, "egress:\n", "upstreamProxy: {}\negress:\n",
			"line 21, column 16: upstreamProxy.url: is required"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"proxy.example.com:3128\"}\negress:\n",
			"line 21, column 22: upstreamProxy.url: must be http://host:port or https://host:port, such as " +
				"http://proxy.example.com:3128"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://proxy.example.com\"}\negress:\n",
			"line 21, column 22: upstreamProxy.url: must be http://host:port or https://host:port, such as " +
				"http://proxy.example.com:3128"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"socks5://proxy.example.com:1080\"}\negress:\n",
			"line 21, column 22: upstreamProxy.url: must be http://host:port or https://host:port, such as " +
				"http://proxy.example.com:3128"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://proxy.example.com:3128/?a\"}\negress:\n",
			"line 21, column 22: upstreamProxy.url: must be http://host:port or https://host:port, such as " +
				"http://proxy.example.com:3128"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://me:secret@proxy.example.com:3128\"}\negress:\n",
			"line 21, column 22: upstreamProxy.url: must not hold a user or a password: put them into a file"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://a.example:1\", proxy: b, auth: ntlm}\negress:\n",
			"line 21, column 44: upstreamProxy.proxy: is not known; known here are auth, ca, credentialFile, " +
				"noProxy, resolve, url"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://a.example:1\", auth: ntlm, resolve: both}\negress:\n",
			"line 21, column 50: upstreamProxy.auth: \"ntlm\" is none of basic, digest\n" +
				"line 21, column 65: upstreamProxy.resolve: \"both\" is none of mediator, proxy"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://a.example:1\", auth: digest, ca: a.pem}\negress:\n",
			"line 21, column 50: upstreamProxy.auth: needs credentialFile\n" +
				"line 21, column 62: upstreamProxy.ca: has no meaning with an http URL"},
		{sidecar, "egress:\n",
			"upstreamProxy: {url: \"https://a.example:1\", credentialFile: /absent, ca: /absent.pem}\n" +
				"egress:\n",
			"line 21, column 61: upstreamProxy.credentialFile: read secret: open /absent: no such file or directory\n" +
				"line 21, column 74: upstreamProxy.ca: open /absent.pem: no such file or directory"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://a.example:1\", credentialFile: /etc/hostname}\negress:\n",
			"line 21, column 60: upstreamProxy.credentialFile: /etc/hostname does not hold user:password on one line"},
		{sidecar, "egress:\n", "upstreamProxy: {url: \"http://a.example:1\", noProxy: [a.example, \"10.0.0.0/33\"]}\negress:\n",
			`line 21, column 53: upstreamProxy.noProxy: "10.0.0.0/33" is none of *, host, .domain, IP address ` +
				`(each optionally with :port) and network (10.0.0.0/8)`},
		{sidecar, "    action: create_post", "    action: create_post\n    via: proxi",
			`line 21, column 10: actions[0].via: "proxi" is none of direct, proxy`},
		{sidecar, "methods: [GET]}", "methods: [GET]}\n    via: direct",
			"line 24, column 10: egress[0].via: needs upstreamProxy"},
		{trigger, `"0 3 * * *"`, `"0 3 * *"`,
			`line 9, column 5: sources[0]: (nightly) trigger: schedule nightly: expected exactly 5 fields, found 4: [0 3 * *]`},
		{trigger, "name: jobs", "name: nightly",
			"line 11, column 11: sources[1].name: nightly is also the name of sources[0]"},
		{trigger, "    queue: {dir: jobs}\n", "",
			"line 11, column 5: sources[1]: needs exactly one of github, standardWebhooks, engine, schedule, " +
				"queue"},
	} {
		path := write(t, strings.Replace(m.file, m.old, m.new, 1))
		var err error
		if m.file == trigger {
			_, err = Load[Trigger](path)
		} else {
			_, err = Load[Sidecar](path)
		}
		got := ""
		if err != nil {
			got = strings.NewReplacer(path+": ", "", filepath.Dir(path)+"/", "").Replace(err.Error())
		}
		if got != m.want {
			t.Errorf("%q for %q:\n got %s\nwant %s", m.new, m.old, got, m.want)
		}
	}
}

func TestMistakesInTheKeyThatNamesAFile(t *testing.T) {
	for name, tt := range map[string]struct{ text, kind, says string }{
		"a sidecar": {strings.Replace(correctSidecar, "runtime:", "runtme:", 1), "sidecar (mediator serve)",
			"line 1, column 1: runtme: is not known; did you mean runtime?"},
		"a trigger service": {strings.Replace(correctTrigger, "sources:", "source:", 1),
			"trigger service (mediator trigger)", "source: is not known; did you mean sources?"},
		"a policy in JSON": {`{"version": "1.0", "rules": [{"name": "a", "whn": "true"}]}`, "policy file",
			"whn: is not known; did you mean when?"},
		"no YAML":             {"runtime: [", "", "this is not YAML"},
		"nothing":             {"", "", "the file is empty"},
		"another file":        {"apiVersion: v1\nkind: Pod\n", "", "its top-level keys match no kind of configuration"},
		"what two files have": {"custody: {type: memory}\ninternal: {unix: a.sock}\n", "", "or match two kinds equally well"},
		"a list":              {"[runtime, sources]", "", "its top-level keys match no kind of configuration"},
	} {
		if checked, err := CheckFile(write(t, tt.text), true); checked.Kind != tt.kind || err == nil ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %q, %v", name, checked.Kind, err)
		}
	}
}

func TestPolicyThatAllowsNothing(t *testing.T) {
	for effect, want := range map[string]int{"deny": 1, "allow": 0} {
		text := "version: \"1.0\"\nrules:\n  - {name: a, effect: " + effect + ", when: \"true\"}\n"
		if checked, err := CheckFile(write(t, text), true); err != nil || len(checked.Warnings) != want {
			t.Errorf("%s: %v, %v", effect, checked.Warnings, err)
		}
	}
}

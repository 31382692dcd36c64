package demo

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
)

// fewWords is the most bytes that an agent of the tier new may post by the rule post-by-tier.
const fewWords = 1024

func posting(name, path string, more ...string) string {
	return fmt.Sprintf(`  - name: %s
    match: {url: "https://PLAIN%s", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
%s`, name, path, strings.Join(more, ""))
}

// registering and verifying are the rules by which an agent passes a verification.
const (
	registering = `  - name: register-plugin
    match: {url: "http://mediator.internal/mcp", mcp: {tools: [register_plugin]}}
    subject: agent:worker-1
    action: register_plugin
`
	verifying = `  - name: verification
    match:
      url: "http://mediator.internal/mcp"
      mcp: {tools: [get_registration_challenge, submit_challenge_turn, search_plugins, list_mcp_servers]}
`
)

func rules() string {
	return "\nactions:\n" + registering + `  - name: post-aware
    match: {url: "https://AWARE/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
    gate: api
    api: {challenge: "https://AWARE/challenge", verify: "https://AWARE/verify"}
` + posting("post-plain", "/posts") + posting("post-solved", "/solved", "    solver: agent\n") +
		posting("post-verified", "/verified") + posting("post-by-tier", "/tiers") + `  - name: post-tool
    match: {url: "https://PLAIN/mcp", mcp: {tools: [create_note]}}
    subject: agent:worker-1
    action: create_note
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
` + verifying + `  - name: read-tools
    match: {url: "https://PLAIN/mcp", mcp: {tools: [get_note, ask], elicitation: true}}
    credential: {prefix: "Bearer ", file: secrets/api-token}
  - name: model
    match: {url: "https://PLAIN/v1/messages", methods: [POST]}
    observe: anthropic-messages
    credential: {prefix: "Bearer ", file: secrets/api-token}
    generate: {models: [demo-model], maxTokens: 256}
  - name: read-plain
    match: {url: "https://PLAIN/**", methods: [GET]}
  - name: read-private
    match: {url: "http://10.0.0.1/**", methods: [GET]}
upstreams:
  - {host: "AWARE", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`
}

const task = `[{
  "id": "demo",
  "prompt": "Search the plugin registry, list the MCP servers of this deployment, and compare what both offer.",
  "requiredTools": ["search_plugins", "list_mcp_servers"], "minTurns": 3, "minDurationMs": 0
}]
`

const policyRules = `
  # Agents of the tier new post a few words. Those of a higher tier post as much as all other rules let them.
  - name: few-words-at-first
    effect: deny
    when: request.rule == "post-by-tier" && !(autonomy.tierRank > 0 || request.size <= %d)

  # One rule is for agents that have passed a verification in the last hour.
  - name: verified-alone
    effect: deny
    when: request.rule == "post-verified" && !(autonomy.verified && autonomy.verifiedAge < duration("1h"))
`

func (d *Demo) files() map[string][]byte {
	content := d.own.Files(rules())
	content[devstack.PolicyFile] = append(slices.Clone(content[devstack.PolicyFile]),
		fmt.Sprintf(policyRules, fewWords)...)
	content[devstack.ManifestFile] = trial.WithAutonomy(content[devstack.ManifestFile])
	content[devstack.ReputationFile] = bytes.Replace(content[devstack.ReputationFile], []byte("verification: {}"),
		[]byte("verification: {tasks: tasks.json, servers: [{name: notes, role: keeps notes}]}"), 1)
	content["tasks.json"] = []byte(task)
	return content
}

func flippedFiles(of *trial.Deployment) map[string][]byte {
	content := of.Files("\nactions:\n" + registering + "egress:\n" + verifying)
	content[devstack.ManifestFile] = bytes.Replace(slices.Clone(content[devstack.ManifestFile]),
		[]byte("bearerTokenAloneCanPost: false"), []byte("bearerTokenAloneCanPost: true"), 1)
	return content
}

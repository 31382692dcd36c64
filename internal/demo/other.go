package demo

import (
	"net/http"
	"path/filepath"
	"strings"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/freeport"
)

// otherFolder is the folder of the other owner's deployment, below that of the deployment that has the node.
const otherFolder = "other"

// nodeAudience is the name of the node. Sidecars and the arbiter sign for it.
const nodeAudience = "mediator-reputation"

// otherOwner is how the node knows the other owner: by the public files of its key registry.
const otherOwner = `  - name: other
    registry: ` + otherFolder + `/registry.jwk
    bundle: ` + otherFolder + `/trust.json
    certificates: {issuers: [key-registry], audiences: [posting-api]}
    receipts: {issuers: [mediator-observer], audiences: [posting-api], keys: [interaction-receipt-key]}
    statements: {issuers: [mediator-speaker], audiences: [posting-api], keys: [agent-statement-key]}
`

// registering and verifying are an action rule and an egress rule. By both an agent passes a verification.
const (
	registering = `  - name: register-plugin
    match: {url: "http://mediator.internal/mcp", mcp: {tools: [register_plugin]}}
    subject: agent:worker-1
    action: register_plugin
`
	verifying = `  - name: verification
    match: {url: "http://mediator.internal/mcp", mcp: {tools: [get_registration_challenge, submit_challenge_turn, search_plugins, list_mcp_servers]}}
`
)

// newOther prepares the deployment of another owner. It has roots, keys, a trigger service, a control plane and a sidecar of its own. Its sidecar
// delivers to the node of d. It shares the user of the agents with d: no two of them run at the same time.
func (d *Deployment) newOther() (_ *Deployment, err error) {
	other := &Deployment{Dir: filepath.Join(d.Dir, otherFolder), Self: d.Self, DirectClient: &http.Client{Timeout: patience}}
	for _, at := range []*string{&other.Listen, &other.Hooks} {
		if *at, err = freeport.Address(); err != nil {
			return nil, err
		}
	}
	content := other.Files("\nactions:\n" + registering + "egress:\n" + verifying)
	delete(content, devstack.ReputationFile)
	sidecar := Speaking(string(content[devstack.SidecarFile]))
	content[devstack.SidecarFile] = []byte(strings.Replace(sidecar, "reputation: {unix: run/", "reputation: {unix: ../run/", 1))
	content[devstack.ManifestFile] = WithStatements(content[devstack.ManifestFile])
	return other, devstack.Prepare(other.Dir, content)
}

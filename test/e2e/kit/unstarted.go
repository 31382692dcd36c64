package kit

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/internal/trial"
	"github.com/actionproof/mediator/test/check"
)

// sampleRules are for one post and for reads.
const sampleRules = `
actions:
  - name: post-plain
    match: {url: "https://PLAIN/posts", methods: [POST]}
    subject: agent:worker-1
    action: create_post
    credential: {prefix: "Bearer ", file: secrets/api-token}
egress:
  - name: read-plain
    match: {url: "https://PLAIN/**", methods: [GET]}
upstreams:
  - {host: "PLAIN", address: 127.0.0.1, networks: [127.0.0.0/8], ca: api-ca.pem}
`

// Unstarted writes the files of a deployment that starts no process, or only one that must not get far. change edits
// them by name.
func Unstarted(t *testing.T, change func(files map[string][]byte)) *trial.Deployment {
	t.Helper()
	d := &trial.Deployment{Dir: t.TempDir(), Listen: "127.0.0.1:0", Hooks: "127.0.0.1:0", AwareAddr: "127.0.0.1:1",
		PlainAddr: "127.0.0.1:2"}
	content := d.Files(sampleRules)
	content["secrets/api-token"] = []byte(trial.Token)
	change(content)
	check.Must(t, errors.Join(devstack.Prepare(d.Dir, content), trial.WriteCertificates(d.Dir)))
	return d
}

// OneProcess returns the command for one process of a deployment, which runs alone because it confines itself for good.
func OneProcess(ctx context.Context, d *trial.Deployment, process string) *exec.Cmd {
	return exec.CommandContext(ctx, "/proc/self/exe", process, "--config", filepath.Join(d.Dir, configurations[process]))
}

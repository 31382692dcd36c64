package node

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/full"
)

// TestDescription compiles a client by the types that openapi-typescript makes of the node's description.
func TestDescription(t *testing.T) {
	t.Parallel()
	full.Only(t, "Node's packages, which make setup installs")
	node, dir := kit.NodeJS(t)[0], t.TempDir()
	scripts, err := filepath.Abs(filepath.Join(kit.Top, kit.Scripts, "node"))
	check.Must(t, err)
	kit.Write(t, dir+"/openapi.json", string(api.Description()))
	kit.Write(t, dir+"/client.ts", string(kit.Read(t, scripts+"/node-api.ts")))
	for _, command := range [][]string{
		{"openapi-typescript/bin/cli.js", "openapi.json", "-o", "api.d.ts"},
		{"typescript/bin/tsc", "--noEmit", "--strict", "--target", "es2022", "--module", "es2022", "--moduleResolution",
			"bundler", "client.ts"},
	} {
		cmd := exec.CommandContext(t.Context(), node, append([]string{scripts + "/node_modules/" + command[0]},
			command[1:]...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command[0], err, out)
		}
	}
}

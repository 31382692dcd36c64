package commands

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/car"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// TestIPFS compares CARs with those of npm's ipfs-car, and reads them with a node of npm's helia that has no network.
func TestIPFS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, path := fillLedger(t, 1)
	check.Must(t, l.AddReceipts(t.Context(), ledger.Receipt{Session: "ses_1", Number: 1, Call: "call_1",
		Signed: recordsFrom, Token: "token"}))
	of := func(name string) string { return filepath.Join(dir, name) }
	kit.Mediator(t, "posts", "export", "--receipts", "--session", "ses_1", "--ledger", path, "--car", of("none.car")).
		Misused()
	kit.Mediator(t, "posts", "export", "--receipts", "--session", "ses_1", "--ledger", path, "--out", of("receipts"),
		"--car", of("receipts.car")).Done("the CID of " + of("receipts") + " is bafkrei")
	large := make([]byte, 3<<20+7)
	_, _ = rand.Read(large)
	kit.Write(t, of("large"), large)
	var packed bytes.Buffer
	_, err := car.Write(&packed, bytes.NewReader(large))
	check.Must(t, err)
	kit.Write(t, of("large.car"), packed.Bytes())

	node := kit.NodeVersion(t, "node24")
	run := func(folder string, command ...string) string {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		cmd.Dir, cmd.Stderr = filepath.Join(kit.Top, kit.Scripts, folder), os.Stderr
		out, err := cmd.Output()
		check.Must(t, err)
		return string(bytes.TrimSpace(out))
	}
	var want []string
	for _, name := range []string{"receipts", "large"} {
		root := run("node", node, "node_modules/.bin/ipfs-car", "pack", of(name), "--no-wrap", "--output", of("theirs.car"))
		if !bytes.Equal(kit.Read(t, of("theirs.car")), kit.Read(t, of(name+".car"))) {
			t.Errorf("ipfs-car packs %s otherwise", name)
		}
		hash := sha256.Sum256(kit.Read(t, of(name)))
		want = append(want, root+" "+hex.EncodeToString(hash[:]))
	}
	got := run("helia", "unshare", "--map-root-user", "--net", node, "read.mjs", of("receipts.car"), of("large.car"))
	if got != strings.Join(want, "\n") {
		t.Errorf("Helia reads\n%s\nnot\n%s", got, strings.Join(want, "\n"))
	}
}

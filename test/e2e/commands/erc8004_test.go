package commands

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/crypto/sha3"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/api"
	"github.com/actionproof/mediator/reputation/erc8004"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/nodetest"
)

// transaction is a call and who sends it: owner or client.
type transaction struct {
	From string `json:"from"`
	erc8004.Call
}

// onChain is what a chain knows after a transaction, in hexadecimal.
type onChain struct {
	Reverted *string
	Logs     []struct {
		Topics []string
		Data   string
	}
	URI      string // of the registered agent
	Feedback string // the client's first: value, decimals, two texts, revoked
}

// word returns a word of returned data as a number.
func word(t *testing.T, data string, i int) int64 {
	t.Helper()
	raw, err := hex.DecodeString(strings.TrimPrefix(data, "0x"))
	check.Must(t, err)
	n := int64(0)
	for _, b := range raw[32*i+24 : 32*i+32] {
		n = n<<8 | int64(b)
	}
	return n
}

// published returns the file of the data URI whose offset a word has.
func published(t *testing.T, data string, i int) []byte {
	t.Helper()
	at := word(t, data, i) / 32
	size := word(t, data, int(at))
	raw, err := hex.DecodeString(strings.TrimPrefix(data, "0x")[64*(at+1):][:2*size])
	check.Must(t, err)
	text, ok := strings.CutPrefix(string(raw), "data:application/json;base64,")
	if !ok {
		t.Fatalf("no data URI: %.100q", raw)
	}
	file, err := base64.StdEncoding.DecodeString(text)
	check.Must(t, err)
	return file
}

// TestERC8004 registers an agent with the reference contracts on a simulated chain, gives feedback that a score
// grounds, revokes it, and verifies what was published from the chain's data and public keys alone.
func TestERC8004(t *testing.T) {
	t.Parallel()
	n := nodetest.New(t, gatetest.New(t), nil)
	node := kit.ServeUnix(t, "node.sock",
		api.Handler(n.Service, api.Options{Now: n.Kit.Clock.Now, Log: zap.NewNop(), Operators: true}))
	agent := n.Kit.Agent(t).String()
	ask := func(entry string, args ...string) kit.Ended {
		return kit.Mediator(t, append([]string{"reputation", "show", "--node", node, "--erc8004", entry}, args...)...)
	}
	client := "0x" + strings.Repeat("3", 40)
	ask("eip155:1:0x"+strings.Repeat("1", 40)+":0", "--client", client, "agent", "--", agent).
		Refused("no scored session yet")
	s := n.Calls(t, "ses_1", 12)
	s.Close(t)
	n.Delivered(t, 14, s.Receipts...)
	check.Must(t, n.Enter(t.Context()))
	for _, args := range [][]string{{"agents"}, {"agent", agent, "--client", client, "--revoke", "1"}} {
		ask("eip155:1:0x"+strings.Repeat("1", 40), args...).Misused()
	}
	kit.Mediator(t, "reputation", "show", "agent", agent, "--client", client).Misused()
	ask("eip155:1:0x12", "agent", "--", agent).Refused("is not an identity registry")

	chain := exec.CommandContext(t.Context(), kit.Need(t, "node"), "erc8004.mjs")
	chain.Dir, chain.Stderr = filepath.Join(kit.Top, kit.Scripts, "node"), os.Stderr
	in, err := chain.StdinPipe()
	check.Must(t, err)
	out, err := chain.StdoutPipe()
	check.Must(t, err, chain.Start())
	said := bufio.NewReader(out)
	address, err := said.ReadString('\n')
	check.Must(t, err)
	registry := "eip155:31337:" + strings.TrimSpace(address)
	from := func(who, entry string, args ...string) transaction {
		tx := transaction{From: who}
		check.Must(t, json.Unmarshal([]byte(ask(entry, args...).Done().Out), &tx.Call))
		return tx
	}
	first := registry + ":0"
	sent := []transaction{
		from("owner", registry, "agent", "--", agent),
		from("owner", first, "agent", "--", agent),
		from("owner", first, "score", "ses_1", "--client", client), // of one's own agent
		from("client", first, "score", "ses_1", "--client", client),
		from("client", first, "--client", client, "agent", "--", agent),
		from("client", first, "--revoke", "1", "agent", "--", agent),
	}
	check.Must(t, json.NewEncoder(in).Encode(sent))
	var after []onChain
	check.Must(t, json.NewDecoder(said).Decode(&after), chain.Wait())
	for i, want := range []string{"", "", "Self-feedback not allowed", "", "", ""} {
		if got := after[i].Reverted; (got == nil) != (want == "") || (got != nil && !strings.Contains(*got, want)) {
			t.Fatalf("transaction %d: reverted %v", i, got)
		}
	}
	for i, want := range []string{`"registrations":[]`, `"registrations":[{"agentId":0,"agentRegistry":"` + registry} {
		if got := string(published(t, after[i].URI, 0)); !strings.Contains(got, want) ||
			!strings.Contains(got, `"name":"`+agent) {
			t.Errorf("registered %s", got)
		}
	}
	dir := t.TempDir()
	f := n.Kit.Files(t, dir)
	n.Kit.WriteBundle(t, f.Bundle, n.Kit.Certificates[evidence.PurposeInteraction],
		n.Kit.Certificates[evidence.PurposeAppraiser])
	verify := func(file []byte) kit.Ended {
		path := filepath.Join(dir, "feedback.json")
		kit.Write(t, path, file)
		return kit.Mediator(t, "verify", path, "--registry", f.Registry, "--auditor", f.Auditor, "--bundle", f.Bundle,
			"--manifest", f.Manifest)
	}
	for i, want := range map[int]string{3: "the score of session ses_1", 4: "reputation of " + agent} {
		event := after[i].Logs[0].Data // index, value, decimals, tag1, tag2, endpoint, feedbackURI, feedbackHash
		file := published(t, event, 6)
		verify(file).Done(want)
		var said struct{ Value int64 }
		check.Must(t, json.Unmarshal(file, &said))
		if said.Value != word(t, event, 1) || said.Value == 0 {
			t.Errorf("the chain's value is %d, not %d", word(t, event, 1), said.Value)
		}
		verify([]byte(strings.Replace(string(file), `"value":`, `"value":1`, 1))).Refused("evidence_malformed")
		hash := sha3.NewLegacyKeccak256()
		hash.Write(file)
		if want := hex.EncodeToString(hash.Sum(nil)); !strings.HasSuffix(event[:2+64*8], want) {
			t.Errorf("the chain's hash of the file is not %s", want)
		}
	}
	if word(t, after[4].Feedback, 4) != 0 || word(t, after[5].Feedback, 4) != 1 {
		t.Error("the feedback is not revoked, or was from the start")
	}
}

package vectors_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/strictjson"
)

const signalDocument = `{"timestamp": 1795176000, "statement": "It will rain.", "horizon": "short",
     "signal_id": "sig_1", "agent_id": "owner:agent:worker-1"}`

func (d deployment) statements() artifactsFile {
	d, r := d.with(evidence.PurposeStatement, "mediator-speaker", "posting-api", "agent-statement-key")
	typ := interaction.StatementKind.Typ
	f := artifactsFile{About: "Statements of agents: see docs/vectors.md, Statements.", At: at, Skew: 2,
		Trust: d.trusting(r), Expected: map[string]expectedJSON{typ: r.expected(600)}}
	payload := claimsOf(d, interaction.StatementKind, interaction.Statement{
		Owner: strings.Repeat("o", 43), Agent: "agent:worker-1", Session: "ses_1", EventID: "evt_1",
		Kind:          interaction.StatesSignal,
		StatementHash: must(evidence.HashJSON([]byte(signalDocument))), BindingHash: otherHash, Probabilistic: true,
	}, 600)
	for _, row := range statementRows() {
		token := d.signed(r.purpose, typ, payload, changes{typ: row.change})
		v := artifactVector{Name: row.name, Typ: typ, Token: token, Verdict: row.code}
		if row.code == "ok" {
			v.Claims = must(strictjson.Canonical([]byte(with(payload, row.change))))
		}
		f.Vectors = append(f.Vectors, v)
	}
	observer := d.roles[evidence.PurposeRequestProof]
	f.Vectors = append(f.Vectors,
		artifactVector{Name: "by a key for something else", Typ: typ, Token: d.signed(observer.purpose, typ, payload, nil),
			Verdict: "key_purpose"})
	return f
}

func statementRows() []claimRow {
	const bad = "artifact_malformed"
	rows := []claimRow{
		{name: "valid", code: "ok"}, says("ok", "kind", "contract"), says("ok", "kind", "challenge"),
		says("artifact_malformed", "bindingHash", nil), says("artifact_malformed", "exp", at+601),
	}
	for _, name := range []string{"agent", "eventId", "session"} {
		most := map[string]int{"agent": 256, "eventId": 256, "session": 128}[name]
		rows = append(rows,
			claimRow{name: name + " of most bytes", code: "ok", change: map[string]any{name: strings.Repeat("n", most)}})
	}
	for _, r := range []struct {
		claim string
		value any
	}{
		{"agent", ""}, {"agent", strings.Repeat("n", 257)}, {"eventId", ""}, {"eventId", strings.Repeat("n", 257)},
		{"session", ""}, {"session", strings.Repeat("n", 129)},
		{"owner", ""}, {"owner", strings.Repeat("o", 42)}, {"kind", "opinion"}, {"kind", 1}, {"statementHash", "none"},
		{"bindingHash", "none"}, {"exp", at + 599},
		{"probabilistic", false}, {"nonHumanIdentityProven", true}, {"another", 1},
	} {
		rows = append(rows, says(bad, r.claim, r.value))
	}
	return rows
}

func TestStatementDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/vectors.md")
	if err != nil || !bytes.Contains(page, []byte(signalDocument)) {
		t.Errorf("%v: docs/vectors.md does not show %s", err, signalDocument)
	}
}

package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestReceipts(t *testing.T) {
	const (
		key      = "  interactionReceipt: {key: interaction-receipt-key, issuer: mediator-observer}\n"
		receipts = "receipts: {subject: \"agent:worker-1\"}\n"
		observed = "  - name: model\n    match: {url: \"https://api.openai.com/v1/chat/completions\", methods: " +
			"[POST]}\n    observe: openai-chat\n"
		speaker = "  agentStatement: {key: agent-statement-key, issuer: mediator-speaker}\n"
		node    = "reputation: {unix: run/node.sock, audience: node}\n"
	)
	for name, tt := range map[string]struct{ keys, top, rule, want string }{
		"statements":                {key + speaker, receipts + node, "", ""},
		"statements without a node": {key + speaker, receipts, "", "reputation: is required with keys.agentStatement"},
		"statements with a lifetime": {key + strings.Replace(speaker, "}", ", lifetime: 30s}", 1), receipts + node, "",
			"keys.agentStatement.lifetime: has no meaning"},
		"the receipts' key": {key + strings.Replace(speaker, "agent-statement-key", "interaction-receipt-key", 1),
			receipts + node, "",
			"keys.agentStatement.key: interaction-receipt-key is also the key of keys.interactionReceipt"},
		"none, and nothing observed": {"", "", "", ""},
		"receipts":                   {key, receipts, observed, ""},
		"of posts alone":             {key, receipts, "", ""},
		"observed without receipts": {"", "", observed,
			"egress[1].observe: needs receipts and keys.interactionReceipt"},
		"no key":      {"", receipts, observed, "keys.interactionReceipt: is required with receipts"},
		"a key alone": {key, "", "", "receipts: is required with keys.interactionReceipt"},
		"no subject":  {key, "receipts: {}\n", "", "receipts.subject: is required"},
		"another subject": {key, "receipts: {subject: other}\n", "",
			`actions[0].subject: "agent:worker-1" differs from receipts.subject, "other"`},
		"a subject that is too long": {key, "receipts: {subject: " + strings.Repeat("a", 257) + "}\n", "",
			"receipts.subject: has 257 bytes; at most 256 are allowed"},
		"a runtime that just fits": {key, receipts + "runtime: " + strings.Repeat("r", 128) + "\n", "", ""},
		"a runtime that is too long": {key, receipts + "runtime: " + strings.Repeat("r", 129) + "\n", "",
			"runtime: has 129 bytes; a receipt holds at most 128"},
		"a long runtime without receipts": {"", "runtime: " + strings.Repeat("r", 129) + "\n", "", ""},
		"a lifetime": {strings.Replace(key, "}", ", lifetime: 30s}", 1), receipts, "",
			"keys.interactionReceipt.lifetime: has no meaning"},
		"another role's key": {strings.Replace(key, "interaction-receipt-key", "runtime-key", 1), receipts, "",
			"keys.interactionReceipt.key: runtime-key is also the key of keys.runtime"},
		"another role's issuer": {strings.Replace(key, "mediator-observer", "mediator-proof", 1), receipts, "",
			"keys.interactionReceipt.issuer: mediator-proof is also the issuer of keys.requestProof"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(correctSidecar, "actions:\n", tt.keys+tt.top+"actions:\n", 1) + tt.rule
			if strings.Contains(tt.top, "runtime: ") {
				text = strings.Replace(text, "runtime: worker-1\n", "", 1)
			}
			_, err := Load[Sidecar](write(t, text))
			if got := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("found %s, want %q", got, tt.want)
			}
		})
	}
}

func TestSigning(t *testing.T) {
	const (
		key  = "  webBotAuth: {key: web-bot-auth-key, issuer: \"https://agents.example.com\"}\n"
		rule = "  - name: signed\n    match: {url: \"https://api.example.org/**\", methods: [GET]}\n    sign: "
	)
	for name, tt := range map[string]struct{ keys, rule, want string }{
		"signed":        {key, rule + "web-bot-auth", ""},
		"earlier draft": {key, rule + "web-bot-auth-legacy", ""},
		"not signed":    {"", rule + "none", ""},
		"no key":        {"", rule + "web-bot-auth", "egress[1].sign: needs keys.webBotAuth"},
		"another form":  {key, rule + "rfc9421", `egress[1].sign: "rfc9421" is none of`},
		"no origin": {strings.Replace(key, "https://", "http://", 1), "",
			`keys.webBotAuth.issuer: "http://agents.example.com" is not an https origin`},
		"another role's key": {strings.Replace(key, "web-bot-auth-key", "runtime-key", 1), "",
			"keys.webBotAuth.key: runtime-key is also the key of keys.runtime"},
	} {
		_, err := Load[Sidecar](write(t, strings.Replace(correctSidecar, "actions:\n", tt.keys+"actions:\n",
			1)+tt.rule))
		if got := fmt.Sprint(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: found %s, want %q", name, got, tt.want)
		}
	}
	text := strings.Replace(correctSidecar, "    action: ", "    sign: web-bot-auth\n    action: ", 1)
	if _, err := Load[Sidecar](write(t, text)); err == nil || !strings.Contains(err.Error(), "actions[0].sign: needs") {
		t.Errorf("an action: %v", err)
	}
}

package config

import (
	"fmt"

	"github.com/actionproof/mediator/proxy/match"
)

// Warning is a risk that a configuration takes. Its code is stable.
type Warning struct {
	Code     string `json:"code"`
	Key      string `json:"key"`
	Sentence string `json:"sentence"`
}

func (w Warning) String() string { return fmt.Sprintf("%s: %s (%s)", w.Key, w.Sentence, w.Code) }

func (c *Sidecar) warn() {
	add := func(code, key, format string, args ...any) {
		c.Warnings = append(c.Warnings, Warning{code, key, fmt.Sprintf(format, args...)})
	}
	for i, e := range c.EgressRules {
		if !e.WebSocket {
			continue
		}
		for _, a := range c.ActionRules {
			if match.CoversHost(e.Match.Host, a.Match.Host) {
				add("websocket_beside_action", fmt.Sprintf("egress[%d].websocket", i),
					"the rule %s allows WebSockets to %s, where the action %s posts: messages in a WebSocket need no evidence",
					e.Name, a.Match.Host, a.Name)
				break
			}
		}
	}
	for i, a := range c.Actions {
		if a.Gate == "api" && a.Match.messages() != "" {
			add("api_gate_resource", fmt.Sprintf("actions[%d].gate", i),
				"the action %s is about %s: its resource ends with what the message does, "+
					"and the API must say the same in gate.Protect.Resource, or it refuses every post", a.Name, a.Match.messages())
		}
	}
}

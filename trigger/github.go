package trigger

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
)

// github is GitHub's scheme: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries. It
// ignores the older header X-Hub-Signature (SHA-1).
var github = scheme{
	idHeader: "X-GitHub-Delivery", signatureHeader: "X-Hub-Signature-256", unsignedID: true,
	signatures: func(header string) []candidate {
		digits, ok := strings.CutPrefix(header, "sha256=")
		mac, err := hex.DecodeString(digits)
		if !ok || err != nil {
			return nil
		}
		return []candidate{{text: header, mac: mac}}
	},
	signature: func(mac []byte) string { return "sha256=" + hex.EncodeToString(mac) },
	signed:    func(_ delivery, body []byte) []byte { return body },
}

const githubEvent = "X-GitHub-Event"

// NewGitHub makes a source for GitHub's webhooks with content type application/json. events start a run; humans are
// events that a human asked for; all others are ignored. Names are GitHub's, alone or with the action, such as
// release.published. Secrets have at least 16 bytes; several allow a rotation.
//
// GitHub signs only the body, not the headers with the delivery's id and the event's name. So a body is good for one
// delivery, even if its headers change or that delivery was ignored.
func NewGitHub(name string, secrets []string, events, humans []string) (*Webhook, error) {
	w := &Webhook{name: name, kind: evidence.TriggerSourceEvent, method: evidence.MethodWebhookSignature,
		scheme: github}
	for _, s := range secrets {
		w.secrets = append(w.secrets, []byte(s))
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("trigger: webhook %s names no event that starts a run", name)
	}
	for _, e := range events {
		if slices.Contains(humans, e) {
			return nil, fmt.Errorf(
				"trigger: webhook %s names the event %s both as one that starts a run and as one that a human asks for",
				name, e)
		}
	}
	events, humans = slices.Clone(events), slices.Clone(humans)
	w.eventHeader, w.events = githubEvent, events
	w.classify = func(h http.Header, payload map[string]json.RawMessage) (string, class, error) {
		event, err := only(h, githubEvent)
		if err != nil {
			return "", ignored, err
		}
		full := event
		if action := text(payload, "action"); action != "" {
			full = event + "." + action
		}
		named := func(list []string) bool { return slices.Contains(list, event) || slices.Contains(list, full) }
		switch {
		case named(humans):
			return full, human, nil
		case named(events):
			return full, wanted, nil
		}
		return full, ignored, nil
	}
	return w, nil
}

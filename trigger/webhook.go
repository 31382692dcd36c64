package trigger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
)

const (
	minWebhookSecret = 16
	// webhookTolerance bounds how far off a signed timestamp may be.
	webhookTolerance = 5 * time.Minute
	// maxHeader bounds each header in bytes: about 40 signatures.
	maxHeader = 2048
)

// Webhook is a source of deliveries signed with HMAC-SHA256. One verifier serves every scheme. It is safe for
// concurrent use.
type Webhook struct {
	name         string
	kind, method string
	secrets      [][]byte
	scheme       scheme
	classify     func(h http.Header, payload map[string]json.RawMessage) (typ string, c class, err error)
	// eventHeader names the event if the sender does so outside the payload. events start a run.
	eventHeader string
	events      []string
}

type scheme struct {
	idHeader, signatureHeader string
	timestampHeader           string // empty if none
	signatures                func(header string) []candidate
	signature                 func(mac []byte) string
	signed                    func(d delivery, body []byte) []byte
	// unsignedID means that the signature does not cover the delivery's id. The body then makes one event only, because
	// a copied delivery could otherwise be repeated under new ids.
	unsignedID bool
}

type delivery struct{ id, timestamp string }

type candidate struct {
	text string
	mac  []byte
}

type class int

const (
	ignored class = iota // nothing
	human                // a human asked for it
	wanted               // starts a run
)

func (w *Webhook) Name() string { return w.name }

// Run does nothing: deliveries arrive through [Service.Webhooks].
func (w *Webhook) Run(context.Context, *Service) error { return nil }

func (w *Webhook) check() error {
	if len(w.secrets) == 0 {
		return errors.New("trigger: a webhook needs at least one secret")
	}
	for _, s := range w.secrets {
		if len(s) < minWebhookSecret {
			return fmt.Errorf("trigger: a secret of webhook %s has fewer than %d bytes", w.name, minWebhookSecret)
		}
	}
	return nil
}

// accept verifies a delivery before reading it.
func (w *Webhook) accept(h http.Header, body []byte, now time.Time) (arrival, class, error) {
	d, signature, err := w.verify(h, body)
	if err != nil {
		return arrival{}, ignored, err
	}
	if err := timely(d, now); err != nil {
		return arrival{}, ignored, err
	}
	payload, err := object(body)
	if err != nil {
		return arrival{}, ignored, err
	}
	typ, c, err := w.classify(h, payload)
	if err != nil {
		return arrival{}, ignored, err
	}
	a := arrival{
		kind: w.kind, source: w.name, method: w.method, evidenceID: d.id, typ: typ, payload: body,
		verified: map[string]string{"deliveryId": d.id, "payload": evidence.HashBytes(body), "signature": signature,
			"timestamp": d.timestamp},
	}
	if c == human {
		a.kind = evidence.TriggerHumanRequest
	}
	if w.scheme.unsignedID {
		a.keys = []string{"body:" + evidence.HashBytes(body)}
	}
	return a, c, nil
}

// verify returns the headers' values and the valid signature. It tries all pairs of secret and signature, each in
// constant time.
func (w *Webhook) verify(h http.Header, body []byte) (d delivery, signature string, err error) {
	s := w.scheme
	if len(h.Values(s.signatureHeader)) == 0 {
		return d, "",
			refusal.New("webhook_signature", "the delivery is not signed: it lacks the header %s", s.signatureHeader)
	}
	header, err := only(h, s.signatureHeader)
	if err != nil {
		return d, "", err
	}
	if d.id, err = only(h, s.idHeader); err != nil {
		return d, "", err
	}
	if !isID(d.id) {
		return d, "",
			refusal.New("event_malformed", "the header %s is not 1 to %d printable ASCII characters", s.idHeader, maxID)
	}
	if s.timestampHeader != "" {
		if d.timestamp, err = only(h, s.timestampHeader); err != nil {
			return d, "", err
		}
	}
	signed, candidates := s.signed(d, body), s.signatures(header)
	for _, secret := range w.secrets {
		m := hmac.New(sha256.New, secret)
		m.Write(signed)
		want := m.Sum(nil)
		for _, c := range candidates {
			if hmac.Equal(c.mac, want) {
				signature = c.text
			}
		}
	}
	if signature == "" {
		return d, "", refusal.New("webhook_signature", "the delivery's signature is wrong")
	}
	return d, signature, nil
}

// timely refuses a signed timestamp that is too far off. Without a timestamp only single use protects.
func timely(d delivery, now time.Time) error {
	if d.timestamp == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(d.timestamp, 10, 64)
	if err != nil {
		return refusal.New("event_malformed", "the delivery's timestamp is not a Unix time")
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); off > webhookTolerance {
		return refusal.New("webhook_signature",
			"the delivery's timestamp differs from the clock by %s; at most %s are accepted", off.Round(time.Second),
			webhookTolerance)
	}
	return nil
}

// only returns the value of a header that must occur once: a proxy may have read another of several.
func only(h http.Header, name string) (string, error) {
	v := h.Values(name)
	if len(v) != 1 || v[0] == "" || len(v[0]) > maxHeader {
		return "", refusal.New("event_malformed", "the header %s must occur exactly once, with at most %d bytes", name,
			maxHeader)
	}
	return v[0], nil
}

// object reads a JSON object. Only with maps does encoding/json compare names exactly.
func object(body []byte) (map[string]json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, refusal.New("event_malformed", "the delivery's payload is not a JSON object")
	}
	return members, nil
}

func text(members map[string]json.RawMessage, name string) string {
	var s string
	if json.Unmarshal(members[name], &s) != nil {
		return ""
	}
	return s
}

package trigger

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/problem"
)

const (
	// maxPayload bounds a webhook's body: GitHub's own bound is 25 MB, but what starts an agent is small.
	maxPayload = 1 << 20
	// minWebhookSecret is the shortest webhook secret, in bytes.
	minWebhookSecret = 16
	// webhookTolerance is how far a Standard Webhooks timestamp may be off.
	webhookTolerance = 5 * time.Minute
)

// Webhook is a source that signs what it delivers. It is one row of data: how to read a delivery, and what it is called.
type Webhook struct {
	name    string
	kind    string // of the events: evidence.TriggerSourceEvent or evidence.TriggerAutonomousPolicy
	method  string
	secrets [][]byte
	// read takes the delivery id, the signed bytes and the candidate signatures from a delivery.
	read func(h http.Header, body []byte, now time.Time) (delivery, error)
	// classify says what a delivery is: an event that starts a run, one that a human asked for, or nothing of interest.
	classify func(h http.Header, body []byte) (eventType string, class class)
}

// delivery is a delivery taken apart, with nothing verified yet.
type delivery struct {
	id         string
	signed     []byte
	signatures [][]byte
	timestamp  string
}

type class int

const (
	ignored class = iota
	human
	wanted
)

// Name returns the source's name.
func (w *Webhook) Name() string { return w.name }

// Run does nothing: deliveries come to [Service.Webhooks].
func (w *Webhook) Run(context.Context, *Service) error { return nil }

func newWebhook(name string, secrets [][]byte) (*Webhook, error) {
	if name == "" || len(secrets) == 0 {
		return nil, errors.New("trigger: a webhook needs a name and at least one secret")
	}
	for _, s := range secrets {
		if len(s) < minWebhookSecret {
			return nil, fmt.Errorf("trigger: a secret of webhook %s has fewer than %d bytes", name, minWebhookSecret)
		}
	}
	return &Webhook{name: name, kind: evidence.TriggerSourceEvent, method: evidence.MethodWebhookSignature, secrets: secrets}, nil
}

// NewGitHub makes a source of GitHub's webhooks (X-Hub-Signature-256 over the raw body). events and humans name what GitHub calls
// the event, alone or with its action: push, release.published.
func NewGitHub(name string, secrets []string, events, humans []string) (*Webhook, error) {
	w, err := newWebhook(name, bytesOf(secrets))
	if err != nil {
		return nil, err
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("trigger: webhook %s names no event that starts a run", name)
	}
	w.read = readGitHub
	w.classify = func(h http.Header, body []byte) (string, class) {
		var payload struct {
			Action string `json:"action"`
		}
		_ = json.Unmarshal(body, &payload) // no action is no error
		event := h.Get("X-GitHub-Event")
		full := event
		if payload.Action != "" {
			full = event + "." + payload.Action
		}
		named := func(list []string) bool { return slices.Contains(list, event) || slices.Contains(list, full) }
		switch {
		case named(humans):
			return full, human
		case named(events):
			return full, wanted
		}
		return full, ignored
	}
	return w, nil
}

// readGitHub reads https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries.
func readGitHub(h http.Header, body []byte, _ time.Time) (delivery, error) {
	id, err := only(h, "X-GitHub-Delivery")
	if err != nil {
		return delivery{}, err
	}
	text, err := only(h, "X-Hub-Signature-256")
	if err != nil {
		return delivery{}, err
	}
	signature, err := hex.DecodeString(strings.TrimPrefix(text, "sha256="))
	if err != nil || !strings.HasPrefix(text, "sha256=") {
		return delivery{}, evidence.Refuse("webhook_malformed", "the header X-Hub-Signature-256 is not sha256= and hex")
	}
	return delivery{id: id, signed: body, signatures: [][]byte{signature}}, nil
}

// NewStandard makes a source of Standard Webhooks (https://www.standardwebhooks.com). Secrets are whsec_ and base64, or plain text.
func NewStandard(name string, secrets []string) (*Webhook, error) {
	decoded := make([][]byte, 0, len(secrets))
	for _, s := range secrets {
		raw, ok := strings.CutPrefix(s, "whsec_")
		if !ok {
			decoded = append(decoded, []byte(s))
			continue
		}
		b, err := base64.StdEncoding.DecodeString(raw)
		if err != nil {
			return nil, fmt.Errorf("trigger: a secret of webhook %s is not base64 after whsec_", name)
		}
		decoded = append(decoded, b)
	}
	w, err := newWebhook(name, decoded)
	if err != nil {
		return nil, err
	}
	w.read = readStandard
	w.classify = func(_ http.Header, body []byte) (string, class) {
		var payload struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal(body, &payload)
		return payload.Type, wanted
	}
	return w, nil
}

// NewEngine makes a source of a policy engine's decisions, which the engine signs as Standard Webhooks.
func NewEngine(name string, secrets []string) (*Webhook, error) {
	w, err := NewStandard(name, secrets)
	if err != nil {
		return nil, err
	}
	w.kind, w.method = evidence.TriggerAutonomousPolicy, evidence.MethodPolicyEngineDecision
	return w, nil
}

func readStandard(h http.Header, body []byte, now time.Time) (delivery, error) {
	var d delivery
	var err error
	if d.id, err = only(h, "Webhook-Id"); err != nil {
		return d, err
	}
	if d.timestamp, err = only(h, "Webhook-Timestamp"); err != nil {
		return d, err
	}
	seconds, err := strconv.ParseInt(d.timestamp, 10, 64)
	if err != nil {
		return d, evidence.Refuse("webhook_malformed", "the header webhook-timestamp is not a Unix time")
	}
	if off := now.Sub(time.Unix(seconds, 0)).Abs(); off > webhookTolerance {
		return d, evidence.Refuse("webhook_timestamp", "the delivery's timestamp is %s away from the clock here", off.Round(time.Second))
	}
	text, err := only(h, "Webhook-Signature")
	if err != nil {
		return d, err
	}
	for field := range strings.FieldsSeq(text) {
		if raw, ok := strings.CutPrefix(field, "v1,"); ok { // other versions are for others
			b, err := base64.StdEncoding.DecodeString(raw)
			if err != nil {
				return d, evidence.Refuse("webhook_malformed", "a v1 signature is not base64")
			}
			d.signatures = append(d.signatures, b)
		}
	}
	d.signed = append([]byte(d.id+"."+d.timestamp+"."), body...)
	return d, nil
}

// only returns the one value of a header that must be there exactly once.
func only(h http.Header, name string) (string, error) {
	v := h.Values(name)
	if len(v) != 1 || v[0] == "" || len(v[0]) > 2048 {
		return "", evidence.Refuse("webhook_malformed", "the header %s must be there exactly once", strings.ToLower(name))
	}
	return v[0], nil
}

// verify reports whether one of the secrets made one of the signatures. Every pair is tried, in constant time each.
func (w *Webhook) verify(d delivery) bool {
	valid := false
	for _, secret := range w.secrets {
		m := hmac.New(sha256.New, secret)
		m.Write(d.signed)
		want := m.Sum(nil)
		for _, got := range d.signatures {
			if hmac.Equal(got, want) {
				valid = true
			}
		}
	}
	return valid
}

// accept turns a delivery into an event, or into nothing (nil) where it is of no interest.
func (w *Webhook) accept(h http.Header, body []byte, now time.Time) (*Event, error) {
	d, err := w.read(h, body, now)
	if err != nil {
		return nil, err
	}
	if !w.verify(d) {
		return nil, evidence.Refuse("webhook_signature", "the delivery's signature is wrong")
	}
	eventType, class := w.classify(h, body)
	kind := w.kind
	switch class {
	case wanted:
	case human:
		kind = evidence.TriggerHumanRequest
	default:
		return nil, nil
	}
	e, err := newEvent(kind, w.name, w.method, d.id, eventType, body, map[string]string{
		"deliveryId": d.id, "timestamp": d.timestamp, "signature": hex.EncodeToString(slices.Concat(d.signatures...)), "payload": evidence.HashBytes(body),
	})
	return &e, err
}

// accepted is the answer to a delivery.
type accepted struct {
	EventID   string `json:"eventId,omitempty"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Ignored   bool   `json:"ignored,omitempty"`
}

// Webhooks answers POST /hooks/{source}. A delivery is accepted once it is durable; the same delivery again is no error, for
// senders repeat what they are not sure of, and no second event.
func (s *Service) Webhooks() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks/{source}", func(w http.ResponseWriter, r *http.Request) {
		answer, err := s.deliver(w, r)
		if err != nil {
			problem.Write(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusAccepted)
		_ = json.NewEncoder(w).Encode(answer)
	})
	return mux
}

func (s *Service) deliver(w http.ResponseWriter, r *http.Request) (accepted, error) {
	at := slices.IndexFunc(s.o.Sources, func(source Source) bool { return source.Name() == r.PathValue("source") })
	if at < 0 {
		return accepted{}, evidence.Refuse("webhook_unknown", "no webhook has the name %.80q", r.PathValue("source"))
	}
	hook, ok := s.o.Sources[at].(*Webhook)
	if !ok {
		return accepted{}, evidence.Refuse("webhook_unknown", "the source %s takes no webhooks", s.o.Sources[at].Name())
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPayload))
	if err != nil {
		return accepted{}, evidence.Refuse("webhook_too_large", "the delivery is larger than %d bytes, or broke off", maxPayload)
	}
	e, err := hook.accept(r.Header, body, s.o.Now())
	if err != nil || e == nil {
		return accepted{Ignored: err == nil}, err
	}
	id, fresh, err := s.add(r.Context(), *e)
	return accepted{EventID: id, Duplicate: err == nil && !fresh}, err
}

func bytesOf(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

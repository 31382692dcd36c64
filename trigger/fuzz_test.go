package trigger_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/trigger"
)

// FuzzWebhook checks that a delivery without a valid signature is refused, and that kept events can be signed.
func FuzzWebhook(f *testing.F) {
	k := newKit(f, sourced(github(f), hooks(f, vectorSecret)))
	f.Add("github", "push", "id", "sha256=00", "", `{"action":"published"}`, true)
	f.Add("github", "release", "id", "", "", `{"action":"published"}`, true)
	f.Add("hooks", "", vectorID, vectorSignature, strconv.Itoa(vectorTime), vectorBody, false)
	f.Add("hooks", "", "id", "v1,a v1,b", strconv.FormatInt(start.Unix(), 10), `{"type":"x"}`, true)
	f.Fuzz(func(t *testing.T, source, event, id, signature, timestamp, body string, sign bool) {
		if source != "github" {
			source = "hooks"
		}
		d := delivery{source: source, body: body, header: http.Header{
			"X-Github-Event": {event}, "X-Github-Delivery": {id}, "X-Hub-Signature-256": {signature},
			"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature},
		}}
		if sign && source == "github" {
			d = fromGitHub(event, id, body)
		} else if sign {
			d.sign(vectorSecret, id, timestamp)
		}
		a := k.deliver(t, d)
		switch {
		case a.Status < 300 && !sign:
			t.Fatalf("a delivery that nobody signed was answered with %+v", a)
		case a.Status == http.StatusInternalServerError:
			t.Fatalf("answered with %+v", a)
		case a.EventID == "":
			return
		}
		e := k.event(t, a.EventID)
		if !json.Valid(e.Payload) || !evidence.IsHash(e.PayloadHash) || e.Verified() == nil && e.HumanInitiated {
			t.Fatalf("kept %+v", e)
		}
		if e.Verified() == nil && e.State == trigger.Received {
			must(k.Evidence(t.Context(), k.claim(t, e.ID), binding("create_post")))(t)
		}
	})
}

// FuzzServer checks that the internal API answers anything with an answer or a problem document, and never with
// evidence for an unknown event.
func FuzzServer(f *testing.F) {
	k := newKit(f)
	handler := trigger.NewServer(k.Service)
	paths := []string{"/v1/evidence", "/v1/events/claim", "/v1/events/release", "/v1/events/done", "/v1/events",
		"/v1/evidence/unsent"}
	f.Add(0, `{"eventId":"evt","binding":{"action":"a","contentHash":"`+evidence.HashBytes(nil)+
		`","nonce":"n","resource":"r","subject":"s"}}`)
	f.Add(1, `{"eventId":"evt","runtime":"r","waitMillis":0}`)
	f.Add(2, `{"eventId":"evt","runtime":"r"}`)
	f.Add(4, `{"kind":"unknown","method":"manual","source":"s","payload":{"a":[1,"\u2028"]}}`)
	f.Add(5, `{"eventId":"evt","runtime":"r","action":"a","bindingHash":"b"}`)
	f.Fuzz(func(t *testing.T, at int, body string) {
		path := paths[uint(at)%uint(len(paths))]
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond) // a claim may ask to wait
		defer cancel()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, path, strings.NewReader(body)))
		if !json.Valid(w.Body.Bytes()) || w.Code == http.StatusInternalServerError || w.Code == http.StatusOK &&
			path != "/v1/events" {
			t.Fatalf("POST %s was answered with %d %s", path, w.Code, w.Body)
		}
	})
}

// FuzzSchedule checks that accepted cron expressions come true, and always later.
func FuzzSchedule(f *testing.F) {
	for _, spec := range []string{"*/5 * * * *", "@every 1s", "@yearly", "0 0 29 2 *", "TZ=UTC * * * * *",
		"1-5/2,7 0 L * MON"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		s, err := trigger.NewSchedule("s", spec, nil)
		if err != nil {
			return
		}
		at := start
		for range 3 {
			next := trigger.Next(s, at)
			if next.IsZero() {
				return
			}
			if !next.After(at) {
				t.Fatalf("%q: after %s comes %s", spec, at, next)
			}
			at = next
		}
	})
}

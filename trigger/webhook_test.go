package trigger_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/trigger"
)

// TestGitHubExample is the example in GitHub's documentation. Its payload is not JSON, which shows only behind the
// signature.
func TestGitHubExample(t *testing.T) {
	k := newKit(t)
	const signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	d := fromGitHub("push", "d", "Hello, World!")
	if d.header.Get("X-Hub-Signature-256") != signature {
		t.Errorf("the test signs with %s", d.header.Get("X-Hub-Signature-256"))
	}
	d.header.Set("X-Hub-Signature-256", signature)
	if a := k.deliver(t, d); a.Code != "event_malformed" || a.Status != http.StatusBadRequest {
		t.Errorf("answered with %+v", a)
	}
	d.header.Set("X-Hub-Signature-256", strings.Replace(signature, "757", "758", 1))
	if a := k.deliver(t, d); a.Code != "webhook_signature" || a.Status != http.StatusUnauthorized {
		t.Errorf("altered, it was answered with %+v", a)
	}
}

func TestGitHub(t *testing.T) {
	k := newKit(t)
	for _, c := range []struct {
		name, event, body string
		kind, typ         string
		ignored           bool
	}{
		{name: "event and action", event: "release", body: `{"action":"published"}`, kind: evidence.TriggerSourceEvent,
			typ: "release.published"},
		{name: "event alone", event: "push", body: `{"ref":"main"}`, kind: evidence.TriggerSourceEvent, typ: "push"},
		{name: "event with any action", event: "push", body: `{"action":"other"}`, kind: evidence.TriggerSourceEvent,
			typ: "push.other"},
		{name: "human", event: "workflow_dispatch", body: `{"ref":"main","inputs":{}}`,
			kind: evidence.TriggerHumanRequest,
			typ:  "workflow_dispatch"},
		{name: "another action", event: "release", body: `{"action":"deleted"}`, ignored: true},
		{name: "an action in capitals", event: "release", body: `{"Action":"published"}`, ignored: true},
		{name: "an action that is no text", event: "release", body: `{"action":["published"]}`, ignored: true},
		{name: "another event", event: "star", body: `{"starred_at":null}`, ignored: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := k.deliver(t, fromGitHub(c.event, "delivery-of-"+strings.ReplaceAll(c.name, " ", "-"), c.body))
			if a.Status != http.StatusAccepted || a.Ignored != c.ignored || (a.EventID == "") != c.ignored ||
				a.Duplicate {
				t.Fatalf("answered with %+v", a)
			}
			if c.ignored {
				return
			}
			e := k.event(t, a.EventID)
			if e.Kind != c.kind || e.Type != c.typ || e.Method != evidence.MethodWebhookSignature ||
				e.HumanInitiated != (c.kind == evidence.TriggerHumanRequest) {
				t.Errorf("kept %+v", e)
			}
			if string(e.Payload) != c.body || e.PayloadHash != must(evidence.HashJSON([]byte(c.body)))(t) {
				t.Errorf("kept the payload %s with the hash %s", e.Payload, e.PayloadHash)
			}
		})
	}
}

func TestPayloadHash(t *testing.T) {
	k := newKit(t)
	for i, body := range []string{`{"a":1,"a":2}`, `{"id":123456789012345678901}`} {
		a := k.deliver(t, fromGitHub("push", fmt.Sprint("d", i), body))
		if e := k.event(t, a.EventID); e.PayloadHash != evidence.HashBytes([]byte(body)) {
			t.Errorf("the hash of %s is %s", body, e.PayloadHash)
		}
	}
}

func TestDeliveryRefused(t *testing.T) {
	const body, signature = `{"ref":"main"}`, "X-Hub-Signature-256"
	set := func(name, value string) func(*delivery) {
		return func(d *delivery) { d.header.Set(name, value) }
	}
	del := func(name string) func(*delivery) { return func(d *delivery) { d.header.Del(name) } }
	add := func(name, value string) func(*delivery) {
		return func(d *delivery) { d.header.Add(name, value) }
	}
	signed := func(edit func(s string) string) func(*delivery) {
		return func(d *delivery) { d.header.Set(signature, edit(d.header.Get(signature))) }
	}
	of := func(body string) func(*delivery) {
		return func(d *delivery) { *d = fromGitHub("push", "d", body) }
	}
	for _, c := range []struct {
		name, code string
		status     int
		change     func(d *delivery)
	}{
		{"unknown webhook", "not_found", 404, func(d *delivery) { d.source = "nobody" }},
		{"a source that is no webhook", "not_found", 404, func(d *delivery) { d.source = "hourly" }},
		{"no signature", "webhook_signature", 401, del(signature)},
		{"an empty signature", "event_malformed", 400, set(signature, "")},
		{"SHA-1", "webhook_signature", 401, func(d *delivery) {
			d.header.Set("X-Hub-Signature", "sha1=0000")
			d.header.Del(signature)
		}},
		{"two signatures", "event_malformed", 400, func(d *delivery) {
			d.header.Add(signature, d.header.Get(signature))
		}},
		{"another prefix", "webhook_signature", 401, signed(func(s string) string {
			return strings.Replace(s, "sha256", "sha512", 1)
		})},
		{"no prefix", "webhook_signature", 401, signed(func(s string) string {
			return strings.TrimPrefix(s, "sha256=")
		})},
		{"half a signature", "webhook_signature", 401, signed(func(s string) string { return s[:39] })},
		{"no hex", "webhook_signature", 401, set(signature, "sha256=zz")},
		{"a signature and more", "webhook_signature", 401, signed(func(s string) string { return s + "zz" })},
		{"another body", "webhook_signature", 401, func(d *delivery) { d.body = `{"ref":"main" }` }},
		{"an endless header", "event_malformed", 400, set(signature, strings.Repeat("a", 1<<16))},
		{"no delivery id", "event_malformed", 400, del("X-GitHub-Delivery")},
		{"two delivery ids", "event_malformed", 400, add("X-GitHub-Delivery", "other")},
		{"a delivery id with a space", "event_malformed", 400, set("X-GitHub-Delivery", "a b")},
		{"a long delivery id", "event_malformed", 400, set("X-GitHub-Delivery", strings.Repeat("a", 201))},
		{"a delivery id of bytes", "event_malformed", 400, set("X-GitHub-Delivery", "\xff")},
		{"an event name of bytes", "event_malformed", 400, set("X-GitHub-Event", "\xff")},
		{"no event name", "event_malformed", 400, del("X-GitHub-Event")},
		{"two event names", "event_malformed", 400, add("X-GitHub-Event", "push")},
		{"a form", "event_malformed", 400, of("payload=%7B%7D")},
		{"a list", "event_malformed", 400, of("[]")},
		{"null", "event_malformed", 400, of("null")},
		{"nothing", "event_malformed", 400, of("")},
		{"not UTF-8", "event_malformed", 400, of("{\"a\":\"\xff\"}")},
		{"too large", "content_too_large", 413, of(`{"a":"` + strings.Repeat("x", trigger.MaxPayload) + `"}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t,
				sourced(must(trigger.NewGitHub("github", []string{secret}, []string{"push", "\xff"}, nil))(t),
					schedule(t, "hourly", "@hourly")))
			d := fromGitHub("push", "d", body)
			c.change(&d)
			if a := k.deliver(t, d); a.Code != c.code || a.Status != c.status {
				t.Errorf("answered with %+v, want %d %s", a, c.status, c.code)
			}
			if events := must(k.List(t.Context(), 10))(t); len(events) != 0 {
				t.Errorf("kept %+v", events)
			}
			if a := k.deliver(t, fromGitHub("push", "d", body)); a.Status != http.StatusAccepted || a.EventID == "" {
				t.Errorf("the proper delivery was answered with %+v", a) // the refusal did not use its id up
			}
		})
	}
}

// TestDeliveryBounds delivers what is just within the bounds, and what breaks off.
func TestDeliveryBounds(t *testing.T) {
	sixteen := "whsec_" + base64.StdEncoding.EncodeToString([]byte("sixteen bytes..."))
	k := newKit(t, sourced(github(t), hooks(t, sixteen)))
	if a := k.deliver(t, fromGitHub("push", strings.Repeat("~", 200), `{}`)); a.Status != http.StatusAccepted {
		t.Errorf("a long id was answered with %+v", a)
	}
	for i, c := range []struct {
		typ, header int
		code        string
	}{{128, 2048, ""}, {129, 2048, "event_malformed"}, {128, 2049, "event_malformed"}} {
		d := delivery{source: "hooks", body: `{"type":"` + strings.Repeat("x", c.typ) + `"}`}
		d.sign(sixteen, fmt.Sprint(i), strconv.FormatInt(start.Unix(), 10))
		signature := d.header.Get("Webhook-Signature")
		d.header.Set("Webhook-Signature", signature+strings.Repeat(" ", c.header-len(signature)))
		if a := k.deliver(t, d); a.Code != c.code {
			t.Errorf("%+v was answered with %+v", c, a)
		}
	}
	d := fromGitHub("push", "two", `{"ref":"main"}`)
	d.header.Add("X-GitHub-Delivery", "other")
	if a := k.deliver(t, d); !strings.Contains(a.Detail, "X-GitHub-Delivery must occur exactly once") {
		t.Errorf("two ids were answered with %+v", a)
	}
	d = fromGitHub("push", "half", d.body)
	r := httptest.NewRequest(http.MethodPost, "/hooks/github",
		io.MultiReader(strings.NewReader(d.body), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header = d.header
	w := httptest.NewRecorder()
	k.Webhooks().ServeHTTP(w, r)
	wantCode(t, problem.Read(w.Result()), "event_malformed")
}

func TestEvidenceHash(t *testing.T) {
	k := newKit(t, sourced(github(t), hooks(t, vectorSecret)))
	k.clock.advance(time.Unix(vectorTime, 0).Sub(start))
	fromHub := fromGitHub("push", "once", `{"ref":"main"}`)
	severalSigned := standardVector()
	severalSigned.header.Set("Webhook-Signature", "v1,AAAA "+vectorSignature)
	reported := must(k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodManual, "cli", nil))(t)
	for id, verified := range map[string]map[string]string{
		k.deliver(t, fromHub).EventID: {
			"deliveryId": "once", "payload": evidence.HashBytes([]byte(fromHub.body)),
			"signature": fromHub.header.Get("X-Hub-Signature-256"), "timestamp": "",
		},
		k.deliver(t, severalSigned).EventID: {
			"deliveryId": vectorID, "payload": evidence.HashBytes([]byte(vectorBody)), "signature": vectorSignature,
			"timestamp": strconv.Itoa(vectorTime),
		},
		reported: {"reportId": k.event(t, reported).EvidenceID},
	} {
		k.wantEvidence(t, k.event(t, id), verified)
	}
}

func TestReplay(t *testing.T) {
	k := newKit(t)
	sent := fromGitHub("push", "once", `{"ref":"main"}`)
	first := k.deliver(t, sent)
	freshID := fromGitHub("push", "twice", sent.body) // the signature does not cover the id
	for range 2 {
		for _, d := range []delivery{sent, freshID} {
			if a := k.deliver(t, d); a != (answer{Status: http.StatusOK, EventID: first.EventID, Duplicate: true}) {
				t.Errorf("answered with %+v", a)
			}
		}
		k.restart(t)
	}
	// The id that came with an old body stays free: an attacker may have copied it.
	if a := k.deliver(t, fromGitHub("push", "twice", `{"ref":"next"}`)); a.Status != http.StatusAccepted {
		t.Errorf("answered with %+v", a)
	}
	if events := must(k.List(t.Context(), 10))(t); len(events) != 2 {
		t.Errorf("there are %d events", len(events))
	}
}

// TestReplayUnderAnotherName repeats ignored and human deliveries under the name of an event that starts a run, which
// is in an unsigned header.
func TestReplayUnderAnotherName(t *testing.T) {
	k := newKit(t)
	for _, duplicate := range []bool{false, true} {
		if a := k.deliver(t, fromGitHub("fork", "a", `{"forkee":1}`)); !a.Ignored || a.Duplicate != duplicate {
			t.Fatalf("answered with %+v", a)
		}
	}
	asked := k.deliver(t, fromGitHub("workflow_dispatch", "b", `{"inputs":1}`))
	k.restart(t)
	if a := k.deliver(t, fromGitHub("push", "c", `{"forkee":1}`)); a !=
		(answer{Status: http.StatusOK, Duplicate: true, Ignored: true}) {
		t.Errorf("answered with %+v", a)
	}
	if a := k.deliver(t, fromGitHub("push", "d", `{"inputs":1}`)); a.EventID != asked.EventID || !a.Duplicate {
		t.Errorf("answered with %+v", a)
	}
}

func TestDeliveryRace(t *testing.T) {
	k := newKit(t)
	var group sync.WaitGroup
	answers := make(chan answer, 32)
	for i := range 32 {
		group.Go(func() { answers <- k.deliver(t, fromGitHub("push", fmt.Sprint("d", i%2), `{}`)) })
	}
	group.Wait()
	close(answers)
	fresh, ids := 0, map[string]bool{}
	for a := range answers {
		ids[a.EventID] = true
		if !a.Duplicate {
			fresh++
		}
	}
	if fresh != 1 || len(ids) != 1 {
		t.Errorf("%d deliveries were new, and there are %d events", fresh, len(ids))
	}
}

// The test vector of the Standard Webhooks specification.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime      = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

func standardVector() delivery {
	return delivery{source: "hooks", body: vectorBody, header: http.Header{
		"Webhook-Id": {vectorID}, "Webhook-Timestamp": {strconv.Itoa(vectorTime)},
		"Webhook-Signature": {vectorSignature},
	}}
}

func newStandardKit(t testing.TB, secrets ...string) *kit {
	t.Helper()
	k := newKit(t, sourced(hooks(t, secrets...)))
	k.clock.advance(time.Unix(vectorTime, 0).Sub(start))
	return k
}

func TestStandardWebhooks(t *testing.T) {
	otherMAC := base64.StdEncoding.EncodeToString(make([]byte, 32))
	set := func(name, value string) func(*kit, *delivery) {
		return func(_ *kit, d *delivery) { d.header.Set("Webhook-"+name, value) }
	}
	del := func(name string) func(*kit, *delivery) {
		return func(_ *kit, d *delivery) { d.header.Del("Webhook-" + name) }
	}
	at := func(off time.Duration) func(*kit, *delivery) {
		return func(k *kit, _ *delivery) { k.clock.advance(off) }
	}
	signed := func(body, timestamp string) func(*kit, *delivery) {
		return func(_ *kit, d *delivery) {
			d.body = body
			d.sign(vectorSecret, "id", timestamp)
		}
	}
	for _, c := range []struct {
		name, code string
		status     int
		change     func(k *kit, d *delivery)
	}{
		{"the vector", "", 202, func(*kit, *delivery) {}},
		{"several signatures", "", 202, set("Signature", "v1a,abc v1,"+otherMAC+" v1,not*base64 "+vectorSignature)},
		{"at the edge, early", "", 202, at(-5 * time.Minute)},
		{"at the edge, late", "", 202, at(5 * time.Minute)},
		{"too early", "webhook_signature", 401, at(-5*time.Minute - time.Second)},
		{"too late", "webhook_signature", 401, at(5*time.Minute + time.Second)},
		{"another time", "webhook_signature", 401, set("Timestamp", strconv.Itoa(vectorTime+1))},
		{"another id", "webhook_signature", 401, set("Id", "msg_other")},
		{"another body", "webhook_signature", 401, func(_ *kit, d *delivery) { d.body = `{"test": 2432232315}` }},
		{"another signature", "webhook_signature", 401, set("Signature", "v1,"+otherMAC)},
		{"no version", "webhook_signature", 401, set("Signature", strings.TrimPrefix(vectorSignature, "v1,"))},
		{"another version", "webhook_signature", 401,
			set("Signature", strings.Replace(vectorSignature, "v1", "v2", 1))},
		{"no signature", "webhook_signature", 401, del("Signature")},
		{"two signature headers", "event_malformed", 400, func(_ *kit, d *delivery) {
			d.header.Add("Webhook-Signature", vectorSignature)
		}},
		{"no timestamp", "event_malformed", 400, del("Timestamp")},
		{"no id", "event_malformed", 400, del("Id")},
		{"signed, but no time", "event_malformed", 400, signed(vectorBody, "soon")},
		{"signed, but an absurd time", "webhook_signature", 401, signed(vectorBody, "-9223372036854775808")},
		{"signed, but no object", "event_malformed", 400, signed(`7`, strconv.Itoa(vectorTime))},
		{"a type without end", "event_malformed", 400, signed(`{"type":"`+strings.Repeat("x", 4096)+`"}`,
			strconv.Itoa(vectorTime))},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newStandardKit(t, vectorSecret)
			d := standardVector()
			c.change(k, &d)
			if a := k.deliver(t, d); a.Status != c.status || a.Code != c.code || (a.EventID == "") != (c.code != "") {
				t.Errorf("answered with %+v, want %d %s", a, c.status, c.code)
			}
		})
	}
}

func (d *delivery) sign(secret, id, timestamp string) {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	mac := sha256MAC(string(key), id+"."+timestamp+"."+d.body)
	d.header = http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(mac)}}
}

// TestStandardWebhooksRetry repeats a message with a new time and signature, as the specification says.
func TestStandardWebhooksRetry(t *testing.T) {
	k := newStandardKit(t, vectorSecret)
	first := k.deliver(t, standardVector())
	k.restart(t)
	k.clock.advance(time.Minute)
	again := delivery{source: "hooks", body: vectorBody}
	again.sign(vectorSecret, vectorID, strconv.Itoa(vectorTime+60))
	if a := k.deliver(t, again); a != (answer{Status: http.StatusOK, EventID: first.EventID, Duplicate: true}) {
		t.Errorf("answered with %+v", a)
	}
	// The id is signed here: an equal body is another event.
	again.sign(vectorSecret, "msg_next", strconv.Itoa(vectorTime+60))
	if a := k.deliver(t, again); a.Status != http.StatusAccepted || a.EventID == first.EventID {
		t.Errorf("answered with %+v", a)
	}
}

func TestRotation(t *testing.T) {
	next := "whsec_" + base64.StdEncoding.EncodeToString([]byte("the next secret, 24 bytes"))
	k := newStandardKit(t, next, vectorSecret)
	if a := k.deliver(t, standardVector()); a.Status != http.StatusAccepted {
		t.Errorf("the old secret: %+v", a)
	}
	d := delivery{source: "hooks", body: `{}`}
	d.sign(next, "id", strconv.Itoa(vectorTime))
	if a := k.deliver(t, d); a.Status != http.StatusAccepted {
		t.Errorf("the new secret: %+v", a)
	}
}

func TestEngine(t *testing.T) {
	k := newKit(t, sourced(must(trigger.NewEngine("hooks", []string{vectorSecret}))(t)))
	d := delivery{source: "hooks", body: `{"type":"rebalance.due","data":{"decision":"act"}}`}
	d.sign(vectorSecret, "decision-1", strconv.FormatInt(start.Unix(), 10))
	id := k.claim(t, k.deliver(t, d).EventID)
	got := k.pay(t, id, "create_post")
	c := must(evidence.Open(k.verifier, evidence.TriggerOriginProofKind(), got.OriginProof,
		expect("source-verifier", "trigger-mediator", "origin-proof-key")))(t).Claims()
	if c.Kind != evidence.TriggerAutonomousPolicy || c.VerificationMethod != evidence.MethodPolicyEngineDecision ||
		c.EvidenceID != "decision-1" {
		t.Errorf("the origin proof says %+v", c)
	}
}

func TestWebhookNotMade(t *testing.T) {
	events := []string{"push"}
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("fifteen bytes.."))
	for name, err := range map[string]error{
		"no secret":               second(trigger.NewGitHub("n", nil, events, nil)),
		"an empty secret":         second(trigger.NewGitHub("n", []string{""}, events, nil)),
		"one empty secret of two": second(trigger.NewGitHub("n", []string{secret, ""}, events, nil)),
		"a short secret":          second(trigger.NewGitHub("n", []string{"fifteen bytes.."}, events, nil)),
		"no events":               second(trigger.NewGitHub("n", []string{secret}, nil, []string{"push"})),
		"events of both kinds": second(
			trigger.NewGitHub("n", []string{secret}, []string{"push", "release"}, []string{"release"})),
		"standard, none":          second(trigger.NewStandard("n", nil)),
		"standard, only a prefix": second(trigger.NewStandard("n", []string{"whsec_"})),
		"standard, short":         second(trigger.NewStandard("n", []string{short})),
		"standard, no base64":     second(trigger.NewStandard("n", []string{"whsec_not*base64*not*base64*not*base64"})),
		"standard, half base64":   second(trigger.NewStandard("n", []string{vectorSecret + "*"})),
		"engine, none":            second(trigger.NewEngine("n", nil)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "fifteen") || strings.Contains(err.Error(), "not*base64") {
			t.Errorf("%s: the error shows the secret: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestLogShowsNoPayload(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	k := newKit(t, func(o *trigger.Options) { o.Log = zap.New(core) })
	d := fromGitHub("push", "d", `{"secret":"payload"}`)
	k.claim(t, k.deliver(t, d).EventID)
	d.header.Set("X-Hub-Signature-256", "sha256=00")
	k.deliver(t, d)
	if logs.Len() < 3 {
		t.Errorf("only %d lines", logs.Len())
	}
	for _, line := range logs.All() {
		if s := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(s, "payload") ||
			strings.Contains(s, "sha256") {
			t.Errorf("the log says %s", s)
		}
	}
}

package trigger_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/trigger"
)

// TestEvidence opens both artifacts like a verifier.
func TestEvidence(t *testing.T) {
	k := newKit(t)
	id := k.claimed(t)
	event := k.event(t, id)
	b := binding("create_post")
	got := must(k.Evidence(t.Context(), id, b))(t)

	proof := must(
		evidence.Open(k.verifier, evidence.TriggerOriginProofKind(), got.OriginProof,
			expect("source-verifier", "trigger-mediator", "origin-proof-key")))(t).Claims()
	want := evidence.TriggerOriginProof{
		Registered: proof.Registered, BindingHash: b.Hash(), EventID: id, EvidenceHash: event.EvidenceHash,
		EvidenceID: event.EvidenceID,
		Kind:       evidence.TriggerSourceEvent, PayloadHash: event.PayloadHash, Source: "github",
		VerificationMethod: evidence.MethodWebhookSignature,
	}
	if proof != want {
		t.Errorf("origin proof:\n%+v, want\n%+v", proof, want)
	}
	receipt := must(
		evidence.Open(k.verifier, evidence.TriggerReceiptKind(), got.TriggerReceipt,
			expect("trigger-mediator", "runtime", "trigger-receipt-key")))(t).Claims()
	if want := (evidence.TriggerReceipt{
		Registered: receipt.Registered, BindingHash: b.Hash(), EventID: id, Kind: evidence.TriggerSourceEvent,
		OriginProofHash: evidence.HashToken(got.OriginProof), PayloadHash: event.PayloadHash, Source: "github",
	}); receipt != want {
		t.Errorf("receipt:\n%+v, want\n%+v", receipt, want)
	}
	if h := must(evidence.HashJSON(event.Payload))(t); h != event.PayloadHash {
		t.Errorf("the payload has the hash %s, the artifacts say %s", h, event.PayloadHash)
	}
}

func TestVerified(t *testing.T) {
	for _, c := range []struct {
		event trigger.Event
		code  string
	}{
		{trigger.Event{Kind: evidence.TriggerSourceEvent, Method: evidence.MethodWebhookSignature}, ""},
		{trigger.Event{Kind: evidence.TriggerSourceEvent, Method: evidence.MethodQueueClaim}, ""},
		{trigger.Event{Kind: evidence.TriggerScheduled, Method: evidence.MethodSchedulerLock}, ""},
		{trigger.Event{Kind: evidence.TriggerAutonomousPolicy, Method: evidence.MethodPolicyEngineDecision}, ""},
		{trigger.Event{}, "trigger_unverified"},
		{trigger.Event{Kind: evidence.TriggerScheduled, Method: evidence.MethodWebhookSignature}, "trigger_unverified"},
		{trigger.Event{Kind: evidence.TriggerSourceEvent, Method: evidence.MethodManual}, "trigger_unverified"},
		{trigger.Event{Kind: evidence.TriggerHumanRequest, Method: evidence.MethodWebhookSignature}, "human_involved"},
		{trigger.Event{Kind: evidence.TriggerSourceEvent, Method: evidence.MethodWebhookSignature,
			HumanInitiated: true}, "human_involved"},
	} {
		if err := c.event.Verified(); c.code != "" {
			wantCode(t, err, c.code)
		} else if err != nil {
			t.Errorf("%+v: %v", c.event, err)
		}
	}
}

func TestEvidenceRefused(t *testing.T) {
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		name, code string
		event      func(t *testing.T, k *kit) string
		binding    func(*evidence.Binding)
	}{
		{name: "unknown event", code: "not_found", event: func(*testing.T, *kit) string { return "evt_none" }},
		{name: "unclaimed", code: "event_closed", event: func(t *testing.T, k *kit) string { return k.release(t) }},
		{name: "human", code: "human_involved", event: func(t *testing.T, k *kit) string {
			return k.deliver(t, fromGitHub("workflow_dispatch", "d", `{}`)).EventID
		}},
		{name: "reported by an operator", code: "human_involved", event: func(t *testing.T, k *kit) string {
			return must(k.Report(t.Context(), evidence.TriggerHumanRequest, evidence.MethodManual, "cli", nil))(t)
		}},
		{name: "reported by the agent", code: "trigger_unverified", event: func(t *testing.T, k *kit) string {
			return must(k.Report(t.Context(), evidence.TriggerUnknown, evidence.MethodSelfReported, "agent",
				[]byte("text")))(t)
		}},
		{name: "too old", code: "event_closed", event: func(t *testing.T, k *kit) string {
			id := k.claimed(t)
			k.clock.advance(trigger.DefaultMaxAge)
			return id
		}},
		{name: "too old, after a restart", code: "event_closed", event: func(t *testing.T, k *kit) string {
			id := k.claimed(t)
			k.clock.advance(trigger.DefaultMaxAge)
			k.restart(t)
			return id
		}},
		{name: "done", code: "event_closed", event: func(t *testing.T, k *kit) string {
			id := k.claimed(t)
			must(k.Done(t.Context(), id, runtime))(t)
			return id
		}},
		{name: "given back", code: "event_closed", event: func(t *testing.T, k *kit) string {
			id := k.claimed(t)
			must(k.Release(t.Context(), id, runtime))(t)
			return id
		}},
		{name: "no nonce", code: "artifact_malformed", binding: func(b *evidence.Binding) { b.Nonce = "" }},
		{name: "no action", code: "artifact_malformed", binding: func(b *evidence.Binding) { b.Action = "" }},
		{name: "action too long", code: "artifact_malformed", binding: func(b *evidence.Binding) { b.Action = long }},
		{name: "content hash in capitals", code: "artifact_malformed", binding: func(b *evidence.Binding) {
			b.ContentHash = strings.ToUpper(b.ContentHash)
		}},
		{name: "no canonical form", code: "artifact_malformed",
			binding: func(b *evidence.Binding) { b.Subject = "a\xffb" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t)
			b := binding("create_post")
			if c.event == nil {
				c.event = func(t *testing.T, k *kit) string { return k.claimed(t) }
				c.binding(&b)
			}
			id := c.event(t, k)
			got, err := k.Evidence(t.Context(), id, b)
			wantCode(t, err, c.code)
			if got != (trigger.Evidence{}) {
				t.Error("there is evidence in spite of the refusal")
			}
			k.pay(t, k.claimed(t), "create_post") // the guard is not simply shut
		})
	}
}

func TestBudgetRace(t *testing.T) {
	k := newKit(t)
	id := k.claimed(t)
	var paid [2]atomic.Int32
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			_, err := k.Evidence(context.Background(), id, binding(fmt.Sprint("action-", i%2)))
			if err == nil {
				paid[i%2].Add(1)
			} else if code := problem.DetailsOf(err).Code; code != "event_closed" {
				t.Errorf("refused with %s: %v", code, err)
			}
		})
	}
	group.Wait()
	if paid[0].Load() != 1 || paid[1].Load() != 1 {
		t.Errorf("%d and %d posts were paid for, want one each", paid[0].Load(), paid[1].Load())
	}
}

func TestBudget(t *testing.T) {
	k := newKit(t, func(o *trigger.Options) { o.Budget = 2 })
	id, b := k.claimed(t), binding("create_post")
	must(k.Evidence(t.Context(), id, b))(t)
	_, err := k.Evidence(t.Context(), id, b)
	wantCode(t, err, "event_closed") // the same post, though the budget is not spent
	k.restart(t)
	wantCode(t, second(k.Evidence(t.Context(), id, b)), "event_closed")
	k.pay(t, id, "create_post")
	wantCode(t, k.ask(t, id), "event_closed")
	k.pay(t, id, "delete_post")
}

// TestUnsignedCostsNothing checks that an event gets its payment back if signing fails.
func TestUnsignedCostsNothing(t *testing.T) {
	k := newKit(t, func(o *trigger.Options) { o.Budget = 2 })
	id := k.claimed(t)
	k.pay(t, id, "create_post")
	origin, receipt := k.options.Origin, k.options.Receipt
	for name, broken := range map[string]func(){
		"the proof": func() {
			k.options.Origin = issuer(t, evidence.TriggerOriginProofKind(), brokenKey{}, "source-verifier",
				"trigger-mediator", k.clock.now)
		},
		"the receipt": func() {
			k.options.Receipt = issuer(t, evidence.TriggerReceiptKind(), brokenKey{}, "trigger-mediator", "runtime",
				k.clock.now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			broken()
			k.restart(t)
			for range 3 {
				wantCode(t, k.ask(t, id), "custody_unavailable")
			}
			k.options.Origin, k.options.Receipt = origin, receipt
		})
	}
	k.restart(t)
	k.pay(t, id, "create_post")
	wantCode(t, k.ask(t, id), "event_closed")
}

func TestNewRefused(t *testing.T) {
	k := newKit(t)
	lacks, limit, named := "lacks one of its signers, its clock or its log", "a limit is negative",
		"needs a name of its own"
	for name, c := range map[string]struct {
		says   string
		change func(*trigger.Options)
	}{
		"no origin signer":    {lacks, func(o *trigger.Options) { o.Origin = nil }},
		"no receipt signer":   {lacks, func(o *trigger.Options) { o.Receipt = nil }},
		"no clock":            {lacks, func(o *trigger.Options) { o.Now = nil }},
		"no log":              {lacks, func(o *trigger.Options) { o.Log = nil }},
		"negative age":        {limit, func(o *trigger.Options) { o.MaxAge = -time.Second }},
		"negative budget":     {limit, func(o *trigger.Options) { o.Budget = -1 }},
		"negative time":       {limit, func(o *trigger.Options) { o.Retention = -time.Second }},
		"two of one name":     {named, sourced(github(t), github(t))},
		"a name with a space": {named, sourced(schedule(t, "a b", "@hourly"))},
		"no name":             {named, sourced(schedule(t, "", "@hourly"))},
		"open already":        {"open", func(o *trigger.Options) { o.Path = k.options.Path }},
		"without a table": {"no such table: spent", func(o *trigger.Options) {
			old := newKit(t)
			old.sql(t, "DROP TABLE spent")
			old.Close()
			o.Path = old.options.Path
		}},
		"": {"", func(*trigger.Options) {}},
	} {
		t.Run(name, func(t *testing.T) {
			o := k.options
			o.Path = filepath.Join(t.TempDir(), "events.db")
			c.change(&o)
			s, err := trigger.New(t.Context(), o)
			if err == nil {
				s.Close()
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestEvidenceInTime checks that a read that takes too long is unavailable, not an internal error.
func TestEvidenceInTime(t *testing.T) {
	k := newKit(t)
	id := k.claimed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, ask := range map[string]func() error{
		"evidence": func() error { _, err := k.Evidence(ctx, id, binding("create_post")); return err },
		"an event": func() error { _, err := k.Get(ctx, id); return err },
		"a list":   func() error { _, err := k.List(ctx, 10); return err },
	} {
		if code := problem.DetailsOf(ask()).Code; code != "ledger_unavailable" {
			t.Errorf("%s: got %s", what, code)
		}
	}
}

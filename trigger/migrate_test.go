package trigger_test

import (
	"database/sql"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/trigger"
)

// TestMigration opens a file that the first schema was used for: what was seen, claimed and spent still is.
func TestMigration(t *testing.T) {
	k := newKit(t)
	k.Close()
	k.options.Path += ".old"
	db := must(ledger.OpenDB(t.Context(), k.options.Path, trigger.Migrations[:1]))(t)
	for id, kind := range map[string]string{
		"evt_claimed": evidence.TriggerSourceEvent, "evt_waiting": evidence.TriggerSourceEvent, "evt_human": evidence.TriggerHumanRequest,
		"evt_claimed_unverified": evidence.TriggerScheduled, // no webhook is a schedule: what a later version takes for no reason, an older one may have
	} {
		e := trigger.Event{
			ID: id, Kind: kind, Source: "github", Method: evidence.MethodWebhookSignature, EvidenceID: "delivery-of-" + id, EvidenceHash: evidence.HashBytes(nil),
			PayloadHash: evidence.HashBytes([]byte(id)), Payload: json.RawMessage(`{"a":"b"}`), ReceivedAt: start, ExpiresAt: start.Add(time.Minute), State: trigger.Received,
		}
		if strings.HasPrefix(id, "evt_claimed") {
			e.State, e.ClaimedBy = trigger.Claimed, runtime
		}
		raw := string(must(json.Marshal(e))(t))
		if err := db.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.Exec(`INSERT INTO events (id, source, evidence, state, expires, event) VALUES (?, ?, ?, ?, ?, ?)`, e.ID, e.Source, e.EvidenceID, e.State, e.ExpiresAt.UnixMilli(), raw)
			if err == nil && id == "evt_claimed" {
				_, err = tx.Exec(`INSERT INTO spent VALUES (?, 'create_post', 1)`, e.ID)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	k.open(t)
	if e := must(k.Get(t.Context(), "evt_claimed"))(t); e.State != trigger.Claimed || e.ClaimedBy != runtime || string(e.Payload) != `{"a":"b"}` {
		t.Errorf("the claimed event is %+v", e)
	}
	_, err := k.Evidence(t.Context(), "evt_claimed", binding("create_post"))
	wantCode(t, err, "event_budget_spent")
	must(k.Evidence(t.Context(), "evt_claimed", binding("other")))(t)
	_, err = k.Evidence(t.Context(), "evt_claimed_unverified", binding("create_post"))
	wantCode(t, err, "trigger_unverified")
	if a := k.deliver(t, fromGitHub("push", "delivery-of-evt_waiting", `{}`)); a.EventID != "evt_waiting" || !a.Duplicate {
		t.Errorf("the delivery was answered with %+v", a)
	}
	if e := must(k.Claim(t.Context(), trigger.Claim{Runtime: runtime}))(t); e.ID != "evt_waiting" {
		t.Errorf("claimed %+v", e)
	}
	_, err = k.Claim(t.Context(), trigger.Claim{EventID: "evt_human", Runtime: runtime})
	wantCode(t, err, "trigger_human")
}

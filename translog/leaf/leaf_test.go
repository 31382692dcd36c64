package leaf_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/translog/leaf"
)

var now = time.UnixMilli(1764378000123)

func record() ledger.Record {
	return ledger.Record{ID: "post_1", Flow: "post", State: ledger.StateForwarding, Session: "ses_1",
		Host:    "api.example:443",
		Started: now, Artifacts: []ledger.Artifact{{Name: "grant", Token: "a.b.c"},
			{Name: "requestProof", Token: "d.e.f"}}}
}

func TestRecord(t *testing.T) {
	r := record()
	intent, err := leaf.OfIntent(r, now)
	check.Must(t, err, intent.CheckRecord(r))
	ended := r
	ended.State, ended.Status, ended.Code, ended.Finished, ended.Artifacts = ledger.StateForwarded, 201, "", now, nil
	text, err := json.Marshal(ended)
	check.Must(t, err)
	outcome, err := leaf.OfOutcome(ended, string(text), now)
	check.Must(t, err)
	ended.Artifacts = r.Artifacts
	check.Must(t, intent.CheckRecord(ended), outcome.CheckRecord(ended))
	if intent.Entry.Of != outcome.Entry.Of {
		t.Error("an outcome is not seen to be of its intent")
	}
	for name, change := range map[string]func(r *ledger.Record){
		"host": func(r *ledger.Record) { r.Host = "other.example:443" },
		"time": func(r *ledger.Record) { r.Started = r.Started.Add(-time.Hour) },
		"token": func(r *ledger.Record) {
			r.Artifacts = []ledger.Artifact{r.Artifacts[0], {Name: "requestProof", Token: "x"}}
		},
	} {
		changed := ended
		change(&changed)
		t.Run(name, func(t *testing.T) { check.WantCode(t, intent.CheckRecord(changed), "record_mismatch") })
	}
	ended.Status = 500
	check.WantCode(t, outcome.CheckRecord(ended), "record_mismatch")
	check.Must(t, intent.CheckRecord(ended))
}

// TestGolden opens one entry of each kind. The file serves other verifiers, too.
func TestGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/openings.jsonl")
	check.Must(t, err)
	lines := bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n"))
	if len(lines) != len(leaf.Kinds) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		o, err := leaf.Open(line)
		check.Must(t, err)
		if o.Entry.Kind != leaf.Kinds[i] || !bytes.Equal(o.Encode(), line) {
			t.Errorf("%s is encoded as\n%s", line, o.Encode())
		}
		if e, err := leaf.Parse(o.Entry.Encode()); err != nil || e != o.Entry {
			t.Errorf("got %+v, %v", e, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	o := leaf.New(leaf.Intent, now, leaf.Document{Post: "post_1"})
	text := string(o.Encode())
	for name, tt := range map[string]struct{ old, new, code string }{
		"another document":   {`"post_1"`, `"post_2"`, "record_mismatch"},
		"another salt":       {o.Salt, strings.Repeat("0", 64), "record_mismatch"},
		"a short salt":       {o.Salt, "00", "evidence_malformed"},
		"capitals":           {o.Salt, strings.ToUpper(o.Salt), "evidence_malformed"},
		"another commitment": {o.Entry.Commitment, strings.Repeat("a", 64), "record_mismatch"},
		"of another post":    {o.Entry.Of, strings.Repeat("b", 64), "record_mismatch"},
		"of nothing":         {`,"of":"` + o.Entry.Of + `"`, "", "evidence_malformed"},
		"an unknown kind":    {`"intent"`, `"other"`, "evidence_malformed"},
		"another order":      {`{"document":`, `{ "document":`, "evidence_malformed"},
		"a time of its own":  {`"time":1`, `"time":-1`, "evidence_malformed"},
		"a time too late":    {`"time":1`, `"time":1000`, "evidence_malformed"},
		"too much":           {`"post_1"`, `"` + strings.Repeat("p", leaf.MaxOpening) + `"`, "evidence_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := leaf.Open([]byte(strings.Replace(text, tt.old, tt.new, 1)))
			check.WantCode(t, err, tt.code)
		})
	}
}

func FuzzOpen(f *testing.F) {
	raw, err := os.ReadFile("testdata/openings.jsonl")
	check.Must(f, err)
	for line := range bytes.SplitSeq(raw, []byte("\n")) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if o, err := leaf.Open(raw); err == nil && !bytes.Equal(o.Encode(), raw) {
			t.Errorf("%q is encoded as %q", raw, o.Encode())
		}
		if e, err := leaf.Parse(raw); err == nil && !bytes.Equal(e.Encode(), raw) {
			t.Errorf("%q is encoded as %q", raw, e.Encode())
		}
		o := leaf.New(leaf.Outcome, now, leaf.Document{Post: string(raw), Code: string(raw), Status: len(raw)})
		again, err := strictjson.Canonical(o.Encode())
		if err != nil || !bytes.Equal(again, o.Encode()) {
			t.Errorf("%q is not canonical: %v", o.Encode(), err)
		}
	})
}

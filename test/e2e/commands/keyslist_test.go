package commands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

func listed(t *testing.T, e kit.Ended) (lines []string) {
	t.Helper()
	for _, v := range versionsIn[keyring.Version](t, e) {
		line := v.KeyID + " " + v.State
		if v.Signs != nil {
			line += map[bool]string{true: " signs", false: " waits"}[*v.Signs]
		}
		if v.Created != nil && time.Since(*v.Created) < time.Hour {
			line += " created"
		}
		if v.Until != nil {
			line += " until"
		}
		if v.Process != "" {
			line += " at " + filepath.Base(v.Process)
		}
		lines = append(lines, line)
	}
	return lines
}

func listKeys(t *testing.T, args ...string) kit.Ended {
	t.Helper()
	return kit.Mediator(t, append([]string{"keys", "list", "--json"}, args...)...)
}

func versionsIn[V any](t *testing.T, e kit.Ended) (versions []V) {
	t.Helper()
	check.Must(t, json.Unmarshal([]byte(e.Out), &versions))
	return versions
}

func TestKeysList(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	key := kit.MemoryKey(t, "grant-key")
	grant := kit.Rotating(key)
	at := kit.Publish(t, "control", kit.Role(evidence.PurposeActionGrant, "authz", grant))
	books := []string{"--bundle", d.Bundle, "--registry", d.At("registry.jwk")}
	wants := func(args []string, want ...string) {
		t.Helper()
		check.WantEqual(t, listed(t, listKeys(t, args...).Done()), want)
	}
	certify := func(at string) {
		t.Helper()
		d.Must(t, "certify", "--from", at)
		grant.Follow(d.Certified(t))
	}
	here := []string{"--from", at}
	known := func(from string) []string { return append([]string{"--from", from}, books...) }
	wants(here, "grant-key:v1  waits created at control")
	certify(at)
	check.Must(t, key.Rotate())
	wants(here, "grant-key:v1  signs created at control", "grant-key:v2  waits created at control")
	wants(known(at), "grant-key:v1 certified signs created until at control",
		"grant-key:v2 not certified waits created at control")
	carried := kit.PublishedBy(t, at)
	certify(at)
	wants(known(at), "grant-key:v1 certified waits created until at control",
		"grant-key:v2 certified signs created until at control")

	// A file may be old, so it does not say which version signs.
	wants([]string{"--from", carried}, "grant-key:v1  created at published.json",
		"grant-key:v2  created at published.json")

	// Another key of the same name is not certified.
	other := kit.Publish(t, "other", kit.Grant(kit.MemoryKey(t, "grant-key")))
	wants(known(other), "grant-key:v1 not certified waits created at other",
		"grant-key:v2 certified until")

	// One version is retired and unknown to any process; then another one is revoked.
	carried = withoutFirst(t, carried)
	certify(carried)
	wants(known(carried), "grant-key:v1 retired until",
		"grant-key:v2 certified created until at published.json")
	d.Must(t, "revoke", "--key", "grant-key:v2", "--reason", "a drill")
	wants(known(carried), "grant-key:v1 retired until",
		"grant-key:v2 revoked created until at published.json")
	revoked := func() *keyring.Revoked {
		t.Helper()
		versions := versionsIn[keyring.Version](t, listKeys(t, known(carried)...))
		if versions[0].Revocation != nil || versions[1].Revocation == nil {
			t.Fatalf("got %+v", versions)
		}
		return versions[1].Revocation
	}
	first := revoked()
	if first.Reason != "a drill" || first.At == nil || time.Since(*first.At) > time.Hour {
		t.Errorf("%+v", first)
	}
	// A later certification signs the list again, and the revocation keeps its time.
	certify(carried)
	if again := revoked(); again.Reason != first.Reason || again.At == nil || !again.At.Equal(*first.At) {
		t.Errorf("%+v, and then %+v", first, again)
	}

	// A process that does not answer hides no other.
	e := listKeys(t, "--from", "unix:"+d.At("absent"), "--from", carried).Refused("absent cannot be read: no answer")
	if got := listed(t, e); len(got) != 1 {
		t.Errorf("%q", got)
	}
	// A bundle counts only with the key of its registry.
	e = listKeys(t, "--from", at, "--bundle", d.Bundle, "--registry", kit.NewTeam(t).At("registry.jwk"))
	if e.Refused("(signature_invalid)"); e.Out != "" {
		t.Errorf("printed %s", e.Out)
	}
	listKeys(t, "--from", at, "--bundle", d.Bundle).Misused()
	kit.Mediator(t, "keys", "list", "--from", at).Done("SIGNS NOW", "grant-key:v1  action_grant  -")
}

// The record tells for which posts each version signed first and last, and for how many.
func TestKeysListUse(t *testing.T) {
	t.Parallel()
	from := recordsFrom.AddDate(100, 0, 0) // after the keys were made
	l, err := sqlite.Open(t.Context(), t.TempDir()+"/ledger.db", sqlite.Options{Now: func() time.Time {
		return from
	}})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	token := func(kid string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"kid":"`+kid+`"}`)) + ".e30.AA"
	}
	for i := range 3 {
		check.Must(t, l.Add(t.Context(), ledger.Record{ID: fmt.Sprint("post_", i), Flow: "post",
			State: ledger.StateForwarded, Started: from.Add(time.Duration(i) * time.Minute),
			Artifacts: []ledger.Artifact{{Name: "grant", Token: token("grant-key:v1")}}}))
	}
	key := kit.MemoryKey(t, "grant-key")
	check.Must(t, key.Rotate())
	at := kit.Publish(t, "control", kit.Grant(key),
		kit.Role(evidence.PurposeInteraction, "observer", kit.Rotating(kit.MemoryKey(t, "receipt-key"))))
	record := serveRecords(t, l)
	type version struct {
		KeyID string           `json:"keyId"`
		Use   *json.RawMessage `json:"use"`
	}
	list := func(records ...string) kit.Ended {
		args := []string{"--from", at}
		for _, r := range records {
			args = append(args, "--record", r)
		}
		return listKeys(t, args...)
	}
	uses := func(e kit.Ended) (uses []string) {
		t.Helper()
		for _, v := range versionsIn[version](t, e) {
			use := "unknown"
			if v.Use != nil {
				var compact bytes.Buffer
				check.Must(t, json.Compact(&compact, *v.Use))
				use = compact.String()
			}
			uses = append(uses, v.KeyID+" "+use)
		}
		return uses
	}
	want := []string{`grant-key:v1 {"first":"2126-03-01T00:00:00Z","last":"2126-03-01T00:02:00Z","posts":3}`,
		`grant-key:v2 {"posts":0}`, `receipt-key:v1 unknown`}
	check.WantEqual(t, uses(list(record).Done()), want)
	if got := uses(list(record, record).Done()); !strings.HasSuffix(got[0], `"posts":6}`) {
		t.Errorf("two records: %q", got)
	}
	unknown := []string{"grant-key:v1 unknown", "grant-key:v2 unknown", "receipt-key:v1 unknown"}
	check.WantEqual(t, uses(list().Done()), unknown)
	away := list(record, "unix:/nowhere").Refused("the record at unix:/nowhere cannot be read")
	check.WantEqual(t, uses(away), unknown)
	kit.Mediator(t, "keys", "list", "--from", at, "--record", record).Done("2126-03-01T00:02:00Z  3 ")
}

// Signatures by an earlier key of the same name do not count for this one.
func TestKeysListUseOfAnEarlierKey(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	for minutes, known := range map[int]bool{0: true, -5: false} {
		first := made.Truncate(time.Second).Add(time.Duration(minutes) * time.Minute)
		versions := []keyring.Version{{KeyID: "key:v1", Purpose: evidence.PurposeActionGrant, Created: &made}}
		keyring.AddUse(versions, []ledger.KeyUse{{KeyID: "key:v1", First: first, Last: made.Add(time.Hour), Posts: 3}})
		if (versions[0].Use != nil) != known {
			t.Errorf("first used %d minutes after it was made: %+v", minutes, versions[0].Use)
		}
	}
}

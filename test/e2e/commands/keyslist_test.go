package commands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/program"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

// listed returns a line for each version: kid, state, whether it signs, and what else is known of it.
func listed(t *testing.T, want int, args ...string) (lines []string, stderr string) {
	t.Helper()
	status, out, said := kit.Invoke(t, append([]string{"keys", "list", "--json"}, args...)...)
	if status != want {
		t.Fatalf("status %d, want %d: %s", status, want, said)
	}
	var versions []keyring.Version
	check.Must(t, json.Unmarshal([]byte(out), &versions))
	for _, v := range versions {
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
	return lines, said
}

// TestKeysList lists what is known of each version, and nothing else.
func TestKeysList(t *testing.T) {
	t.Parallel()
	d := kit.NewTeam(t)
	key := kit.MemoryKey(t, "grant-key")
	grant := kit.Rotating(key)
	at := kit.Publish(t, "control", kit.Role(evidence.PurposeActionGrant, "authz", grant))
	books := []string{"--bundle", d.Bundle, "--registry", d.At("registry.jwk")}
	wants := func(args []string, want ...string) {
		t.Helper()
		if got, _ := listed(t, program.Done, args...); strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%v\ngot  %q\nwant %q", args, got, want)
		}
	}
	certify := func(at string) {
		t.Helper()
		d.Must(t, "certify", "--from", at)
		grant.Follow(d.Certified(t))
	}
	here := []string{"--from", at}
	wants(here, "grant-key:v1  waits created at control")
	certify(at)
	check.Must(t, key.Rotate())
	wants(here, "grant-key:v1  signs created at control", "grant-key:v2  waits created at control")
	wants(append(here, books...), "grant-key:v1 certified signs created until at control",
		"grant-key:v2 not certified waits created at control")
	carried := kit.PublishedBy(t, at)
	certify(at)
	wants(append(here, books...), "grant-key:v1 certified waits created until at control",
		"grant-key:v2 certified signs created until at control")

	// A file may be old, so it does not say which version signs.
	wants([]string{"--from", carried}, "grant-key:v1  created at published.json",
		"grant-key:v2  created at published.json")

	// Another key of the same name is not certified.
	other := kit.Publish(t, "other", kit.Grant(kit.MemoryKey(t, "grant-key")))
	wants(append([]string{"--from", other}, books...), "grant-key:v1 not certified waits created at other",
		"grant-key:v2 certified until")

	// One version is retired and unknown to any process; then another one is revoked.
	raw := kit.Read(t, strings.TrimPrefix(carried, "file:"))
	var p keyring.Publication
	check.Must(t, json.Unmarshal(raw, &p))
	p.Roles[0].Keys = p.Roles[0].Keys[1:]
	raw, err := json.Marshal(p)
	check.Must(t, err)
	check.Must(t, os.WriteFile(strings.TrimPrefix(carried, "file:"), raw, 0o600))
	certify(carried)
	wants(append([]string{"--from", carried}, books...), "grant-key:v1 retired until",
		"grant-key:v2 certified created until at published.json")
	d.Must(t, "revoke", "--key", "grant-key:v2", "--reason", "a drill")
	wants(append([]string{"--from", carried}, books...), "grant-key:v1 retired until",
		"grant-key:v2 revoked created until at published.json")
	revoked := func() *keyring.Revoked {
		t.Helper()
		_, out, _ := kit.Invoke(t, append([]string{"keys", "list", "--json", "--from", carried}, books...)...)
		var versions []keyring.Version
		check.Must(t, json.Unmarshal([]byte(out), &versions))
		if versions[0].Revocation != nil || versions[1].Revocation == nil {
			t.Fatalf("said %s", out)
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
	got, said := listed(t, program.Refused, "--from", "unix:"+d.At("absent"), "--from", carried)
	if len(got) != 1 || !strings.Contains(said, "absent cannot be read: no answer") {
		t.Errorf("%q, %s", got, said)
	}
	// A bundle counts only with the key of its registry.
	strange := []string{"--from", at, "--bundle", d.Bundle, "--registry",
		filepath.Join(kit.NewTeam(t).Dir, "registry.jwk")}
	if status, out, said := kit.Invoke(t, append([]string{"keys", "list"}, strange...)...); status != program.Refused ||
		out != "" || !strings.Contains(said, "(signature_invalid)") {
		t.Errorf("status %d: %s%s", status, out, said)
	}
	if status, _, said := kit.Invoke(t, "keys", "list", "--from", at, "--bundle", d.Bundle); status != program.Usage {
		t.Errorf("status %d: %s", status, said)
	}
	if _, out, _ := kit.Invoke(t, "keys", "list", "--from", at); !strings.Contains(out, "SIGNS NOW") ||
		!strings.Contains(out, "grant-key:v1  action_grant  -") {
		t.Errorf("said %s", out)
	}
}

// TestKeysListUse: the record tells since when it counts, when each version signed first and last, and for how many
// posts.
func TestKeysListUse(t *testing.T) {
	t.Parallel()
	from := recordsFrom.AddDate(100, 0, 0) // after the keys were made
	l, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Now: func() time.Time {
		return from
	}})
	check.Must(t, err)
	t.Cleanup(func() { l.Close() })
	token := func(kid string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(`{"kid":"`+kid+`"}`)) + ".e30.AA"
	}
	for i := range 3 {
		r := ledger.Record{ID: fmt.Sprint("post_", i), Flow: "post", Started: from.Add(time.Duration(i) * time.Minute),
			Artifacts: []ledger.Artifact{{Name: "grant", Token: token("grant-key:v1")}}}
		check.Must(t, l.Begin(t.Context(), r))
		r.State = ledger.StateForwarded
		check.Must(t, l.Finish(t.Context(), r))
	}
	check.Must(t,
		l.AddReceipts(t.Context(),
			ledger.Receipt{Session: "ses_1", Number: 1, Call: "post_1", Signed: from, Token: token("receipt-key:v1")}))
	key := kit.MemoryKey(t, "grant-key")
	check.Must(t, key.Rotate())
	at := kit.Publish(t, "control", kit.Grant(key),
		kit.Role(evidence.PurposeInteraction, "observer", kit.Rotating(kit.MemoryKey(t, "receipt-key"))))
	record := serveRecords(t, l)
	list := func(want int, args ...string) (uses []string, out, said string) {
		t.Helper()
		status, out, said := kit.Invoke(t, append([]string{"keys", "list", "--json", "--from", at}, args...)...)
		if status != want {
			t.Fatalf("status %d, want %d: %s", status, want, said)
		}
		var versions []struct {
			KeyID string           `json:"keyId"`
			Use   *json.RawMessage `json:"use"`
		}
		check.Must(t, json.Unmarshal([]byte(out), &versions))
		for _, v := range versions {
			use := "not asked"
			if v.Use != nil {
				var compact bytes.Buffer
				check.Must(t, json.Compact(&compact, *v.Use))
				use = compact.String()
			}
			uses = append(uses, v.KeyID+" "+use)
		}
		return uses, out, said
	}
	want := []string{
		`grant-key:v1 {"since":"2126-03-01T00:00:00Z","first":"2126-03-01T00:00:00Z",` +
			`"last":"2126-03-01T00:02:00Z","posts":3}`,
		`grant-key:v2 {"since":"2126-03-01T00:00:00Z","posts":0}`,
		`receipt-key:v1 {"since":"2126-03-01T00:00:00Z","first":"2126-03-01T00:00:00Z","last":"2126-03-01T00:00:00Z"}`,
	}
	if got, _, _ := list(program.Done, "--record", record); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got, _, _ := list(program.Done, "--record", record, "--record", record); !strings.HasSuffix(got[0], `"posts":6}`) {
		t.Errorf("two records: %q", got)
	}
	unknown := []string{"grant-key:v1 not asked", "grant-key:v2 not asked", "receipt-key:v1 not asked"}
	if got, _, _ := list(program.Done); !slices.Equal(got, unknown) {
		t.Errorf("without a record: %q", got)
	}
	if got, _, said := list(program.Refused, "--record", record, "--record", "unix:/nowhere"); !slices.Equal(got,
		unknown) || !strings.Contains(said, "the record at unix:/nowhere cannot be read") {
		t.Errorf("one record is away: %q, %s", got, said)
	}
	if _, out, _ := kit.Invoke(t, "keys", "list", "--from", at, "--record", record); !strings.Contains(out,
		"2126-03-01T00:02:00Z  3 ") || !strings.Contains(out, "counted since 2126-03-01T00:00:00Z") {
		t.Errorf("said %s", out)
	}
}

// TestKeysListUseOfAnEarlierKey: signatures by an earlier key of the same name do not count for this one.
func TestKeysListUseOfAnEarlierKey(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)
	at := func(minutes int) time.Time {
		return made.Truncate(time.Second).Add(time.Duration(minutes) * time.Minute)
	}
	for name, tt := range map[string]struct {
		first, last       int
		wantFirst, counts bool
		wantLast          bool
	}{
		"signed since":                {0, 5, true, true, true},
		"signed before and since":     {-5, 5, false, false, true},
		"signed before and when made": {-5, 0, false, false, true},
		"signed before alone":         {-5, -1, false, false, false},
	} {
		versions := []keyring.Version{{KeyID: "key:v1", Purpose: evidence.PurposeActionGrant, Created: &made}}
		keyring.AddUse(versions,
			[]ledger.KeyUses{{Keys: []ledger.KeyUse{{KeyID: "key:v1", First: at(tt.first), Last: at(tt.last), Posts: 3}}}})
		if u := versions[0].Use; (u.First != nil) != tt.wantFirst || (u.Posts != nil) != tt.counts ||
			(u.Last != nil) != tt.wantLast {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

package archive_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/gatetest"
)

type judged struct {
	code     string            // of the export itself
	refused  map[string]string // codes by id
	unproven map[string][]string
	ids      []string
	missing  []string
	unasked  int
}

func judgeAll(t *testing.T, text string, w *world) (out judged) {
	t.Helper()
	out.refused, out.unproven = make(map[string]string), make(map[string][]string)
	r, err := archive.NewReader(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return judged{code: codeOf(err)}
	}
	judge := r.Archive().Pinned(w.pins()).NewJudge(r.Receipts, w.Clock.Now())
	for j, err := range judge.Records(t.Context(), r.Records()) {
		if err != nil {
			out.code = codeOf(err)
			return out
		}
		out.ids = append(out.ids, j.Record.ID)
		if out.unproven[j.Record.ID] = j.Unproven; j.Outcome == archive.Refused {
			out.refused[j.Record.ID] = j.Code
		}
	}
	out.missing, out.unasked = judge.Missing(), r.Unasked()
	return out
}

func (j judged) altered() bool { return j.code != "" || len(j.refused) > 0 || j.unasked > 0 }

func posted(t *testing.T, w *world, names ...string) ([]ledger.Record, archive.Receipts) {
	t.Helper()
	w.Clock.Advance(time.Minute)
	sessions, records := make(map[string]*gatetest.Session), []ledger.Record{}
	post := func(s *gatetest.Session, id, name string, state ledger.State, receipt bool) {
		head := s.Head()
		r := w.PostOf(t, gatetest.Claim(evidence.PurposeAgentSession, "interactions", head, "sessionId", name))
		r.ID, r.Session, r.State, r.Host, r.Rule = id, name, state, "api.example:443", "posts"
		r.Steps, r.Checks = []ledger.Step{{Name: "session", Micros: 5}}, []ledger.Check{{Name: "fresh work", OK: true}}
		switch state {
		case ledger.StateRefused:
			r.Artifacts, r.CapabilityID, r.Code, r.Step, r.Reason = r.Artifacts[:7:7], "", "decision_denied", "policy",
				"no rule"
			r.Artifacts = slices.DeleteFunc(r.Artifacts, func(a ledger.Artifact) bool {
				return a.Name == "policyDecision" || a.Name == "grant"
			})
		case ledger.StateForwarded:
			r.Status, r.BytesOut, r.BytesIn, r.Result = 201, 29, 512, "ok"
		}
		if records = append(records, r); receipt {
			s.PostOf(t, r, nil)
		}
		w.Clock.Advance(time.Minute)
	}
	for _, name := range names {
		s := w.session(name)
		s.Event, sessions[name] = "evt_1", s
		s.Call(t, nil)
		post(s, name+"_made", name, ledger.StateForwarded, true)
		post(s, name+"_denied", name, ledger.StateRefused, false)
		post(s, name+"_failed", name, ledger.StateFailed, true)
		post(s, name+"_unknown", name, ledger.StateIndeterminate, true)
		post(s, name+"_bare", name, ledger.StateForwarded, false)
		s.Call(t, nil)
	}
	return records, receiptsOf(sessions)
}

func linesOf(t *testing.T, w *world, receipts archive.Receipts, records ...ledger.Record) []string {
	t.Helper()
	var to bytes.Buffer
	_, err := archive.Export(t.Context(), &to, narrow(t, archive.Archive{w.read()}, records...), list(records...),
		receipts, nil)
	must(t, err)
	lines := strings.SplitAfter(to.String(), "\n")
	return lines[:len(lines)-1]
}

// values are other values for a member of JSON: of its type, and none.
func values(v any) (all []any) {
	switch v := v.(type) {
	case nil:
		return []any{true, "x", []any{"grant-key:v1"}, float64(7), map[string]any{"number": float64(3)},
			time.Unix(1795000000, 0).UTC().Format(time.RFC3339)}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			for _, by := range []time.Duration{-72 * time.Hour, -30 * time.Minute, -2 * time.Second, time.Second,
				72 * time.Hour} {
				all = append(all, at.Add(by).Format(time.RFC3339Nano))
			}
			return all
		}
		return []any{v + "x", "x", "", strings.ToUpper(v), "forwarded", "refused", "failed", "indeterminate",
			"forwarding"}
	case float64:
		return []any{v + 1, -v, float64(0), float64(404)}
	case []any:
		all = append(all, v[1:], v[:len(v)-1], []any{}, append(slices.Clone(v), v[0]))
		swapped := slices.Clone(v)
		slices.Reverse(swapped)
		return append(all, swapped)
	case map[string]any:
		for name := range v {
			other := map[string]any{}
			for n, value := range v {
				other[n] = value
			}
			delete(other, name)
			all = append(all, other)
		}
	}
	return all
}

// The export is refused, or the member is unproven. The test must know every member.
func TestAlteredRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	records, receipts := posted(t, w, "ses_1")
	// held are the members that signatures hold of a post that was made, and has a receipt. Every other member is
	// unproven.
	held := []string{
		"id", "flow", "state", "session", "event", "subject", "action", "resource", "method", "path", "message",
		"learning", "interactions", "contentHash",
		"bindingHash", "capabilityId", "started", "manifest", "status", "artifacts", "keys",
	}
	open := []string{"rule", "host", "scheme", "via", "queryNames", "carries", "mcp", "graphql", "unfit", "result",
		"tools", "model", "finished", "code", "step", "reason", "answer", "bytesOut", "bytesIn", "checks", "steps"}
	var members []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[ledger.Record]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if members = append(members, name); slices.Contains(held, name) == slices.Contains(open, name) {
			t.Errorf("nobody has decided how the member %s of a record is held", name)
		}
	}
	for _, r := range records {
		lines := linesOf(t, w, receipts, r)
		valid := judgeAll(t, strings.Join(lines, ""), w)
		if valid.altered() || len(valid.ids) != 1 || slices.Contains(valid.missing, r.ID) {
			t.Fatalf("%s: %+v", r.ID, valid)
		}
		unproven := valid.unproven[r.ID]
		if r.ID == "ses_1_made" && !slices.Equal(unproven, open) {
			t.Errorf("of a post that was made %q are unproven, want %q", unproven, open)
		}
		at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, `{"record":`) })
		var read struct{ Record map[string]any }
		must(t, json.Unmarshal([]byte(lines[at]), &read))
		for _, name := range members {
			before, there := read.Record[name]
			if slices.Contains(unproven, name) {
				continue // another value is accepted, or refused
			}
			for _, value := range values(before) {
				if reflect.DeepEqual(value, before) {
					continue
				}
				read.Record[name] = value
				raw, err := json.Marshal(read)
				must(t, err)
				raw = append([]byte(`{"record"`), raw[len(`{"Record"`):]...)
				if read.Record[name] = before; !there {
					delete(read.Record, name)
				}
				lines[at] = string(raw) + "\n"
				if now := judgeAll(t, strings.Join(lines, ""), w); !now.altered() {
					t.Errorf("%s: %s = %.60v instead of %.60v is accepted as proven", r.ID, name, value, before)
				}
			}
		}
	}
}

// Lines are swapped, doubled, dropped or replaced by another export's.
func TestAlteredExports(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	records, receipts := posted(t, w, "ses_1", "ses_2")
	lines := linesOf(t, w, receipts, records...)
	foreign := newWorld(t, false)
	theirs, theirReceipts := posted(t, foreign, "ses_1")
	other := linesOf(t, foreign, theirReceipts, theirs...)
	find := func(lines []string, kind, id string) int {
		at := slices.IndexFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, `{"`+kind+`":`) && (id == "" || strings.Contains(l, `"id":"`+id+`"`))
		})
		if at < 0 {
			t.Fatalf("there is no %s %s", kind, id)
		}
		return at
	}
	record := func(id string) int { return find(lines, "record", id) }
	without := func(from, to int) []string { return slices.Delete(slices.Clone(lines), from, to) }
	with := func(at int, more ...string) []string { return slices.Insert(slices.Clone(lines), at, more...) }
	change := func(at int, old, new string) []string {
		changed := slices.Clone(lines)
		if changed[at] = strings.Replace(lines[at], old, new, 1); changed[at] == lines[at] {
			t.Fatalf("line %d has no %s", at, old)
		}
		return changed
	}
	ends := func(lines []string, n string) []string {
		lines[len(lines)-1] = strings.Replace(lines[len(lines)-1], "10", n, 1)
		return lines
	}
	swapped := func(a, b int) []string {
		changed := slices.Clone(lines)
		changed[a], changed[b] = lines[b], lines[a]
		return changed
	}
	only := func(drop func(line string) bool) []string { return slices.DeleteFunc(slices.Clone(lines), drop) }
	isReceipt := func(line string) bool { return strings.HasPrefix(line, `{"receipt":`) }
	made, certificate := record("ses_1_made"), find(lines, "certificate", "")
	secondOf2 := record("ses_2_made") + 2

	if valid := judgeAll(t, strings.Join(lines, ""), w); valid.altered() || len(valid.ids) != 10 ||
		len(valid.missing) > 0 {
		t.Fatalf("%+v", valid)
	}
	for name, altered := range map[string][]string{
		"a record twice":        ends(with(made+1, lines[made]), "11"),
		"a chain under two ids": ends(with(made+1, change(made, "ses_1_made", "ses_1_twice")[made]), "11"),
		"a bare chain under two ids": ends(
			with(len(lines)-1, change(record("ses_1_bare"), "ses_1_bare", "ses_1_twice")[record("ses_1_bare")]), "11"),
		"an id twice":               change(record("ses_1_bare"), "ses_1_bare", "ses_1_made"),
		"a start three days before": change(made, `"started":"2026-11-20T`, `"started":"2026-11-17T`),
		"a bare start three days before": change(record("ses_1_bare"), `"started":"2026-11-20T`,
			`"started":"2026-11-17T`),
		"a denied start three days before": change(record("ses_1_denied"), `"started":"2026-11-20T`,
			`"started":"2026-11-17T`),
		"an end before the signatures": change(record("ses_1_bare"), `"finished":"2026-11-20T`,
			`"finished":"2026-11-19T`),
		"an end in the future":               change(made, `"finished":"2026-11-20T`, `"finished":"2027-11-20T`),
		"another state":                      change(made, `"state":"forwarded"`, `"state":"refused"`),
		"another session":                    change(made, `"session":"ses_1"`, `"session":"ses_2"`),
		"records swapped before their chain": swapped(made, record("ses_2_made")),
		"receipts swapped":                   swapped(made+1, made+2),
		"a receipt twice":                    with(made+2, lines[made+2]),
		"a receipt of another session":       change(made+2, lines[made+2], lines[secondOf2]),
		"a receipt of another mediator": change(made+2, lines[made+2],
			other[find(other, "record", "ses_1_made")+2]),
		"a receipt dropped from the middle": without(made+1, made+2),
		"receipts after the last record":    with(len(lines)-1, lines[made+2]),
		"a record of another mediator":      ends(with(made+1, other[find(other, "record", "ses_1_bare")]), "11"),
		"artifacts swapped between two": change(made, between(lines[made], `"artifacts":`, `]`),
			between(lines[record("ses_2_made")], `"artifacts":`, `]`)),
		"the session receipt taken out": change(record("ses_1_made"),
			between(lines[made], `{"name":"sessionReceipt"`, `},`), ""),
		"the capability taken out":          change(made, between(lines[made], `{"name":"capability"`, `},`), ""),
		"a certificate of another registry": with(certificate, other[find(other, "certificate", "")]),
		"the certificates of another registry": slices.Concat(lines[:certificate],
			other[find(other, "certificate", ""):find(other, "manifest", "")], lines[find(lines, "manifest", ""):]),
		"the roots of another mediator": change(find(lines, "roots", ""), lines[find(lines, "roots", "")],
			other[find(other, "roots", "")]),
		"the certificates dropped":        only(func(l string) bool { return strings.HasPrefix(l, `{"certificate":`) }),
		"the manifest dropped":            only(func(l string) bool { return strings.HasPrefix(l, `{"manifest":`) }),
		"another manifest":                change(find(lines, "manifest", ""), "posting-api", "posting-apx"),
		"two exports behind each other":   slices.Concat(lines, other),
		"two exports in one":              slices.Concat(lines[:len(lines)-1], other),
		"a receipt before all records":    with(made, lines[made+1]),
		"the end dropped":                 without(len(lines)-1, len(lines)),
		"the end cut off":                 append(without(len(lines)-1, len(lines)), `{"end":{"rec`),
		"a record dropped":                without(made, made+1),
		"a record more than the end says": ends(slices.Clone(lines), "9"),
		"a post without its evidence":     change(made, between(lines[made], `"artifacts":`, `],`), ""),
	} {
		if now := judgeAll(t, strings.Join(altered, ""), w); !now.altered() {
			t.Errorf("%s is accepted: %+v", name, now)
		}
	}

	// What no token contradicts is said to be missing, or not proven.
	denied := record("ses_1_denied")
	now := judgeAll(t, strings.Join(ends(slices.Concat(lines[:made], lines[denied:denied+1], lines[made+1:denied],
		lines[denied+1:]), "9"), ""), w)
	if now.altered() || !slices.Equal(now.missing, []string{"ses_1_made"}) {
		t.Errorf("a record is left out, and the end lowered: %+v", now)
	}
	now = judgeAll(t, strings.Join(only(isReceipt), ""), w)
	for _, id := range now.ids {
		if now.altered() || !slices.Contains(now.unproven[id], "id") || !slices.Contains(now.unproven[id], "state") ||
			!slices.Contains(now.unproven[id], "started") {
			t.Errorf("%s without receipts: %+v", id, now)
		}
	}
}

func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	found, _, _ := strings.Cut(rest, to)
	return from + found + to
}

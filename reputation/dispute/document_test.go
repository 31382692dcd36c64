package dispute_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/dispute"
	"github.com/actionproof/mediator/test/check"
)

func parse(kind string, raw []byte) (dispute.Document, error) {
	if kind == "signal" {
		s, err := dispute.ParseSignal(raw)
		return s, err
	}
	f, err := dispute.ParseFiling(raw)
	return f.Document(), err
}

func whole(kind string) map[string]any {
	switch kind {
	case "signal":
		return map[string]any{"signal_id": "sig-1", "agent_id": alice, "statement": "it will rain", "horizon": "short",
			"timestamp": begin, "rests_on": map[string]any{"receipts": []any{hashOf(1), hashOf(2)}}, "signature": "x"}
	case "contract":
		return map[string]any{"challenge_id": "c-1", "original_signal_id": "sig-1", "challenger_agent_id": bob,
			"counter_claim": "no", "reasoning_trace": "why", "timestamp": begin, "signature": "x", "challenge_type": "timing",
			"target_receipts": []any{hashOf(1)}}
	}
	_, did := keyOf("dora")
	return map[string]any{"challenger_id": did, "target_id": alice, "target_receipts": []any{hashOf(1)},
		"challenge_type": "general", "evidence": "look", "timestamp": begin, "signature": "x"}
}

func TestRefusalShowsTheForm(t *testing.T) {
	document := whole("signal")
	document["signal_id"] = "-a"
	raw, err := json.Marshal(document)
	check.Must(t, err)
	_, err = parse("signal", raw)
	check.WantCode(t, err, "statement_malformed", "its signal_id does not match ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")
}

func TestSchemasAndParsersAgree(t *testing.T) {
	many := func(n int) (all []any) {
		for i := range n {
			all = append(all, hashOf(i))
		}
		return all
	}
	type change struct {
		member string
		value  any // nil takes the member away
		ok     bool
	}
	both := func(member string, longest int) []change {
		return []change{{member, strings.Repeat("é", longest), true}, {member, strings.Repeat("é", longest+1), false},
			{member, "", false}, {member, 1, false}}
	}
	id := func(member string) []change {
		return []change{{member, strings.Repeat("a", 128), true}, {member, "A.b_c:d-9", true},
			{member, strings.Repeat("a", 129), false}, {member, "", false}, {member, "-a", false}, {member, "a b", false},
			{member, "a\n", false}}
	}
	agent := func(member string) []change {
		_, did := keyOf("dora")
		return []change{
			{member, did, true}, {member, bob, true}, {member, strings.Repeat("b", 43) + ":a\nb", true},
			{member, strings.Repeat("b", 43) + ":", false}, {member, strings.Repeat("b", 42) + ":a", false},
			{member, strings.Repeat("=", 43) + ":a", false}, {member, strings.Repeat("b", 43) + ":a\x00", false},
			{member, strings.Repeat("b", 43) + ":" + strings.Repeat("a", 257), false}, {member, did + "1", false},
			{member, "did:web:a", false}, {member, "agent:worker-1", false}, {member, nil, false},
		}
	}
	receipts := func(member string) []change {
		return []change{{member, many(64), true}, {member, many(65), false}, {member, []any{}, false},
			{member, []any{hashOf(1), hashOf(1)}, false}, {member, []any{"x"}, false},
			{member, []any{strings.ToUpper(hashOf(1))}, false}}
	}
	when := []change{{"timestamp", 1, true}, {"timestamp", 1<<53 - 1, true}, {"timestamp", 0, false},
		{"timestamp", -1, false}, {"timestamp", 1.5, false}, {"timestamp", "2026-01-01T00:00:00Z", false}}
	unknown := []change{{"surprise", 1, false}, {"signature", nil, true}, {"signature", strings.Repeat("x", 16385), false}}
	cases := map[string][]change{
		"signal": slices.Concat([]change{
			{"horizon", "long", true}, {"horizon", "medium", false}, {"horizon", nil, false}, {"signal_id", nil, false},
			{"statement", nil, false}, {"timestamp", nil, false}, {"rests_on", nil, true},
			{"rests_on", map[string]any{"record": hashOf(1)}, true}, {"rests_on", map[string]any{"record": "x"}, false},
			{"rests_on", map[string]any{}, false}, {"rests_on", map[string]any{"receipts": many(64)}, true},
			{"rests_on", map[string]any{"receipts": many(65)}, false}, {"rests_on", map[string]any{"receipts": []any{}}, false},
			{"rests_on", map[string]any{"receipts": many(1), "record": hashOf(1)}, false},
			{"rests_on", map[string]any{"x": 1}, false},
		}, id("signal_id"), agent("agent_id"), both("statement", 4096), when),
		"contract": slices.Concat([]change{
			{"challenge_id", nil, false}, {"counter_claim", nil, false}, {"reasoning_trace", nil, false},
			{"timestamp", nil, false}, {"challenge_type", nil, true}, {"challenge_type", "knowledge", true},
			{"challenge_type", "", false}, {"challenge_type", "other", false}, {"target_receipts", nil, true},
		}, id("challenge_id"), id("original_signal_id"), agent("challenger_agent_id"), both("counter_claim", 4096),
			both("reasoning_trace", 16384), receipts("target_receipts"), when),
		"challenge": slices.Concat([]change{
			{"challenge_type", nil, false}, {"challenge_type", "consistency", true}, {"challenge_type", "Timing", false},
			{"target_receipts", nil, false}, {"evidence", nil, true}, {"timestamp", nil, true},
		}, agent("challenger_id"), agent("target_id"), both("evidence", 16384), receipts("target_receipts"), when),
	}
	for kind, changes := range cases {
		schema := compile(t, kind)
		for i, c := range append(changes, append(unknown, change{"signature", "y", true})...) {
			t.Run(fmt.Sprintf("%s %d: %s is %.40v", kind, i, c.member, c.value), func(t *testing.T) {
				members := whole(kind)
				members[c.member] = c.value
				if c.value == nil {
					delete(members, c.member)
				}
				raw, err := json.Marshal(members)
				check.Must(t, err)
				value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
				check.Must(t, err)
				if err := schema.Validate(value); (err == nil) != c.ok {
					t.Errorf("the schema says %v", err)
				}
				_, err = parse(kind, raw)
				if c.ok {
					check.Must(t, err)
				} else {
					check.WantCode(t, err, "statement_malformed")
				}
			})
		}
	}
	if _, ok := dispute.Schema("other"); ok {
		t.Error("there is a schema of another name")
	}
}

func compile(t testing.TB, kind string) *jsonschema.Schema {
	t.Helper()
	raw, ok := dispute.Schema(kind)
	if !ok {
		t.Fatalf("there is no schema of a %s", kind)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	check.Must(t, err)
	c := jsonschema.NewCompiler()
	check.Must(t, c.AddResource("urn:x", value))
	schema, err := c.Compile("urn:x")
	check.Must(t, err)
	return schema
}

func TestOneSpelling(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "a list": "[]", "null": "null", "a member twice": `{"signal_id":"a","signal_id":"a"}`,
		"another case": `{"Signal_id":"a"}`,
	} {
		for _, kind := range []string{"signal", "contract"} {
			t.Run(kind+": "+name, func(t *testing.T) {
				_, err := parse(kind, []byte(raw))
				check.WantCode(t, err, "statement_malformed")
			})
		}
	}
	for kind, empty := range map[string][]string{
		"signal":    {"rests_on", "signature"},
		"contract":  {"challenge_type", "target_receipts", "signature"},
		"challenge": {"evidence", "timestamp", "signature"},
	} {
		for _, member := range empty {
			members := whole(kind)
			members[member] = nil
			raw, err := json.Marshal(members)
			check.Must(t, err)
			_, err = parse(kind, raw)
			check.WantCode(t, err, "statement_malformed")
		}
	}
	big, err := json.Marshal(map[string]string{"x": strings.Repeat("x", dispute.MaxSize)})
	check.Must(t, err)
	for _, kind := range []string{"signal", "challenge"} {
		_, err := parse(kind, big)
		check.WantCode(t, err, "statement_malformed")
	}
}

func TestOwnSignature(t *testing.T) {
	key, dora := keyOf("dora")
	other, _ := keyOf("other")
	s := signalOf(dora, "sig-1", begin)
	s.Signature = sign(t, key, s)
	check.Must(t, dispute.VerifyOwn(s))
	c := *challengeOf(dora, alice, dispute.TypeTiming, hashOf(1)).Challenge
	c.Timestamp = begin
	c.Signature = sign(t, key, c)
	check.Must(t, dispute.VerifyOwn(c))
	for name, edit := range map[string]func(*dispute.Signal){
		"another's":         func(s *dispute.Signal) { s.Signature = sign(t, other, *s) },
		"none":              func(s *dispute.Signal) { s.Signature = "" },
		"padded":            func(s *dispute.Signal) { s.Signature += "==" },
		"short":             func(s *dispute.Signal) { s.Signature = s.Signature[:80] },
		"another timestamp": func(s *dispute.Signal) { s.Timestamp++ },
	} {
		t.Run(name, func(t *testing.T) {
			changed := s
			edit(&changed)
			check.WantCode(t, dispute.VerifyOwn(changed), "statement_signature")
		})
	}
	c.Timestamp, c.Signature = 0, ""
	c.Signature = sign(t, key, c)
	check.WantCode(t, dispute.VerifyOwn(c), "statement_malformed") // it could be sent again at any time
	check.WantCode(t, dispute.VerifyOwn(dispute.Signal{AgentID: "x"}), "statement_malformed")
}

func TestBrought(t *testing.T) {
	c := dispute.Challenge{
		Evidence: "see eyJh.b.c, or\neyJi.b.c\teyJj.b eyJk.b.c.d x.y.z " + strings.Repeat(" eyJm.b.c", 40)}
	got := c.Brought()
	if len(got) != 16 || got[0] != "eyJh.b.c," || got[1] != "eyJi.b.c" || got[2] != "eyJm.b.c" {
		t.Errorf("got %q", got)
	}
}

// FuzzDocuments: a parsed document has one canonical form and one hash.
func FuzzDocuments(f *testing.F) {
	kinds := []string{"signal", "contract", "challenge"}
	for _, kind := range kinds {
		raw, err := json.Marshal(whole(kind))
		check.Must(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, kind := range kinds[:2] {
			d, err := parse(kind, raw)
			if err != nil {
				continue
			}
			want, err := strictjson.Canonical(raw)
			check.Must(t, err)
			if got := canonical(t, d); got != string(want) {
				t.Errorf("%s is written as %s", want, got)
			}
			if _, err := dispute.HashOf(d); err != nil {
				t.Error(err)
			}
			_ = dispute.VerifyOwn(d)
		}
	})
}

package auditexport

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/ledgertest"
)

// schema is the part of OCSF's schema in testdata/ocsf.json: of the two classes and their objects, the attributes that
// are required or that events use, as version 1.8.0 of github.com/ocsf/ocsf-schema compiles them.
type schema struct {
	Version          string
	Classes, Objects map[string]kind
}

type kind struct {
	Attributes map[string]struct {
		Type            string
		Array, Required bool
		Enum            []any
	}
	AtLeastOne []string
}

func TestOCSF(t *testing.T) {
	var s schema
	raw, err := os.ReadFile("testdata/ocsf.json")
	check.Must(t, err, json.Unmarshal(raw, &s))
	check.WantEqual(t, s.Version, OCSFVersion)
	post := ledger.Record{ID: "post_1", Flow: "post", State: ledger.StateForwarded, Session: "ses_1", Rule: "create",
		Subject: "agent:one", Action: "create_post", Method: "POST", Scheme: "https", Host: "api.example.com:443",
		Path: "/posts", Status: 201, Started: time.UnixMilli(1_790_000_000_000),
		Finished: time.UnixMilli(1_790_000_000_100)}
	tool := post
	tool.MCP = &ledger.MCPMessage{Method: "tools/call", Tool: "send_mail"}
	tool.State, tool.Code, tool.Reason = ledger.StateIndeterminate, "indeterminate", "it may have been sent"
	mutation := post
	mutation.GraphQL = []ledger.Operation{{Type: "mutation", Fields: []string{"addComment"}}}
	mutation.State, mutation.Host = ledger.StateFailed, "[2001:db8::1]:8443"
	read := post
	read.Flow, read.Action, read.Method, read.State, read.Code = "egress", "", "GET", ledger.StateRefused, "call_denied"
	odd := read
	odd.Method, odd.Path, odd.Host, odd.Session = "PROPFIND", "", "", ""
	for name, test := range map[string]struct {
		record              ledger.Record
		class, activity     float64
		operation           string
		status, disposition float64
	}{
		"a post":             {post, 6003, 1, "create_post", 1, 1},
		"a tool":             {tool, 6003, 1, "send_mail", 0, 1},
		"a mutation":         {mutation, 6003, 1, "mutation addComment", 2, 1},
		"a refused read":     {read, 4002, 3, "", 2, 2},
		"an odd method":      {odd, 4002, 99, "", 2, 2},
		"nothing but a name": {ledger.Record{ID: "post_2", State: ledger.StateRefused}, 4002, 99, "", 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			line, err := Formats["ocsf"](nil, ledgertest.ExportOf(t, test.record))
			check.Must(t, err)
			check.WantEqual(t, idOf(line), test.record.ID)
			var event map[string]any
			check.Must(t, json.Unmarshal(line, &event))
			s.check(t, fmt.Sprint(event["class_uid"]), s.Classes[fmt.Sprint(event["class_uid"])], event)
			check.WantEqual(t, event["class_uid"], any(test.class))
			check.WantEqual(t, event["activity_id"], any(test.activity))
			check.WantEqual(t, event["status_id"], any(test.status))
			check.WantEqual(t, event["disposition_id"], any(test.disposition))
			if api, ok := event["api"].(map[string]any); ok || test.operation != "" {
				check.WantEqual(t, api["operation"], any(test.operation))
			}
			check.WantEqual(t, event["unmapped"].(map[string]any)["id"], any(test.record.ID))
		})
	}
}

// check checks an object against its kind: no attribute without a definition, none missing, all of their types.
func (s *schema) check(t *testing.T, at string, k kind, o map[string]any) {
	t.Helper()
	for name, a := range k.Attributes {
		if _, ok := o[name]; a.Required && !ok {
			t.Errorf("%s lacks %s", at, name)
		}
	}
	if len(k.AtLeastOne) > 0 && !slices.ContainsFunc(k.AtLeastOne, func(name string) bool { return o[name] != nil }) {
		t.Errorf("%s has none of %v", at, k.AtLeastOne)
	}
	for name, value := range o {
		a, ok := k.Attributes[name]
		if !ok {
			t.Errorf("%s.%s is not in the schema", at, name)
			continue
		}
		all := []any{value}
		if a.Array {
			all, _ = value.([]any)
		}
		for _, v := range all {
			right := false
			switch v := v.(type) {
			case string:
				right = a.Type == "string" && v != ""
			case float64:
				right = a.Type == "integer" && v == math.Trunc(v)
			case map[string]any:
				right = a.Type == "object"
				if of, ok := s.Objects[a.Type]; ok {
					s.check(t, at+"."+name, of, v)
					right = true
				}
			}
			if !right || len(a.Enum) > 0 && !slices.Contains(a.Enum, v) {
				t.Errorf("%s.%s is %v", at, name, v)
			}
		}
	}
}

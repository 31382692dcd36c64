package auditexport

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/ledger"
)

// OCSFVersion is the version of the schema (schema.ocsf.io).
const OCSFVersion = "1.8.0"

// object is an object of the schema: its attributes by name. Empty attributes must be left out.
type object = map[string]any

// Classes and their activities.
const (
	httpActivity, apiActivity = 4002, 6003
	otherActivity             = 99
)

var (
	httpActivities = map[string]int{
		http.MethodConnect: 1, http.MethodDelete: 2, http.MethodGet: 3, http.MethodHead: 4, http.MethodOptions: 5,
		http.MethodPost: 6, http.MethodPut: 7, http.MethodTrace: 8, http.MethodPatch: 9,
	}
	apiActivities = map[string]int{http.MethodPost: 1, http.MethodGet: 2, http.MethodHead: 2, http.MethodPut: 3,
		http.MethodPatch: 3, http.MethodDelete: 4}
)

// ocsfLine appends the event of a record, which has the whole record in unmapped.
func ocsfLine(to []byte, e ledger.Export) ([]byte, error) {
	r, err := e.Bare()
	if err != nil {
		return nil, err
	}
	event, err := json.Marshal(ocsfEvent(r))
	if err != nil {
		return nil, err
	}
	to = append(append(to, event[:len(event)-1]...), `,"unmapped":`...)
	return append(e.AppendJSON(to), '}'), nil
}

// ocsfEvent returns a record as an API Activity if its rule or message names an operation, or else as an HTTP Activity.
func ocsfEvent(r ledger.Record) object {
	class, activity := httpActivity, cmp.Or(httpActivities[r.Method], otherActivity)
	operation := operationOf(r)
	if operation != "" {
		class, activity = apiActivity, cmp.Or(apiActivities[r.Method], otherActivity)
	}
	event := object{
		"class_uid": class, "category_uid": class / 1000, "activity_id": activity, "type_uid": class*100 + activity,
		"time": r.Started.UnixMilli(), "severity_id": severities[r.State], "status_id": statuses[r.State],
		"metadata": compact(object{"version": OCSFVersion, "uid": r.ID, "correlation_uid": r.Session,
			"event_code": r.Code, "profiles": []string{"security_control"},
			"product": object{"name": "mediator", "vendor_name": "ActionProof"}}),
		"status_code": r.Code, "status_detail": r.Reason,
		"action_id": 1, "disposition_id": 1, // allowed
		"http_request": object{},
	}
	if httpActivities[r.Method] > 0 { // the schema knows no other methods
		event["http_request"].(object)["http_method"] = r.Method
	}
	if activity == otherActivity {
		event["activity_name"] = cmp.Or(operation, r.Method, "Unknown")
	}
	if r.State == ledger.StateRefused {
		event["action_id"], event["disposition_id"] = 2, 2 // denied, blocked
	}
	if r.Rule != "" {
		event["firewall_rule"] = object{"name": r.Rule}
	}
	host, port := endpointOf(r)
	event["dst_endpoint"] = compact(object{"hostname": cmp.Or(host, "unknown"), "port": port})
	if r.Path != "" {
		event["http_request"].(object)["url"] = compact(object{"scheme": r.Scheme, "hostname": host, "port": port,
			"path": r.Path})
	}
	if r.Status != 0 {
		event["http_response"] = object{"code": r.Status}
	}
	if class == apiActivity {
		actor := object{"app_name": cmp.Or(r.Subject, "agent")}
		if r.Session != "" {
			actor["session"] = object{"uid": r.Session}
		}
		event["actor"], event["src_endpoint"] = actor, object{"uid": cmp.Or(r.Session, "agent")}
		event["api"] = object{"operation": operation, "service": object{"name": cmp.Or(host, "unknown")}}
	}
	return compact(event)
}

// operationOf names the tool, the GraphQL fields or the action that a call is for, or "".
func operationOf(r ledger.Record) string {
	switch {
	case r.MCP != nil:
		return cmp.Or(r.MCP.Tool, r.MCP.Method)
	case len(r.GraphQL) > 0:
		return r.GraphQL[0].Type + " " + strings.Join(r.GraphQL[0].Fields, ",")
	}
	return r.Action
}

func endpointOf(r ledger.Record) (host string, port int) {
	i := strings.LastIndexByte(r.Host, ':')
	if i < 0 {
		return r.Host, 0
	}
	port, _ = strconv.Atoi(r.Host[i+1:])
	return strings.Trim(r.Host[:i], "[]"), port
}

var (
	// informational, low and medium
	severities = map[ledger.State]int{ledger.StateForwarded: 1, ledger.StateRefused: 2, ledger.StateFailed: 2,
		ledger.StateIndeterminate: 3}
	// success and failure; unknown for indeterminate
	statuses = map[ledger.State]int{ledger.StateForwarded: 1, ledger.StateRefused: 2, ledger.StateFailed: 2}
)

// compact removes empty texts and ports.
func compact(o object) object {
	for name, v := range o {
		if v == "" || name == "port" && v == 0 {
			delete(o, name)
		}
	}
	return o
}

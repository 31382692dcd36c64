package auditexport_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/test/check"
)

func TestLogs(t *testing.T) {
	status, got := http.StatusServiceUnavailable, new(logs.LogsData)
	answer := ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		check.Must(t, err, proto.Unmarshal(raw, got))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	d := auditexport.NewLogs(otlp.Collector{Endpoint: s.URL}, auditexport.Formats["json"], zap.NewNop())
	r := refused("post_1")
	r.MCP = &ledger.MCPMessage{Method: "tools/call", Tool: "send_mail"}
	r.Reason, r.Host = "no rule allows it", "api.example.com:443"
	if err := d.Write(t.Context(), []ledger.Record{r}); err == nil {
		t.Error("an absent collector takes records")
	}
	status, answer = http.StatusOK, "\x0a\x02\x08\x01" // one is rejected, which must not be sent again
	check.Must(t, d.Write(t.Context(), []ledger.Record{r}), d.Close())
	record := got.ResourceLogs[0].ScopeLogs[0].LogRecords[0]
	var body ledger.Record
	check.Must(t, json.Unmarshal([]byte(record.Body.GetStringValue()), &body))
	check.WantEqual(t, body.ID, "post_1")
	var said strings.Builder
	for _, a := range record.Attributes {
		said.WriteString(a.Key + "=" + a.Value.GetStringValue() + "; ")
	}
	check.WantEqual(t, said.String(), "log.record.uid=post_1; mediator.state=refused; mediator.rule=create; "+
		"error.type=policy_denied; mediator.reason=no rule allows it; server.address=api.example.com; "+
		"gen_ai.tool.name=send_mail; ")
}

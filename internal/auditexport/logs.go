package auditexport

import (
	"context"
	"errors"

	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/otlp"
	"github.com/actionproof/mediator/ledger"
)

// Logs is a collector that gets each record as an OTLP log record. Its body is the record in the format, and its
// attribute log.record.uid the record's id, by which a receiver drops what comes twice after a failure.
type Logs struct {
	client *otlp.Client
	format Format
	log    *zap.Logger
}

// NewLogs makes the destination. log gets the number of the records that the collector refuses.
func NewLogs(c otlp.Collector, format Format, log *zap.Logger) *Logs {
	return &Logs{otlp.NewClient(c), format, log}
}

// Close closes the connections.
func (d *Logs) Close() error {
	d.client.Close()
	return nil
}

// Write sends the records in one request.
func (d *Logs) Write(ctx context.Context, records []ledger.Record) error {
	scope := &logs.ScopeLogs{Scope: &common.InstrumentationScope{Name: "github.com/actionproof/mediator"}}
	for _, r := range records {
		line, err := d.format(r)
		if err != nil {
			return err
		}
		scope.LogRecords = append(scope.LogRecords, logRecord(r, string(line)))
	}
	// LogsData and an ExportLogsServiceRequest have the same form on the wire.
	err := d.client.Send(ctx, "/v1/logs", &logs.LogsData{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: []*common.KeyValue{text("service.name", "mediator-serve")}},
		ScopeLogs: []*logs.ScopeLogs{scope},
	}}})
	var refused *otlp.RejectedError
	if errors.As(err, &refused) { // must not be sent again
		d.log.Error("the collector refuses records of the audit export", zap.Error(err))
		return nil
	}
	return err
}

func logRecord(r ledger.Record, body string) *logs.LogRecord {
	l := &logs.LogRecord{
		TimeUnixNano:         uint64(r.Started.UnixNano()),  //nolint:gosec // after 1970
		ObservedTimeUnixNano: uint64(r.Finished.UnixNano()), //nolint:gosec // after 1970
		SeverityNumber:       logs.SeverityNumber_SEVERITY_NUMBER_INFO, EventName: "mediator.call",
		Body:       &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: body}},
		Attributes: []*common.KeyValue{text("log.record.uid", r.ID), text("mediator.state", string(r.State))},
	}
	if r.State != ledger.StateForwarded {
		l.SeverityNumber = logs.SeverityNumber_SEVERITY_NUMBER_WARN
	}
	host, _ := endpointOf(r)
	tool := ""
	if r.MCP != nil {
		tool = r.MCP.Tool
	}
	for _, a := range [...]struct{ key, value string }{{"mediator.rule", r.Rule}, {"error.type", r.Code},
		{"mediator.reason", r.Reason}, {"session.id", r.Session}, {"http.request.method", r.Method},
		{"server.address", host}, {"gen_ai.tool.name", tool}} {
		if a.value != "" {
			l.Attributes = append(l.Attributes, text(a.key, a.value))
		}
	}
	return l
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

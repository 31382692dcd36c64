package sidecar

import (
	"fmt"

	"github.com/actionproof/mediator/internal/auditexport"
	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/flood"
)

// addExporter makes the exporter, if the configuration has an audit export. It refuses a file that cannot be written.
func (p *sidecar) addExporter() error {
	c := p.config.AuditExport
	if c == nil {
		return nil
	}
	if c.File != "" {
		if err := files.Writable(c.File); err != nil {
			return fmt.Errorf("auditExport.file: %w", err)
		}
	}
	p.exporter = auditexport.New(flood.Logger(p.Log), p.Metrics)
	return nil
}

// export makes the exporter write where the configuration says. A reload neither adds nor removes the exporter.
func (p *sidecar) export(c *remote.AuditExport) {
	if p.exporter == nil {
		return
	}
	format := auditexport.Formats[c.Format]
	if c.OTLP != nil {
		p.exporter.Use(auditexport.NewLogs(c.OTLP.Of(), format))
	} else {
		p.exporter.Use(auditexport.NewFile(c.File, format))
	}
}

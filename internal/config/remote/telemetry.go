// Package remote has the sections of configurations about servers of others: collectors, a proxy above the mediator,
// and the servers of the xray bridge.
package remote

import (
	"crypto/x509"
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/otlp"
)

// Collector is an OpenTelemetry collector that takes OTLP over HTTP.
type Collector struct {
	// Endpoint is its base URL, without /v1: https, or http at a loopback address.
	Endpoint string `yaml:"endpoint" need:"yes" is:"server"`
	// CA is a PEM file of authorities for its certificate. Default: the system's.
	CA string `yaml:"ca" is:"public"`
	// HeadersFile holds headers for each request: one NAME: VALUE a line.
	HeadersFile string `yaml:"headersFile" is:"secret"`

	// What CA and HeadersFile hold.
	Authorities string `yaml:"-" of:"ca"`
	Headers     string `yaml:"-" of:"headersFile"`
}

// Tracing sends OpenTelemetry spans of calls. Each process sends its own; the sidecar decides which calls are traced.
type Tracing struct {
	Collector `yaml:",inline"`
	// Sample is the fraction of calls that is traced. Default 1.
	Sample float64 `yaml:"sample"`
}

// AuditExport copies the record of each call that ends, with its evidence. Set `file` or `otlp`. To start or stop the
// export takes a restart. A record is kept for a second `retention` if it was not exported.
type AuditExport struct {
	// File gets one record a line. Set this or `otlp`.
	File string `yaml:"file" is:"path" reload:"yes" choice:"yes"`
	// OTLP is a collector that gets log records.
	OTLP *Collector `yaml:"otlp" reload:"yes" choice:"yes"`
	// Format is json (the ledger's record) or ocsf (events of OCSF 1.8.0).
	Format string `yaml:"format" one:"json ocsf" reload:"yes"`
}

var collectorURLs = fields.URLs{HTTP: fields.Loopback, Base: true,
	What: "an https URL without a query, such as https://collector.example.com:4318 (http only at a loopback " +
		"address: what it gets is confidential)"}

func (c *Collector) Check(key string, f *fields.Findings) {
	f.URL(key+".endpoint", c.Endpoint, collectorURLs)
	if c.CA != "" {
		raw, err := files.Read(c.CA)
		if c.Authorities = string(raw); err == nil && c.pool() == nil {
			f.Add(key+".ca", "%s holds no certificate", c.CA)
		} else if err != nil {
			f.Add(key+".ca", "%v", err)
		}
	}
	if c.HeadersFile != "" {
		if c.Headers = f.ReadSecret(key+".headersFile", c.HeadersFile, 1); f.NoSecrets {
			c.Headers = ""
		}
		if _, ok := c.header(); !ok {
			f.Add(key+".headersFile", "%s needs one NAME: VALUE a line", c.HeadersFile)
		}
	}
}

func (t *Tracing) Check(key string, f *fields.Findings) {
	t.Collector.Check(key, f)
	if t.Sample < 0 || t.Sample > 1 {
		f.Add(key+".sample", "is not between 0 and 1")
	}
	if t.Sample == 0 {
		t.Sample = 1
	}
}

// Of returns the collector for a client.
func (c *Collector) Of() otlp.Collector {
	header, _ := c.header()
	return otlp.Collector{Endpoint: c.Endpoint, Authorities: c.pool(), Header: header}
}

// pool returns the authorities, or nil if there are none.
func (c *Collector) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.Authorities)) {
		return nil
	}
	return pool
}

func (c *Collector) header() (h http.Header, ok bool) {
	h = make(http.Header)
	for line := range strings.Lines(c.Headers) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		value = textproto.TrimString(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, false
		}
		h.Add(name, value)
	}
	return h, true
}

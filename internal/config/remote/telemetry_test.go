package remote

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/strict"
	"github.com/actionproof/mediator/test/check"
)

func TestCollector(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"good": "X-Key: secret value\n\nAuthorization: Bearer a:b\n",
		"bad": "X-Key", "injected": "X-Key: a\x01b", "no.pem": "text"} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, test := range map[string]struct {
		c    Collector
		want string // part of the findings, if any
	}{
		"https":              {Collector{Endpoint: "https://collector.example.com:4318", HeadersFile: in("good")}, ""},
		"loopback":           {Collector{Endpoint: "http://[::1]:4318/base"}, ""},
		"clear text":         {Collector{Endpoint: "http://collector:4318"}, "must be an https URL"},
		"clear text by name": {Collector{Endpoint: "http://localhost:4318"}, "must be an https URL"},
		"no host":            {Collector{Endpoint: "https:///v1"}, "must be an https URL"},
		"a password":         {Collector{Endpoint: "https://user:hidden@collector"}, "must not hold a user"},
		"a query":            {Collector{Endpoint: "https://collector/?key=hidden"}, "must be an https URL"},
		"no certificate":     {Collector{Endpoint: "https://collector", CA: in("no.pem")}, "holds no certificate"},
		"no CA":              {Collector{Endpoint: "https://collector", CA: in("absent")}, "absent"},
		"a malformed header": {Collector{Endpoint: "https://collector", HeadersFile: in("bad")},
			"one NAME: VALUE a line"},
		"a forbidden letter": {Collector{Endpoint: "https://collector", HeadersFile: in("injected")},
			"one NAME: VALUE"},
		"no file of headers":  {Collector{Endpoint: "https://collector", HeadersFile: in("absent")}, "absent"},
		"another scheme":      {Collector{Endpoint: "grpc://collector:4317"}, "must be an https URL"},
		"a URL without a // ": {Collector{Endpoint: "collector:4318"}, "must be an https URL"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFindings(t)
			test.c.Check("tracing", f)
			err := f.Err()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hidden") {
				t.Error("the error shows a secret")
			}
			if h := test.c.Of().Header; test.c.HeadersFile == in("good") &&
				(h.Get("X-Key") != "secret value" || h.Get("Authorization") != "Bearer a:b") {
				t.Errorf("got the header %v", h)
			}
		})
	}
	for name, fails := range map[string]bool{"neither": true, "both": true, "one": false} {
		a := AuditExport{}
		if name != "neither" {
			a.File = "/var/log/audit.jsonl"
		}
		if name == "both" {
			a.OTLP = &Collector{Endpoint: "https://collector"}
		}
		f := newFindings(t)
		f.Check("auditExport", &a)
		check.WantEqual(t, f.Err() != nil, fails)
	}
	for sample, fails := range map[float64]bool{-0.1: true, 0: false, 0.01: false, 1.1: true} {
		s := Tracing{Collector: Collector{Endpoint: "https://collector"}, Sample: sample}
		f := newFindings(t)
		s.Check("tracing", f)
		check.WantEqual(t, f.Err() != nil, fails)
		check.WantEqual(t, sample == 0 && s.Sample != 1, false)
	}
}

func newFindings(t *testing.T) *fields.Findings {
	t.Helper()
	f, err := strict.Read([]byte("{}"), new(struct{}), strict.Options{})
	check.Must(t, err)
	return &fields.Findings{File: f}
}

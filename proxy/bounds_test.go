package proxy

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

func TestBodiesThatTheHashWouldNotCover(t *testing.T) {
	p := newPostRig(t, created, nil)
	const head = "POST /posts HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\nContent-Type: application/json\r\n"
	for _, tt := range []struct{ name, request, code string }{
		{"trailers that are announced",
			head + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n2\r\n{}\r\n0\r\nX-A: b\r\n\r\n", "request_malformed"},
		{"a body that breaks off", head + "Content-Length: 10\r\n\r\n{}", "content_incomplete"},
		{"a chunk that is none", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "request_malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := p.MustTunnel(at(0, p.upstream))
			defer c.Close()
			_, err := io.WriteString(c, strings.ReplaceAll(tt.request, "HOST", at(0, p.upstream)))
			must(t, err)
			if tt.code == "content_incomplete" {
				must(t, c.CloseWrite())
			}
			_, _ = io.ReadAll(c)
			eventually(t, func() bool {
				rec, _ := p.record.last()
				return rec.Code == tt.code
			}, "no record has the code %s", tt.code)
			if len(p.sent) != 0 {
				t.Error("the upstream saw the call")
			}
		})
	}
}

func TestNoPlaceToSpool(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.SpoolDir += "/absent" })
	p.wantRefused("ledger_unavailable", "POST", "/raw", strings.Repeat("x", 2<<20))
	// A small body needs no spooling.
	if resp, _ := p.send("POST", "/raw", "small"); resp.StatusCode != http.StatusCreated {
		t.Errorf("got %d", resp.StatusCode)
	}
}

func TestSpoolLeavesNoFile(t *testing.T) {
	var dir string
	p := newPostRig(t, func(w http.ResponseWriter, r *http.Request) {
		if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
			t.Errorf("while the body is forwarded the folder holds %v, %v", files, err)
		}
		created(w, r)
	}, func(o *PipelineOptions, _ []Action) { dir = o.SpoolDir })
	p.send("POST", "/raw", strings.Repeat("x", 2<<20))
	if len(p.sent) != 1 {
		t.Error("the body was not forwarded")
	}
}

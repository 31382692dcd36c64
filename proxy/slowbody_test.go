package proxy

import (
	"bufio"
	"io"
	"testing"
	"time"
)

func TestSlowBody(t *testing.T) {
	p := newPostRig(t, created, func(o *PipelineOptions, _ []Action) { o.Timeouts.Step = time.Second })
	head := "POST /raw HTTP/1.1\r\nHost: " + at(0, p.upstream) + "\r\n"
	for _, text := range []string{head + "Content-Length: 10\r\n\r\nab",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
		head + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX: "} {
		c := p.MustTunnel(at(0, p.upstream))
		_, _ = io.WriteString(c, text)
		resp := readRaw(t, bufio.NewReader(c), "POST")
		body, _ := io.ReadAll(resp.Body)
		if got := answerText(resp, body); got != "400 content_incomplete" || !resp.Close {
			t.Errorf("%q: %s", text, got)
		}
		_ = c.Close()
	}
	if _, n := p.record.last(); n != 3 || len(p.sent) != 0 {
		t.Errorf("%d records, %d calls sent", n, len(p.sent))
	}
}

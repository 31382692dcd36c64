package intercept

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"time"
)

// refuseConnect answers a refused CONNECT and closes its connection: data for the supposed tunnel must not be read as
// the next request. Most clients show only the status line, so it carries the reason, which net/http could not write.
func refuseConnect(w http.ResponseWriter, r *http.Request, p *Proxy, err error) {
	answer := &refusedConnect{header: make(http.Header), status: http.StatusInternalServerError}
	p.o.Refuse(answer, r, err)
	c, _, hijack := w.(http.Hijacker).Hijack()
	if hijack != nil {
		w.WriteHeader(answer.status)
		return
	}
	answer.header.Set("Date", p.o.Now().UTC().Format(http.TimeFormat))
	resp := http.Response{
		ProtoMajor: 1, ProtoMinor: 1, StatusCode: answer.status,
		Status: strconv.Itoa(answer.status) + " " + cmp.Or(answer.reason, http.StatusText(answer.status)),
		Header: answer.header, Body: io.NopCloser(&answer.body), ContentLength: int64(answer.body.Len()), Close: true,
	}
	var text bytes.Buffer
	_ = resp.Write(&text)
	c.(*conn).waits(true) // the client may not take the answer
	_, _ = c.Write(text.Bytes())
	agent := c.(*conn).socket
	_ = agent.CloseWrite()
	time.AfterFunc(lingering, func() { _ = agent.Close() })
}

type refusedConnect struct {
	header http.Header
	status int
	reason string
	body   bytes.Buffer
}

func (a *refusedConnect) Header() http.Header         { return a.header }
func (a *refusedConnect) WriteHeader(status int)      { a.status = status }
func (a *refusedConnect) Write(b []byte) (int, error) { return a.body.Write(b) }

// SetReason sets the reason phrase, one line of printable ASCII, for Options.Refuse.
func (a *refusedConnect) SetReason(reason string) { a.reason = reason }

// Package differential makes chains of evidence with faults, and records how this implementation judges them, so that
// the packages in other languages can be held to the same verdicts.
//
// [Write] writes JSON lines. A line with trust replaces the files and the configuration of an API's gate for the
// lines after it, unless its status says that the gate refuses them. A line with a request holds a call at a time: of
// the verify endpoint if its url is [VerifyPath], and otherwise of the protected route.
package differential

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

// VerifyPath is the url of requests for the verify endpoint.
const VerifyPath = "/.well-known/actionproof/verify"

// Line is one line of the output.
type Line struct {
	Trust   *Trust   `json:"trust,omitempty"`
	Request *Request `json:"request,omitempty"`
	Now     float64  `json:"now"`    // Unix seconds
	Status  string   `json:"status"` // verified, refused, absent or unavailable
	Code    string   `json:"code"`   // ok if verified
	// Fault names the change, to find the cause of a difference.
	Fault string `json:"fault"`
}

// Trust holds the texts of an API's files, and its configuration.
type Trust struct {
	Registry string `json:"registry"` // JWK
	Auditor  string `json:"auditor"`  // JWK
	Manifest string `json:"manifest"`
	Bundle   string `json:"bundle"`
	Secret   string `json:"secret"`
	Name     string `json:"name"`
	Subject  string `json:"subject"`
	Action   string `json:"action"`
	Raw      bool   `json:"raw"` // hash bodies as they are
}

// Request is a call as it is on the wire.
type Request struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"` // path and query
	Headers [][2]string `json:"headers"`
	Body    []byte      `json:"body"` // base64
}

const perTrust = 40 // requests

// Write writes at least n requests. The same seed makes the same faults, with other keys.
func Write(t testing.TB, to io.Writer, n int, seed uint64) {
	t.Helper()
	m := &maker{t: t, rnd: rand.New(rand.NewPCG(seed, 0)), out: json.NewEncoder(to)}
	m.out.SetEscapeHTML(false)
	m.emptyTexts()
	for made := 0; made < n; made += perTrust {
		m.deployment()
		for !m.trusted() { // until a trust is accepted
		}
		for range perTrust {
			m.clock(m.kit.Clock.Now())
			if m.rnd.IntN(2) == 0 {
				m.chain()
			} else {
				m.post()
			}
		}
	}
}

// maker makes lines for one deployment after the other.
type maker struct {
	t   testing.TB
	rnd *rand.Rand
	out *json.Encoder

	kit   *gatetest.Kit
	judge *judge
	raw   bool
	// whole chains, posts and their capabilities, all valid, to change or to mix
	chains []material
	now    time.Time // of the next judgement
	fault  string
}

func (m *maker) clock(t time.Time) { m.now, m.fault = t, "" }

func (m *maker) write(l Line) {
	l.Now, l.Fault = float64(m.now.UnixMilli())/1000, m.fault
	check.Must(m.t, m.out.Encode(l))
}

func (m *maker) ask(r Request) {
	h, err := m.judge.request(r)
	if err != nil {
		return // no server would have read it
	}
	m.judge.now = m.now
	status, code := m.judge.of(h, r.URL == VerifyPath && r.Method == http.MethodPost)
	m.write(Line{Request: &r, Status: status, Code: code})
}

// one returns one of its arguments.
func one[T any](m *maker, of ...T) T { return of[m.rnd.IntN(len(of))] }

// WriteValid writes one trust with n valid chains, and returns a function for each that judges it.
func WriteValid(t testing.TB, to io.Writer, n int) (judges []func()) {
	t.Helper()
	m := &maker{t: t, rnd: rand.New(rand.NewPCG(0, 0)), out: json.NewEncoder(to)}
	m.kit = gatetest.New(t)
	m.clock(m.kit.Clock.Now())
	f := m.files()
	var err error
	m.judge, err = open(f)
	check.Must(t, err)
	m.judge.now = m.now
	m.write(Line{Trust: &f, Status: "verified", Code: "ok"})
	for range n {
		a := m.kit.Chain(t)
		body, err := json.Marshal(asked{object(m, a.Envelope), object(m, a.Binding)})
		check.Must(t, err)
		r := Request{Method: http.MethodPost, URL: VerifyPath, Body: body,
			Headers: [][2]string{{"Content-Type", "application/json"}}}
		m.write(Line{Request: &r, Status: "verified", Code: "ok"})
		judges = append(judges, func() {
			h, err := m.judge.request(r)
			check.Must(t, err)
			if status, code := m.judge.of(h, true); status != "verified" {
				t.Fatal(code)
			}
		})
	}
	return judges
}

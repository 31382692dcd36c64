package autonomy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"time"
)

// tokensOf estimates the tokens of a text.
func (d random) tokensOf(size int) int {
	return max(1, int(float64(size)/bytesPerToken*d.factor(0.05)))
}

// used returns the provider's declared usage of a call.
func (m *model) used(d random, request int, r reply) usage {
	u := usage{input: d.tokensOf(request), output: d.tokensOf(r.size()) + r.hidden, reasoning: r.hidden}
	if m.exact {
		u.output = int(float64(r.size()) / bytesPerToken)
	}
	if m.inflates > 0 {
		u.output, u.reasoning = int(float64(u.output)*m.inflates), int(float64(u.reasoning)*m.inflates)
	}
	if u.input > 1024 && d.chance(0.85) {
		u.cached = u.input * (60 + d.IntN(35)) / 100
	}
	return u
}

// answers returns the model's answer to a request, as it arrives over the network.
func (m *model) answers(d random, t *conversation, request int, r reply, zip bool) answer {
	u := m.used(d, request, r)
	wait := m.waits(d, u.input-u.cached, r.hidden)
	speed := m.speed * d.factor(m.speedSpread)
	id := fmt.Sprintf("%016x", d.Uint64())
	a := m.send(d, t, id, r, u, wait, speed, zip)
	for i, p := range a.pieces {
		if !m.declares {
			a.pieces[i].data = bytes.ReplaceAll(p.data, []byte(`"usage"`), []byte(`"timings"`))
		}
	}
	return a
}

// send cuts an answer into pieces.
func (m *model) send(d random, t *conversation, id string, r reply, u usage, wait time.Duration, speed float64,
	zip bool) answer {
	if !t.stream {
		body := []byte(whole(id, m.as, r, u))
		if zip {
			body = zipped(body)
		}
		at := wait + seconds(float64(r.size())/bytesPerToken/speed)
		return answer{status: 200, kind: "application/json", gzip: zip, pieces: []piece{{at, body}}}
	}
	perEvent := 3 + 2*d.Float64()
	if most := float64(r.size()) / bytesPerToken / 250; most > perEvent {
		perEvent = most
	}
	events := events(id, m.as, r, u, func(text string) []string { return cut(d, text, perEvent*bytesPerToken) })
	a := answer{status: 200, kind: "text/event-stream"}
	at := wait
	for _, e := range events {
		if e.tokens > 0 {
			at += seconds(e.tokens / speed * d.factor(m.jitter))
		}
		if !m.exact && d.chance(0.001) { // a stall
			at += d.rare(700 * time.Millisecond)
		}
		a.pieces = append(a.pieces, piece{at, []byte(e.data)})
	}
	return a
}

// cut cuts a text into pieces of random lengths around size.
func cut(d random, text string, size float64) (out []string) {
	for len(text) > 0 {
		n := min(len(text), max(1, int(size*(0.5+d.Float64()))))
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func zipped(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// refusal is an answer by which the provider refuses a call.
func (m *model) refusal(d random) answer {
	status := pick(d, 429, 429, 500, 503, 529)
	body := fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"try again later"}}`,
		map[int]string{429: "rate_limit_error", 500: "api_error", 503: "unavailable", 529: "overloaded_error"}[status])
	return answer{status: status, kind: "application/json",
		pieces: []piece{{d.about(250*time.Millisecond, 0.6), []byte(body)}}}
}

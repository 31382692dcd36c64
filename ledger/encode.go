package ledger

import (
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Records are written as encoding/json would write them, but without it: it took a quarter of what it cost to store the record of a read.

// Encode returns the record as it is kept: apart from its artifacts, which are most of it and never change once a post has begun.
// These are empty where there are none.
func (p Record) Encode() (record, artifacts string, err error) {
	if artifacts, err = text(func(w *writer) { w.artifacts(p.Artifacts) }); err != nil {
		return "", "", err
	}
	record, err = p.Outcome()
	return record, artifacts, err
}

// Outcome returns the record without its artifacts.
func (p Record) Outcome() (record string, err error) {
	return text(func(w *writer) { w.post(&p, nil) })
}

// Whole returns the record with its artifacts in it.
func (p Record) Whole() (record string, err error) {
	return text(func(w *writer) { w.post(&p, p.Artifacts) })
}

// decode reads what Encode, Outcome or Whole has made. artifacts may be empty.
func decode(record, artifacts []byte) (p Record, err error) {
	if err = json.Unmarshal(record, &p); err == nil && len(artifacts) > 0 {
		err = json.Unmarshal(artifacts, &p.Artifacts)
	}
	return p, err
}

// writer writes JSON.
type writer struct {
	b   []byte
	err error
}

var writers = sync.Pool{New: func() any { return new(writer) }}

// text returns what write has written.
func text(write func(*writer)) (text string, err error) {
	err = lend(write, func(b []byte) error {
		text = string(b)
		return nil
	})
	return text, err
}

// lend calls use with what write has written, which is written over when use has returned.
func lend(write func(*writer), use func([]byte) error) error {
	w := writers.Get().(*writer)
	defer writers.Put(w)
	w.b, w.err = w.b[:0], nil
	if write(w); w.err != nil {
		return Unavailable("write the record", w.err)
	}
	return use(w.b)
}

// post writes a record with these artifacts. Members that are empty are left out, as the tags of Record say.
func (w *writer) post(p *Record, artifacts []Artifact) {
	w.open('{')
	w.text("id", p.ID)
	w.text("flow", p.Flow)
	w.text("state", string(p.State))
	w.some("session", p.Session)
	w.some("event", p.Event)
	w.some("rule", p.Rule)
	w.some("subject", p.Subject)
	w.some("action", p.Action)
	w.some("resource", p.Resource)
	w.some("method", p.Method)
	w.some("host", p.Host)
	w.some("path", p.Path)
	w.some("contentHash", p.ContentHash)
	w.some("bindingHash", p.BindingHash)
	w.some("capabilityId", p.CapabilityID)
	w.time("started", p.Started)
	if !p.Finished.IsZero() {
		w.time("finished", p.Finished)
	}
	w.some("manifest", p.Manifest)
	w.some("code", p.Code)
	w.some("step", p.Step)
	w.some("reason", p.Reason)
	w.number("status", int64(p.Status))
	w.number("bytesOut", p.BytesOut)
	w.number("bytesIn", p.BytesIn)
	if len(artifacts) > 0 {
		w.name("artifacts")
		w.artifacts(artifacts)
	}
	list(w, "checks", p.Checks, func(c *Check) {
		w.text("name", c.Name)
		w.name("ok")
		w.b = strconv.AppendBool(w.b, c.OK)
		w.some("code", c.Code)
		w.some("detail", c.Detail)
	})
	list(w, "steps", p.Steps, func(s *Step) {
		w.text("name", s.Name)
		w.name("micros")
		w.b = strconv.AppendInt(w.b, s.Micros, 10)
	})
	w.close('}')
}

func (w *writer) artifacts(all []Artifact) {
	if len(all) == 0 {
		return
	}
	elements(w, all, func(a *Artifact) {
		w.text("name", a.Name)
		w.text("token", a.Token)
	})
}

// list writes a member that is a list of objects, unless it is empty.
func list[E any](w *writer, name string, all []E, members func(*E)) {
	if len(all) > 0 {
		w.name(name)
		elements(w, all, members)
	}
}

func elements[E any](w *writer, all []E, members func(*E)) {
	w.open('[')
	for i := range all {
		w.separate()
		w.open('{')
		members(&all[i])
		w.close('}')
	}
	w.close(']')
}

func (w *writer) open(c byte)  { w.b = append(w.b, c) }
func (w *writer) close(c byte) { w.b = append(w.b, c) }

// separate writes a comma, unless what follows is the first of its object or list.
func (w *writer) separate() {
	if last := len(w.b) - 1; w.b[last] != '{' && w.b[last] != '[' {
		w.b = append(w.b, ',')
	}
}

func (w *writer) name(name string) {
	w.separate()
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

func (w *writer) text(name, text string) {
	w.name(name)
	w.b, _ = jsontext.AppendQuote(w.b, text) // what is no UTF-8 becomes U+FFFD, as with encoding/json
}

// some writes a text that is not empty.
func (w *writer) some(name, text string) {
	if text != "" {
		w.text(name, text)
	}
}

// number writes a number that is not 0.
func (w *writer) number(name string, n int64) {
	if n != 0 {
		w.name(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

func (w *writer) time(name string, t time.Time) {
	w.name(name)
	w.open('"')
	b, err := t.AppendText(w.b)
	if err != nil {
		w.err = err
		return
	}
	w.b = append(b, '"')
}

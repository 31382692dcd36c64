package vaultaudit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"
)

// maxLine bounds a line of the log, in bytes. A request of 128 signatures, the most of one process, has 60 KiB.
const maxLine = 4 << 20

// Log is one file of Vault's audit log.
type Log struct {
	Name string // for messages
	From io.Reader
}

// Logs reads audit logs.
type Logs struct {
	Files []Log
	Mount string                // of the Transit engine
	Keys  map[string]bool       // the names of the compared keys
	Note  func(sentence string) // gets warnings

	inRange   func(at time.Time) bool // whether a signature is counted; nil counts all
	otherKeys int
}

// entry has the members of every line. The others depend on the path, and a plugin can choose any form.
type entry struct {
	Type    string    `json:"type"`
	Time    time.Time `json:"time"`
	Request struct {
		Path string `json:"path"`
	} `json:"request"`
}

// answer is the line of an answer to a request for signatures. Vault never wraps an error.
type answer struct {
	Error string `json:"error"`
	Auth  struct {
		DisplayName string `json:"display_name"`
	} `json:"auth"`
	Request struct {
		ID     string `json:"id"`
		Remote string `json:"remote_address"`
	} `json:"request"`
	Response struct {
		Wrapped *struct{} `json:"wrap_info"`
		Data    struct {
			signed
			Batch []signed        `json:"batch_results"`
			Error json.RawMessage `json:"error"`
		} `json:"data"`
	} `json:"response"`
}

// signed is one signature of an answer. An item of a batch that was not signed has no version.
type signed struct {
	Signature string `json:"signature"`
	Version   int    `json:"key_version"`
}

// Signatures yields the signatures of the keys from all files, in the order of time. An error comes last.
func (l *Logs) Signatures() iter.Seq2[Entry, error] {
	var all []iter.Seq2[Entry, error]
	for _, f := range l.Files {
		all = append(all, l.file(f, l.signatures))
	}
	return merged(all...)
}

// merged yields what several streams yield in the order of time, in this order; of two at the same time, that of the
// earlier stream comes first. An error comes last.
func merged(streams ...iter.Seq2[Entry, error]) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		heads := make([]head, len(streams))
		for i, s := range streams {
			next, stop := iter.Pull2(s)
			defer stop()
			heads[i].next = next
			if heads[i].advance(); heads[i].err != nil { // the next stream can depend on this one
				yield(Entry{}, heads[i].err)
				return
			}
		}
		for {
			var first *head
			for i := range heads {
				h := &heads[i]
				if h.more && (first == nil || h.err != nil || h.s.Time.Before(first.s.Time) && first.err == nil) {
					first = h
				}
			}
			if first == nil || !yield(first.s, first.err) || first.err != nil {
				return
			}
			first.advance()
		}
	}
}

type head struct {
	next func() (Entry, error, bool)
	s    Entry
	err  error
	more bool
}

func (h *head) advance() { h.s, h.err, h.more = h.next() }

// Rotations yields the key rotations that Vault carried out, one file after the other. An error comes last.
func (l *Logs) Rotations() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for _, f := range l.Files {
			for s, err := range l.file(f, l.rotation) {
				if !yield(s, err) || err != nil {
					return
				}
			}
		}
	}
}

func (l *Logs) rotation(line []byte) ([]Entry, error) {
	e, err := parseEntry(line)
	name, ok := strings.CutPrefix(e.Request.Path, l.Mount+"/keys/")
	name, rotates := strings.CutSuffix(name, "/rotate")
	if err != nil || !ok || !rotates || e.Type != "response" {
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, errors.New("the answer to a request to rotate a key does not have Vault's form")
	}
	if a.Error != "" || a.Response.Data.Error != nil {
		return nil, nil
	}
	return []Entry{a.entry(e.Time, name)}, nil
}

// file notes a last line without an end, and leaves it out: Vault may still be writing it.
func (l *Logs) file(f Log, read func(line []byte) ([]Entry, error)) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := bufio.NewReaderSize(f.From, 64<<10)
		for n := 1; ; n++ {
			line, whole, err := readLine(in)
			switch {
			case err != nil:
				yield(Entry{}, fmt.Errorf("%s, line %d: %w", f.Name, n, err))
				return
			case !whole && len(line) == 0:
				return
			}
			found, err := read(line)
			if err != nil && !whole {
				l.Note(fmt.Sprintf("%s: the last line has no end, and was left out", f.Name))
				return
			}
			if err != nil {
				yield(Entry{}, fmt.Errorf("%s, line %d: %w", f.Name, n, err))
				return
			}
			for _, s := range found {
				if !yield(s, nil) {
					return
				}
			}
		}
	}
}

func readLine(in *bufio.Reader) (line []byte, whole bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, false, fmt.Errorf("it is longer than %d bytes", maxLine)
		case err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), true, nil
		case errors.Is(err, io.EOF):
			return line, false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, false, err
		}
	}
}

func parseEntry(line []byte) (e entry, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, errors.New("this is not an entry of an audit log in JSON")
	}
	if e.Type == "" || e.Time.IsZero() {
		return e, errors.New("an entry of Vault's audit log must have a type and a time")
	}
	return e, nil
}

func (l *Logs) signatures(line []byte) ([]Entry, error) {
	e, err := parseEntry(line)
	if err != nil {
		return nil, err
	}
	what, ok := strings.CutPrefix(e.Request.Path, l.Mount+"/sign/")
	if !ok || e.Type != "response" {
		return nil, nil
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, errors.New("the answer to a request for signatures does not have Vault's form")
	}
	name, _, _ := strings.Cut(what, "/") // a hash algorithm can follow
	made := a.Response.Data.Batch
	switch {
	case len(made) > 0:
	case a.Response.Data.Signature != "":
		made = []signed{a.Response.Data.signed}
	default:
		return l.hidden(e.Time, name, a), nil
	}
	var out []Entry
	for i, m := range made {
		switch {
		case m.Version == 0 && len(a.Response.Data.Batch) > 0:
			continue // not signed
		case m.Version < 1 || m.Signature == "":
			return nil, errors.New("a signature has no version")
		case !l.Keys[name]:
			l.countOther(e.Time)
			continue
		}
		s := a.entry(e.Time, fmt.Sprintf("%s:v%d", name, m.Version))
		s.Value, s.Item = m.Signature, i
		out = append(out, s)
	}
	return out, nil
}

func (a answer) entry(at time.Time, key string) Entry {
	return Entry{Difference: Difference{Only: OnlyVault, Time: at, Key: key, Request: a.Request.ID,
		By: a.Auth.DisplayName, Remote: a.Request.Remote}}
}

// hidden returns one entry for an answer that shows neither a signature nor an error: Vault gave out the signature
// nevertheless.
func (l *Logs) hidden(at time.Time, key string, a answer) []Entry {
	s := a.entry(at, key)
	s.Hidden = HiddenLeftOut
	switch {
	case a.Error != "":
		return nil
	case a.Response.Wrapped != nil:
		s.Hidden = HiddenWrapped
	case a.Response.Data.Error != nil:
		return nil
	}
	if !l.Keys[key] {
		l.countOther(at)
		return nil
	}
	return []Entry{s}
}

func (l *Logs) countOther(at time.Time) {
	if l.inRange == nil || l.inRange(at) {
		l.otherKeys++
	}
}

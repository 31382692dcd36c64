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

// maxLine bounds a line of the log, in bytes. A request of 128 signatures, the most that a process asks for, has 60 KiB.
const maxLine = 4 << 20

// Log is one file of Vault's audit log.
type Log struct {
	Name string // for messages
	From io.Reader
}

// Logs reads what Vault has logged.
type Logs struct {
	Files []Log
	Mount string          // of the Transit engine
	Keys  map[string]bool // the names of the keys that are compared
	// Note is told of what does not end the reading.
	Note func(sentence string)

	otherKeys int
}

// entry is what is read of a line.
type entry struct {
	Type  string    `json:"type"`
	Time  time.Time `json:"time"`
	Error string    `json:"error"`
	Auth  struct {
		DisplayName string `json:"display_name"`
	} `json:"auth"`
	Request struct {
		ID     string `json:"id"`
		Path   string `json:"path"`
		Remote string `json:"remote_address"`
	} `json:"request"`
	Response struct {
		Data struct {
			signed
			Batch []signed `json:"batch_results"`
		} `json:"data"`
	} `json:"response"`
}

// signed is what the answer to one signature holds. Of a batch, each item has all members; one that was not signed has no
// version.
type signed struct {
	Signature string `json:"signature"`
	Version   int    `json:"key_version"`
}

// Signatures yields the signatures of the keys, of all files in the order of time. An error is the last thing that it
// yields. A signature is in the log before Vault gives it to anybody.
func (l *Logs) Signatures() iter.Seq2[Signature, error] {
	return func(yield func(Signature, error) bool) {
		heads := make([]*head, len(l.Files))
		for i, f := range l.Files {
			next, stop := iter.Pull2(l.file(f))
			defer stop()
			heads[i] = &head{next: next}
			heads[i].advance()
		}
		for {
			var first *head
			for _, h := range heads {
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

// head is the next signature of a file.
type head struct {
	next func() (Signature, error, bool)
	s    Signature
	err  error
	more bool
}

func (h *head) advance() { h.s, h.err, h.more = h.next() }

// file yields the signatures of one file. A last line without an end is being written, or was cut off; it is left out with
// a note.
func (l *Logs) file(f Log) iter.Seq2[Signature, error] {
	return func(yield func(Signature, error) bool) {
		in := bufio.NewReaderSize(f.From, 64<<10)
		for n := 1; ; n++ {
			line, whole, err := readLine(in)
			switch {
			case err != nil:
				yield(Signature{}, fmt.Errorf("%s, line %d: %w", f.Name, n, err))
				return
			case !whole && len(line) == 0:
				return
			}
			found, err := l.signatures(line)
			if err != nil && !whole {
				l.Note(fmt.Sprintf("%s: the last line has no end, and was left out", f.Name))
				return
			}
			if err != nil {
				yield(Signature{}, fmt.Errorf("%s, line %d: %w", f.Name, n, err))
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

// readLine reads a line without its end; whole is false for what stands behind the last end of line.
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

// signatures returns the signatures that one line shows. Only the answer to a request shows which were made.
func (l *Logs) signatures(line []byte) ([]Signature, error) {
	var e entry
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, errors.New("this is no entry of an audit log in JSON")
	}
	if e.Type == "" || e.Time.IsZero() {
		return nil, errors.New("an entry of Vault's audit log has a type and a time")
	}
	what, ok := strings.CutPrefix(e.Request.Path, l.Mount+"/sign/")
	if !ok || e.Type != "response" {
		return nil, nil
	}
	name, _, _ := strings.Cut(what, "/") // a hash algorithm can follow
	made := e.Response.Data.Batch
	if made == nil && e.Response.Data.Signature != "" {
		made = []signed{e.Response.Data.signed}
	}
	var out []Signature
	for i, m := range made {
		switch {
		case m.Version == 0 && e.Response.Data.Batch != nil:
			continue // not signed
		case m.Version < 1 || m.Signature == "":
			return nil, errors.New("a signature has no version")
		case !l.Keys[name]:
			l.otherKeys++
			continue
		}
		out = append(out, Signature{
			Time: e.Time, Key: fmt.Sprintf("%s:v%d", name, m.Version), Value: m.Signature, Request: e.Request.ID, Item: i, By: e.Auth.DisplayName, Remote: e.Request.Remote,
		})
	}
	return out, nil
}

// Package leaf has the entries of the transparency log. An [Entry] is public. It commits, by a hash over a random salt,
// to a [Document] that names a post, a session or the trusted keys. An [Opening] shows both: without it, an entry tells
// only its kind, its time, and which outcome belongs to which intent.
package leaf

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/ledger"
)

// Kind is what happened.
type Kind string

const (
	SessionOpened Kind = "session-opened"
	Intent        Kind = "intent" // durable before the post's first byte goes out
	Outcome       Kind = "outcome"
	SessionClosed Kind = "session-closed"
	Trust         Kind = "trust" // the trust bundle and the manifest that apply from now on
	Heartbeat     Kind = "heartbeat"
)

// Kinds are all kinds.
var Kinds = [...]Kind{SessionOpened, Intent, Outcome, SessionClosed, Trust, Heartbeat}

// Ended returns the kind whose end k is, or nothing.
func (k Kind) Ended() Kind {
	switch k {
	case Outcome:
		return Intent
	case SessionClosed:
		return SessionOpened
	}
	return ""
}

const (
	// MaxEntry and MaxOpening bound the encoded forms, in bytes.
	MaxEntry, MaxOpening = 512, 8 << 10
	saltSize             = 32
	maxTime              = 253_402_300_800_000 // the year 10000: JSON has no later times
)

// Entry is what the log holds. Its encoded form is RFC 8785 canonical JSON.
type Entry struct {
	Commitment string `json:"commitment"` // SHA-256 over salt and document, lowercase hex
	Kind       Kind   `json:"kind"`
	// Of is the SHA-256 of the id of the post or session, in hex; [Trust] and [Heartbeat] have none. An intent and its
	// outcome, and a session's beginning and end, have the same, so anyone sees one without the other.
	Of   string `json:"of,omitempty"`
	Time int64  `json:"time"` // when it was stored: Unix milliseconds
}

// Document is what an entry commits to. It holds no content.
type Document struct {
	Bundle       string `json:"bundle,omitempty"` // SHA-256 of the trust bundle
	Code         string `json:"code,omitempty"`   // of an outcome that failed
	Manifest     string `json:"manifest,omitempty"`
	Post         string `json:"post,omitempty"`
	Record       string `json:"record,omitempty"`       // hash of the post's record: see [Opening.CheckRecord]
	RequestProof string `json:"requestProof,omitempty"` // SHA-256 of the whole token that the API got
	Session      string `json:"session,omitempty"`
	State        string `json:"state,omitempty"` // of an outcome
	Status       int    `json:"status,omitempty"`
}

// Opening shows what an entry commits to.
type Opening struct {
	Document Document `json:"document"`
	Entry    Entry    `json:"entry"`
	Salt     string   `json:"salt"` // lowercase hex
}

// New makes the entry of what happened at now, with a fresh salt.
func New(kind Kind, now time.Time, d Document) Opening {
	var salt [saltSize]byte
	_, _ = rand.Read(salt[:]) // never fails
	o := Opening{Document: d, Salt: hex.EncodeToString(salt[:]),
		Entry: Entry{Kind: kind, Of: d.of(kind), Time: now.UnixMilli()}}
	o.Entry.Commitment = commit(salt[:], d)
	return o
}

func commit(salt []byte, d Document) string {
	sum := sha256.Sum256(d.appendTo(append(make([]byte, 0, 512), salt...)))
	return hex.EncodeToString(sum[:])
}

func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (d Document) of(kind Kind) string {
	switch kind {
	case Intent, Outcome:
		return hash([]byte(d.Post))
	case SessionOpened, SessionClosed:
		return hash([]byte(d.Session))
	}
	return ""
}

// Leaf returns the entry as the ledger stores it. name is the id of the post or session, or makes the id of another
// entry unique: the ledger takes each id once.
func (o Opening) Leaf(name string) ledger.Leaf {
	return ledger.Leaf{ID: ID(o.Entry.Kind, name), Entry: string(o.Entry.Encode()), Opening: string(o.Encode()),
		Made: o.Entry.Time}
}

// ID returns the id of the entry of this kind for a post or session.
func ID(kind Kind, name string) string { return string(kind) + " " + name }

// Is reports whether the entry is the one with this id.
func (e Entry) Is(id string) bool {
	kind, name, _ := strings.Cut(id, " ")
	return string(e.Kind) == kind && (e.Of == "" || e.Of == hash([]byte(name)))
}

// Encode returns the canonical form. It is written by hand because every post needs two.
func (e Entry) Encode() []byte { return e.appendTo(make([]byte, 0, 256)) }

func (e Entry) appendTo(b []byte) []byte {
	b = append(strictjson.AppendText(append(b, `{"commitment":`...), e.Commitment), `,"kind":`...)
	b = strictjson.AppendText(b, string(e.Kind))
	if e.Of != "" {
		b = strictjson.AppendText(append(b, `,"of":`...), e.Of)
	}
	return append(strconv.AppendInt(append(b, `,"time":`...), e.Time, 10), '}')
}

func (d Document) appendTo(b []byte) []byte {
	begin := len(b) + 1
	next := func(name string) {
		if len(b) > begin {
			b = append(b, ',')
		}
		b = append(strictjson.AppendText(b, name), ':')
	}
	b = append(b, '{')
	for _, m := range [...]struct{ name, text string }{
		{"bundle", d.Bundle}, {"code", d.Code}, {"manifest", d.Manifest}, {"post", d.Post}, {"record", d.Record},
		{"requestProof", d.RequestProof}, {"session", d.Session}, {"state", d.State},
	} {
		if m.text != "" {
			next(m.name)
			b = strictjson.AppendText(b, strings.ToValidUTF8(m.text, "\uFFFD"))
		}
	}
	if d.Status != 0 {
		next("status")
		b = strconv.AppendInt(b, int64(d.Status), 10)
	}
	return append(b, '}')
}

// Encode returns the canonical form.
func (o Opening) Encode() []byte {
	b := o.Document.appendTo(append(make([]byte, 0, 1024), `{"document":`...))
	b = o.Entry.appendTo(append(b, `,"entry":`...))
	return append(strictjson.AppendText(append(b, `,"salt":`...), o.Salt), '}')
}

// Parse reads an entry, and refuses everything that [Entry.Encode] would not write.
func Parse(raw []byte) (e Entry, err error) {
	if err := strictjson.ParseCanonical(raw, &e, MaxEntry); err != nil {
		return e, malformed("an entry of the log: %v", err)
	}
	return e, e.check()
}

func (e Entry) check() error {
	paired := e.Kind == SessionOpened || e.Kind == Intent || e.Kind == Outcome || e.Kind == SessionClosed
	switch {
	case !paired && e.Kind != Trust && e.Kind != Heartbeat:
		return malformed("an entry of the log has the unknown kind %.40q", e.Kind)
	case !isHash(e.Commitment), paired != (e.Of != ""), paired && !isHash(e.Of):
		return malformed("an entry of the log lacks a hash, or has one too many")
	case e.Time < 0 || e.Time >= maxTime:
		return malformed("an entry of the log was stored before 1970 or after 9999")
	}
	return nil
}

// Open reads an opening and checks that its entry commits to its document.
func Open(raw []byte) (o Opening, err error) {
	if err := strictjson.ParseCanonical(raw, &o, MaxOpening); err != nil {
		return o, malformed("the opening of a log's entry: %v", err)
	}
	if err := o.Entry.check(); err != nil {
		return o, err
	}
	salt, err := hex.DecodeString(o.Salt)
	if err != nil || len(salt) != saltSize || o.Salt != strings.ToLower(o.Salt) {
		return o, malformed("the salt of a log's entry is not %d bytes of lowercase hex", saltSize)
	}
	if commit(salt, o.Document) != o.Entry.Commitment || o.Document.of(o.Entry.Kind) != o.Entry.Of {
		return o, refusal.New("record_mismatch",
			"the opening's document is not the one to which the log's entry commits")
	}
	return o, nil
}

func malformed(format string, args ...any) error {
	return refusal.New("evidence_malformed", format, args...)
}

func isHash(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

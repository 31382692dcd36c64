package dispute

import (
	"bytes"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strictjson"
	"github.com/actionproof/mediator/reputation/accrual"
)

// MaxSize bounds a whole document, in bytes. The JSON Schemas say the same as the tags of the members.
const MaxSize = 64 << 10

// MaxAge bounds the distance of a document's time from the node's clock, so that copies cannot be used later.
const MaxAge = 5 * time.Minute

// Horizons of signals: they set how long a signal can be disputed.
const (
	HorizonShort = "short"
	HorizonLong  = "long"
)

// Types of disputes (seed: challenge_type). Receipts decide the first three, an arbiter the last.
const (
	TypeTiming      = "timing"
	TypeKnowledge   = "knowledge"
	TypeConsistency = "consistency"
	TypeGeneral     = "general"
	// TypeAppeal is the type of a challenge that appeals against the end of a general dispute.
	TypeAppeal = "appeal"
)

// Signal is a statement that an agent publishes and that others may dispute.
type Signal struct {
	SignalID  string   `json:"signal_id" form:"id"`
	AgentID   string   `json:"agent_id" form:"agent"`
	Statement string   `json:"statement" form:"text:4096"`
	Horizon   string   `json:"horizon" form:"short|long"`
	Timestamp int64    `json:"timestamp" form:"time"` // Unix seconds, by the agent's clock
	RestsOn   *RestsOn `json:"rests_on,omitempty"`
	Signature string   `json:"signature,omitempty" form:"text:16384"` // a sidecar's is a token
}

// RestsOn names the evidence of a signal: receipts, or the record of a post.
type RestsOn struct {
	Receipts []string `json:"receipts,omitempty" form:"hash most:64"`
	Record   string   `json:"record,omitempty" form:"hash"`
}

// Contract disputes a signal (seed 002: Challenge Contract). Its default type is general, and its default receipts are
// those of the signal.
type Contract struct {
	ChallengeID       string   `json:"challenge_id" form:"id"`
	OriginalSignalID  string   `json:"original_signal_id" form:"id"`
	ChallengerAgentID string   `json:"challenger_agent_id" form:"agent"`
	CounterClaim      string   `json:"counter_claim" form:"text:4096"`
	ReasoningTrace    string   `json:"reasoning_trace" form:"text:16384"`
	Timestamp         int64    `json:"timestamp" form:"time"` // Unix seconds, by the agent's clock
	Signature         string   `json:"signature,omitempty" form:"text:16384"`
	ChallengeType     string   `json:"challenge_type,omitempty" form:"timing|knowledge|consistency|general"`
	TargetReceipts    []string `json:"target_receipts,omitempty" form:"hash most:64"`
}

// Challenge disputes an agent's receipts (seed 003: Challenge). An agent that signs for itself must give a timestamp.
type Challenge struct {
	ChallengerID   string   `json:"challenger_id" form:"agent"`
	TargetID       string   `json:"target_id" form:"agent"`
	TargetReceipts []string `json:"target_receipts" form:"hash most:64"`
	ChallengeType  string   `json:"challenge_type" form:"timing|knowledge|consistency|general|appeal"`
	Evidence       string   `json:"evidence,omitempty" form:"text:16384"`
	Timestamp      int64    `json:"timestamp,omitempty" form:"time"` // Unix seconds, by the agent's clock
	Signature      string   `json:"signature,omitempty" form:"text:16384"`
}

// Document is a document written by an agent.
type Document interface{ parts() parts }

type parts struct {
	author    string
	written   int64 // Unix seconds, or 0
	signature string
	unsigned  any
}

// Check is for [accrual.CheckForm], like that of a challenge.
func (s Signal) Check() error {
	if on := s.RestsOn; on != nil && (len(on.Receipts) == 0) == (on.Record == "") {
		return errors.New("it must rest on either receipts or one record")
	}
	return nil
}

func (c Challenge) Check() error {
	switch {
	case len(c.TargetReceipts) == 0:
		return errors.New("it names no target_receipts")
	case c.ChallengeType == TypeAppeal && len(c.TargetReceipts) > 1:
		return errors.New("it appeals against more than one dispute")
	}
	return nil
}

func checkDocument(d Document) error {
	if err := accrual.CheckForm(d); err != nil {
		return malformed("is malformed: %w", err)
	}
	return nil
}

func (s Signal) parts() parts    { return partsOf(s.AgentID, s.Timestamp, &s.Signature, &s) }
func (c Contract) parts() parts  { return partsOf(c.ChallengerAgentID, c.Timestamp, &c.Signature, &c) }
func (c Challenge) parts() parts { return partsOf(c.ChallengerID, c.Timestamp, &c.Signature, &c) }

// partsOf takes the signature out of a copy of a document.
func partsOf(author string, written int64, signature *string, unsigned any) parts {
	p := parts{author, written, *signature, unsigned}
	*signature = ""
	return p
}

// Author returns the id of the agent that wrote a document.
func Author(d Document) string { return d.parts().author }

// HashOf returns the SHA-256 of a document's canonical JSON without its signature: its name, and what sidecars sign.
func HashOf(d Document) (string, error) {
	return evidence.HashValue(d.parts().unsigned)
}

// Unsigned returns the text that an agent signs: the document's canonical JSON without its signature.
func Unsigned(d Document) ([]byte, error) {
	return strictjson.CanonicalOf(d.parts().unsigned)
}

// VerifyOwn verifies an agent's own signature: base64url of Ed25519 over [Unsigned], by the key in its did:key.
func VerifyOwn(d Document) error {
	p := d.parts()
	agent, err := accrual.ParseAgent(p.author)
	if err != nil {
		return malformed("names no agent: %v", err)
	}
	key, ok := agent.Key()
	if !ok {
		return refusal.New("statement_signature", "the agent %.300q has an owner, so its sidecar must send a statement",
			agent)
	}
	if p.written == 0 {
		return malformed("has no timestamp, which an agent without a sidecar must give")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(p.signature)
	text, hashed := Unsigned(d)
	if err != nil || hashed != nil || len(raw) != ed25519.SignatureSize || !ed25519.Verify(key, text, raw) {
		return refusal.New("statement_signature",
			"the signature does not match the key of %.80q and the document's canonical JSON",
			agent)
	}
	return nil
}

// fresh refuses a document whose time is too far from the node's clock.
func fresh(d Document, now time.Time) error {
	written := d.parts().written
	if written == 0 {
		return nil
	}
	if off(now.Unix(), written) > seconds(MaxAge) {
		return refusal.New("clock_skew",
			"the document's timestamp differs from the node's clock by %d s; at most %d s are allowed",
			now.Unix()-written, seconds(MaxAge))
	}
	return nil
}

// ParseSignal reads a signal. It refuses any deviation from the form as statement_malformed.
func ParseSignal(raw []byte) (Signal, error) { return parse[Signal](raw) }

// Filing opens a dispute: it is a contract or a challenge.
type Filing struct {
	Contract  *Contract
	Challenge *Challenge
}

// ParseFiling reads a contract, if a signal is named, or a challenge. It refuses any deviation from the form.
func ParseFiling(raw []byte) (Filing, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return Filing{}, malformed("is not a JSON object: %v", err)
	}
	if _, ok := members["original_signal_id"]; ok {
		c, err := parse[Contract](raw)
		return Filing{Contract: &c}, err
	}
	c, err := parse[Challenge](raw)
	return Filing{Challenge: &c}, err
}

// Document returns the contract or the challenge, or nil.
func (f Filing) Document() Document {
	switch {
	case f.Contract != nil:
		return *f.Contract
	case f.Challenge != nil:
		return *f.Challenge
	}
	return nil
}

// Type returns the type of the dispute.
func (f Filing) Type() string {
	switch {
	case f.Contract == nil:
		return f.Challenge.ChallengeType
	case f.Contract.ChallengeType == "":
		return TypeGeneral
	}
	return f.Contract.ChallengeType
}

func malformed(format string, args ...any) error {
	return refusal.New("statement_malformed", "the document "+format, args...)
}

// parse reads a document. Its text must have the canonical form of its value; otherwise its hash would be ambiguous.
func parse[D Document](raw []byte) (none D, err error) {
	var d D
	if len(raw) > MaxSize {
		return none, malformed("has %d bytes; at most %d are accepted", len(raw), MaxSize)
	}
	if err := strictjson.Parse(raw, &d); err != nil {
		return none, malformed("does not have the required form: %w", err)
	}
	if err := checkDocument(d); err != nil {
		return none, err
	}
	want, err := strictjson.Canonical(raw)
	if got, invalid := strictjson.CanonicalOf(d); err != nil || invalid != nil || !bytes.Equal(got, want) {
		return none, malformed("has a member that is null or empty: omit it")
	}
	return d, nil
}

//go:embed schemas/*.json
var schemas embed.FS

// Schema returns the JSON Schema (2020-12) of a signal, contract or challenge. The parsers also check what no schema
// can: that an agent's key is a curve point, that a text is canonical, and [MaxSize].
func Schema(name string) ([]byte, bool) {
	raw, err := schemas.ReadFile("schemas/" + name + ".json")
	return raw, err == nil
}

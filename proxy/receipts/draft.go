package receipts

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/inference"
)

// Each use of the session's key has its own domain.
func (c *Chain) mac(domain string, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, c.key[:])
	mac.Write([]byte(domain + "\x00"))
	for _, p := range parts {
		mac.Write(p)
	}
	return mac.Sum(nil)
}

type tag [16]byte

func (t tag) String() string { return hex.EncodeToString(t[:]) }

func (c *Chain) tagOf(domain, text string) tag { return tag(c.mac(domain, []byte(text))[:16]) }

func (c *Chain) commit(id, name string, value any) string {
	salt := interaction.Salt(c.mac("salt", []byte(id), []byte{0}, []byte(name))[:16])
	hash, err := interaction.Commit(salt, value)
	if err != nil { // if the name is not UTF-8
		hash, _ = interaction.Commit(salt, nil)
	}
	return hash
}

// base returns the claims that all receipts have, except commitments. The caller holds c.mu.
func (c *Chain) base(id, action, manifest string, received time.Time) interaction.Receipt {
	return interaction.Receipt{
		RequestID: id, ActionType: action, PolicyID: manifest,
		OutputCleanHash:     hex.EncodeToString(c.mac("clean")),
		OutputTransportHash: hex.EncodeToString(c.mac("transport")),
		Timing:              interaction.Timing{RequestReceived: received.UnixMilli()},
		Owner:               c.keeper.o.Owner, Agent: c.keeper.o.Agent, RuntimeID: c.keeper.o.Runtime, EventID: c.event,
		Outcome: interaction.OutcomeCompleted,
		Session: c.counted(), Probabilistic: true,
	}
}

// end is the session's end, which gets a receipt like a call. The caller holds c.mu.
func (c *Chain) end() *Call {
	claims := c.base(c.session, interaction.ActionGeneric, c.policy, c.keeper.o.Now())
	claims.Challenge = c.challenge.ref
	for name, to := range map[string]*string{"inputs": &claims.InputsCommitment,
		"constraints": &claims.ConstraintsCommitment, "llm": &claims.LLMCommitment} {
		*to = c.commit(c.session, name, nil)
	}
	return &Call{chain: c, id: c.session, claims: claims}
}

// ModelRequest describes a model call about to be sent.
type ModelRequest struct {
	Record ledger.Record // with id, host, manifest and start
	// sent before the agent had an earlier answer: see [intercept.CameAhead]
	Ahead   bool
	Rule    string // the egress rule
	Probe   string // the id of its probe, or ""
	Request *inference.Request
	Body    []byte // as sent
}

// Until a model call is sent or dropped, no other call of the session has a turnaround.
func (k *Keeper) Model(c *Chain, q ModelRequest) *Call {
	if k == nil {
		return nil
	}
	k.begin(c)
	sum := sha256.Sum256(q.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	r := q.Record
	call := c.draft(r, interaction.ActionGeneric, sum[:], q.Rule, q.Request.Hosted,
		map[string]string{"api": string(q.Request.Dialect), "host": r.Host, "model": q.Request.Model})
	hosted := clip(q.Request.Hosted, interaction.MaxHosted)
	model := &interaction.ModelCall{
		API: string(q.Request.Dialect), Host: clipHost(r.Host), Rule: clipText(q.Rule, maxText), Model: q.Request.Model,
		HostedTools: hosted, UnknownMembers: clip(q.Request.Unknown, interaction.MaxHosted-len(hosted)),
	}
	if q.Probe != "" {
		model.Probe = &interaction.Probe{ID: q.Probe}
	}
	call.claims.Model = model
	c.memory.asked(c, q, k.o.Now(), model)
	if c.memory.asking == nil {
		c.memory.asking = make(map[*Call]bool)
	}
	c.memory.asking[call] = true
	return call
}

// draft is a call about to be sent. inputs is its body's hash; llm describes the model. The caller holds c.mu.
func (c *Chain) draft(r ledger.Record, action string, inputs []byte, rule string, hosted []string, llm any) *Call {
	c.policy = r.Manifest
	claims := c.base(r.ID, action, r.Manifest, r.Started)
	claims.InputsCommitment = c.commit(r.ID, "inputs", hex.EncodeToString(inputs))
	claims.ConstraintsCommitment = c.commit(r.ID, "constraints", map[string]any{"rule": rule, "hosted": hosted})
	claims.LLMCommitment = c.commit(r.ID, "llm", llm)
	return &Call{chain: c, id: r.ID, started: r.Started, claims: claims}
}

// PostRequest describes a post about to be sent.
type PostRequest struct {
	Record ledger.Record // with all members of the intent
	Body   io.Reader     // as sent
}

// A nil Keeper returns a nil Call and no error.
func (k *Keeper) Post(c *Chain, q PostRequest) (*Call, error) {
	if k == nil {
		return nil, nil
	}
	k.begin(c)
	sum, mac := sha256.New(), hmac.New(sha256.New, c.key[:])
	mac.Write([]byte("transport\x00"))
	if _, err := io.Copy(io.MultiWriter(sum, mac), q.Body); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := q.Record
	call := c.draft(r, interaction.ActionComposePost, sum.Sum(nil), r.Rule, []string{}, nil)
	claims := &call.claims
	claims.OutputCleanHash, claims.OutputTransportHash = r.ContentHash, hex.EncodeToString(mac.Sum(nil))
	claims.Post = &interaction.PostMade{BindingHash: r.BindingHash}
	for _, a := range clip(r.Artifacts, interaction.MaxNamed) {
		claims.Post.Artifacts = append(claims.Post.Artifacts,
			interaction.NamedArtifact{Name: a.Name, Hash: evidence.HashToken(a.Token)})
	}
	return call, nil
}

func clip[T any](s []T, n int) []T { return s[:min(len(s), n)] }

// maxText is in bytes. A longer text could not be signed, and would block the chain.
const maxText = 128

// The end of a host and port identifies its owner: an agent may choose any name below a rule's domain.
func clipHost(host string) string { return host[max(0, len(host)-maxText):] }

func clipText(s string, n int) string { return strings.ToValidUTF8(s[:min(len(s), n)], "") }

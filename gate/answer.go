package gate

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/ledger"
)

// AnswerTag is the tag, and AnswerComponents are the components, of an API's signature on its answer to a post (RFC
// 9421). Idempotency-Key is the capability's id.
const AnswerTag = "actionproof-answer"

// AnswerComponents returns the components. See [AnswerTag].
func AnswerComponents() []string {
	return []string{"@status", "content-digest", "@method;req", "@target-uri;req", "content-digest;req",
		"idempotency-key;req"}
}

// ReadAnswerKeys reads the public keys with which APIs sign their answers, from a PEM file.
func ReadAnswerKeys(path string) (httpsig.Keys, error) {
	raw, err := files.ReadUpTo(path, maxRoot)
	if err != nil {
		return nil, err
	}
	return httpsig.ParseKeys(raw)
}

const idempotencyKey = "Idempotency-Key"

// answering is the request that a signed answer names.
type answering struct {
	request *httpsig.Message
	now     func() time.Time
}

// answering returns nil if nothing is to be signed: without a key, or if the request does not name its content and
// capability. No mediator sent such a request, so the answer is not verified.
func (p *Protect) answering(r *http.Request, a Authorization, body []byte) (*answering, error) {
	digest, err := httpsig.ReadContentDigest(r.Header)
	named := slices.Equal(r.Header.Values(idempotencyKey), []string{a.Claims.ID})
	if p.Sign == nil || err != nil || digest != sha256.Sum256(body) || !named {
		return nil, nil
	}
	origin := p.Origin
	if origin == "" {
		origin = "https://" + r.Host
	}
	_, rest, _ := strings.Cut(p.Resource(r), " ")
	path, _, _ := strings.Cut(rest, " ")
	target, err := url.Parse(origin + path)
	if err != nil {
		return nil, errors.New("gate: the answer is not signed: its request's URL is ambiguous")
	}
	return &answering{&httpsig.Message{Method: r.Method, Target: target, Header: r.Header}, a.now}, nil
}

// sign signs an answer that is held, unless to is nil.
func (p *Protect) sign(h *heldAnswer, to *answering) error {
	if to == nil {
		return nil
	}
	h.header.Set("Content-Digest", httpsig.ContentDigest(sha256.Sum256(h.body.Bytes())))
	m := &httpsig.Message{Status: h.status(), Header: h.header, Request: to.request}
	return httpsig.Sign(m, "actionproof", AnswerComponents(), httpsig.Params{Created: to.now(), Tag: AnswerTag}, p.Sign)
}

// signed lets next answer, and signs what it has answered. An answer that is flushed, or larger than maxHeld, goes out
// unsigned, as it comes.
func (p *Protect) signed(w http.ResponseWriter, r *http.Request, next http.Handler, to *answering) {
	held := &signedAnswer{heldAnswer: heldAnswer{header: w.Header()}, to: w}
	next.ServeHTTP(held, r)
	if held.passing {
		return
	}
	p.finish(&held.heldAnswer, w, r, to)
}

// finish sends a held answer. The post is made: one that cannot be signed goes out unsigned.
func (p *Protect) finish(h *heldAnswer, w http.ResponseWriter, r *http.Request, to *answering) {
	if err := p.sign(h, to); err != nil && p.Refused != nil {
		p.Refused(r, err)
	}
	h.write(w)
}

type signedAnswer struct {
	heldAnswer
	to      http.ResponseWriter
	passing bool
}

func (a *signedAnswer) Write(p []byte) (int, error) {
	if !a.passing && a.body.Len()+len(p) > maxHeld {
		a.pass()
	}
	if a.passing {
		return a.to.Write(p)
	}
	return a.heldAnswer.Write(p)
}

// FlushError is for [http.ResponseController].
func (a *signedAnswer) FlushError() error {
	a.pass()
	return http.NewResponseController(a.to).Flush()
}

// Flush makes it an [http.Flusher].
func (a *signedAnswer) Flush() { _ = a.FlushError() }

// Unwrap is for [http.ResponseController].
func (a *signedAnswer) Unwrap() http.ResponseWriter { return a.to }

func (a *signedAnswer) pass() {
	if !a.passing {
		a.passing = true
		a.write(a.to)
	}
}

// The time between an answer and its signature, and the error of the API's clock.
const maxAnswerAge, maxAnswerSkew = time.Minute, 5 * time.Minute

// VerifyAnswer verifies an API's signature on its answer to a request, and returns it with the SHA-256 of the body,
// which is still to be compared. It refuses with answer_unsigned. Records keep what the signature covers: so out must
// have no credential in its URL, and the signature must cover nothing but [AnswerComponents].
func VerifyAnswer(out *http.Request, resp *http.Response, keys httpsig.Keys, now time.Time) (*ledger.Answer,
	[sha256.Size]byte, error) {
	digest, err := httpsig.ReadContentDigest(resp.Header)
	var s httpsig.Signed
	if err == nil {
		s, err = httpsig.Verify(&httpsig.Message{Status: resp.StatusCode, Header: resp.Header,
			Request: &httpsig.Message{Method: out.Method, Target: out.URL, Header: out.Header}},
			httpsig.Expected{Components: AnswerComponents(), Keys: keys, Tag: AnswerTag, Now: now, MaxAge: maxAnswerAge,
				Skew: maxAnswerSkew})
	}
	if err == nil && strings.Count(s.Base, "\n") != len(AnswerComponents()) { // a line each
		err = errors.New("the signature covers more than it must, and a record would keep that")
	}
	if err != nil {
		return nil, digest, refusal.New("answer_unsigned", "the API answered %d without its own signature on it",
			resp.StatusCode).ForOperator("%v", err)
	}
	return &ledger.Answer{Base: s.Base, Signature: s.Signature, KeyID: s.Params.KeyID, PublicKey: s.Key}, digest, nil
}

// CheckAnswer names, in the result of [VerifyRecord], the check of the API's signature on its answer.
const CheckAnswer = "API's answer"

// verifyAnswer verifies that the record's call is what the API has answered, and its status the answer. Whether the key
// is the API's is for the caller to judge.
func (c *recorded) verifyAnswer(context.Context) error {
	p, a := &c.post, c.post.Answer
	values, params, err := httpsig.Open(a.Base, a.Signature, ed25519.PublicKey(a.PublicKey))
	if err != nil {
		return refusal.New("record_mismatch", "the API's answer: %w", err)
	}
	// the end of an MCP result may be lost
	if p.State != ledger.StateForwarded && p.State != ledger.StateIndeterminate {
		return refusal.New("record_mismatch", "the API has answered, but the record says %.40s", p.State)
	}
	_, rest, _ := strings.Cut(p.Resource, " ")
	path, _, _ := strings.Cut(rest, " ")
	target, err := url.Parse(p.Scheme + "://" + p.Host + path)
	content, bad := hex.DecodeString(p.ContentHash)
	if err != nil || target.User != nil || bad != nil || len(content) != sha256.Size {
		return refusal.New("record_mismatch", "the record has an API's answer, but not the call that it answers")
	}
	m := &httpsig.Message{Status: p.Status, Request: &httpsig.Message{Method: p.Method, Target: target,
		Header: http.Header{"Content-Digest": {httpsig.ContentDigest([sha256.Size]byte(content))},
			idempotencyKey: {p.CapabilityID}}}}
	for _, name := range AnswerComponents() {
		want, err := m.Value(name)
		if name == "content-digest" {
			want, err = values[name], nil // the answer's body is not in the record
		}
		if got, ok := values[name]; err != nil || !ok || got != want {
			return refusal.New("record_mismatch", "the API's answer and the record differ in %s", name)
		}
	}
	earliest, latest := p.Started.Add(-maxAnswerSkew-maxAnswerAge), p.Finished.Add(maxAnswerSkew)
	if params.Tag != AnswerTag || params.KeyID != a.KeyID || params.Created.Before(earliest) ||
		params.Created.After(latest) {
		return refusal.New("record_mismatch", "the API's answer has another tag, key id or time than the record")
	}
	return nil
}

package archive_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/ledger"
)

// TestAnswered: an API's answer proves that the post was made, and nothing less, if a pinned key signed it for this
// host.
func TestAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.Clock.Advance(time.Minute)
	r := w.Post(t)
	r.Scheme, r.Host, r.Status, r.Finished = "https", "api.example:443", http.StatusCreated, w.Clock.Now()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	keys := httpsig.Keys{httpsig.KeyID(public): public}
	content, err := hex.DecodeString(r.ContentHash)
	must(t, err)
	m := &httpsig.Message{Status: r.Status,
		Header: http.Header{"Content-Digest": {httpsig.ContentDigest(sha256.Sum256(nil))}},
		Request: &httpsig.Message{Method: r.Method, Target: &url.URL{Scheme: r.Scheme, Host: r.Host, Path: r.Path},
			Header: http.Header{"Content-Digest": {httpsig.ContentDigest([sha256.Size]byte(content))},
				"Idempotency-Key": {r.CapabilityID}}}}
	must(t, httpsig.Sign(m, "api", gate.AnswerComponents(),
		httpsig.Params{Created: w.Clock.Now(), Tag: gate.AnswerTag}, private))
	s, err := httpsig.Verify(m, httpsig.Expected{Components: gate.AnswerComponents(), Keys: keys, Tag: gate.AnswerTag,
		Now: w.Clock.Now(), MaxAge: time.Minute, Skew: time.Minute})
	must(t, err)
	r.Answer = &ledger.Answer{Base: s.Base, Signature: s.Signature, KeyID: s.Params.KeyID, PublicKey: public}
	trust := w.read()
	trust.AnswerKeys = map[string]httpsig.Keys{"api.example": keys}
	for _, tt := range []struct {
		state   ledger.State
		refused string
		proven  bool
	}{
		{ledger.StateForwarded, "", true}, {ledger.StateIndeterminate, "", false},
		{ledger.StateFailed, "record_mismatch", false}, {ledger.StateRefused, "record_mismatch", false},
		{ledger.StateForwarding, "record_mismatch", false},
	} {
		r.State = tt.state
		v, err := trust.Verify(t.Context(), r, nil, w.Clock.Now())
		must(t, err)
		proven := v.Refused().Name == "" && !slices.Contains(v.Unproven, "state")
		if v.Refused().Code != tt.refused || proven != tt.proven {
			t.Errorf("%s: %+v, not proven: %v", tt.state, v.Refused(), v.Unproven)
		}
	}
	r.State = ledger.StateForwarded
	for name, tt := range map[string]struct {
		pinned map[string]httpsig.Keys
		code   string
		word   string
	}{
		"none":              {nil, "", "--api-keys would show"},
		"those of all APIs": {map[string]httpsig.Keys{"": keys}, "", "the word of the API"},
		"those of another API": {map[string]httpsig.Keys{"other.example": keys}, "record_mismatch",
			"--api-keys would show"},
	} {
		trust.AnswerKeys = tt.pinned
		v, err := trust.Verify(t.Context(), r, nil, w.Clock.Now())
		must(t, err)
		if v.Refused().Code != tt.code || !strings.Contains(v.Word(r), tt.word) ||
			slices.Contains(v.Unproven, "host") != (tt.pinned == nil) {
			t.Errorf("with the keys of %s: %+v, %s, not proven: %v", name, v.Refused(), v.Word(r), v.Unproven)
		}
	}
}

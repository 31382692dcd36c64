package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/proxy/forward"
)

const answerUnsigned = "answer_unsigned"

// contentDigest tells an API that takes part the hash of what the post sends.
func (t *posting) contentDigest() string {
	var sum [sha256.Size]byte
	_, _ = hex.Decode(sum[:], []byte(t.binding.ContentHash)) // we made it
	return httpsig.ContentDigest(sum)
}

// heard makes an answer that one of the signers has signed the API's word on the outcome, and refuses any other. The
// end of a body that is not the signed one is not relayed. Without signers it does nothing.
func (c *call) heard(out *http.Request, resp *http.Response, signers httpsig.Keys) error {
	if signers == nil {
		return nil
	}
	asked, target := *out, *out.URL
	asked.URL, target.RawQuery = &target, c.r.URL.RawQuery // without a credential
	answer, digest, err := gate.VerifyAnswer(&asked, resp, signers, c.p.o.Now())
	if err == nil {
		err = forward.Digested(resp, digest)
	}
	if c.check(gate.CheckAnswer, err) == nil {
		c.record.Answer = answer
	}
	return err
}

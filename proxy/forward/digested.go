package forward

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
	"net/http"

	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/proxy/upstream"
)

// maxJudged bounds in bytes what is read of a body before anything of it is relayed.
const maxJudged = 64 << 10

// Digested refuses (answer_unsigned) a body with another SHA-256 than sum: at once if the body is small, otherwise
// instead of its last byte, so that the client never takes it for whole.
func Digested(resp *http.Response, sum [sha256.Size]byte) error {
	d := &digested{Closer: resp.Body, from: resp.Body, want: sum, hash: sha256.New()}
	resp.Body = d
	d.read(maxJudged)
	//nolint:errorlint // as it is, and not wrapped, it says that the body is signed
	if d.end == nil || d.end == io.EOF {
		return nil
	}
	return upstream.Classify(d.end)
}

type digested struct {
	io.Closer
	from io.Reader
	want [sha256.Size]byte
	hash hash.Hash
	kept bytes.Buffer // read, not passed on
	end  error        // of from: io.EOF if the body is the signed one
}

// read reads until more than n bytes are kept, or to the end.
func (d *digested) read(n int) {
	var buf [4 << 10]byte
	for d.end == nil && d.kept.Len() <= n {
		read, err := d.from.Read(buf[:])
		_, _ = d.kept.Write(buf[:read])
		_, _ = d.hash.Write(buf[:read])
		//nolint:errorlint // io.Reader's contract
		if d.end = err; err == io.EOF && !bytes.Equal(d.hash.Sum(nil), d.want[:]) {
			d.end = refusal.New("answer_unsigned", "the body of the answer is not the one that the API has signed")
		}
	}
}

func (d *digested) Read(p []byte) (int, error) {
	d.read(1)
	ready := d.kept.Len()
	if d.end != io.EOF { //nolint:errorlint // as above
		ready = max(ready-1, 0)
	}
	n, _ := d.kept.Read(p[:min(len(p), ready)])
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return 0, d.end
}

package echo

import (
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// hiding are the headers that ask for an answer in a coding in which nothing can be found, or for pieces of an answer.
var hiding = []string{"Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding", "Accept-Charset", "Range", "If-Range"}

// Hides reports whether a header of a request could keep the secret in the answer from being found. Its name is given in
// canonical form. Such headers are to be removed, and Accept-Encoding set to identity.
func Hides(name string) bool { return slices.Contains(hiding, name) }

// encodings are the headers that say that what follows is compressed.
var encodings = []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"}

// Guard searches an answer. It refuses one with the secret in its header (credential_echoed), and one that is compressed
// (answer_encoded). The body then ends with credential_echoed at the secret, or if it is in the trailers. Informational answers have to be
// kept from the agent.
func (s *Secret) Guard(resp *http.Response) error {
	if s.inHeader(resp.Header) {
		return errEchoed()
	}
	for _, name := range encodings {
		for _, coding := range resp.Header[name] {
			if coding != "" && !strings.EqualFold(coding, "identity") {
				return refusal.New("answer_encoded", "the answer has the %s %.40q, although identity was asked for: it cannot be searched for the credential", name, coding)
			}
		}
	}
	resp.Body = &body{Reader: s.Reader(resp.Body), Closer: resp.Body, secret: s, resp: resp}
	return nil
}

func (s *Secret) inHeader(h http.Header) bool {
	for _, values := range h {
		for _, v := range values {
			if s.In([]byte(v)) {
				return true
			}
		}
	}
	return false
}

// body is an answer's body, whose trailers are known when it has ended.
type body struct {
	*Reader
	io.Closer
	secret *Secret
	resp   *http.Response
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF && b.secret.inHeader(b.resp.Trailer) { //nolint:errorlint // io.Reader's contract
		err = errEchoed()
	}
	return n, err
}

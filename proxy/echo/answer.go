package echo

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/refusal"
)

// hiding are request headers that ask for a coding in which the secret cannot be found, or for parts of an answer.
var hiding = []string{"Accept-Encoding", "Grpc-Accept-Encoding", "Connect-Accept-Encoding", "Accept-Charset", "Range",
	"If-Range"}

// Hides reports whether a request header could hide the secret in the answer. name is canonical. Remove such headers
// and set Accept-Encoding to identity.
func Hides(name string) bool { return slices.Contains(hiding, name) }

var encodings = []string{"Content-Encoding", "Grpc-Encoding", "Connect-Content-Encoding"}

// Guard searches an answer. It refuses (answer_withheld) a compressed answer, and one with the secret in its header or
// in the name of an announced trailer, which the header shows. The body ends with answer_withheld at the secret, or at
// its end if the trailers have it. Informational answers must be kept from the agent.
func (s *Secret) Guard(resp *http.Response) error {
	if s.inHeader(resp.Header) || slices.ContainsFunc(slices.Collect(maps.Keys(resp.Trailer)), s.inName) {
		return errEchoed()
	}
	for _, name := range encodings {
		for _, coding := range resp.Header[name] {
			if compresses(coding) && !empty(resp) {
				return refusal.New("answer_withheld",
					"the answer cannot be searched for the credential: it has the %s %.40q, which the request did not "+
						"accept", name,
					coding)
			}
		}
	}
	resp.Body = &body{Reader: s.Reader(resp.Body), Closer: resp.Body, secret: s, resp: resp}
	return nil
}

// compresses reports whether a coding hides text. Some servers name a charset or none here.
func compresses(coding string) bool {
	return !slices.Contains([]string{"", "identity", "none", "utf-8"}, strings.ToLower(coding))
}

func empty(resp *http.Response) bool {
	head := resp.Request != nil && resp.Request.Method == http.MethodHead
	return head || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
}

// inName searches the name of a header or trailer, which net/http has written in its own case.
func (s *Secret) inName(name string) bool {
	return s.In([]byte(strings.ToLower(name))) || s.In([]byte(name))
}

func (s *Secret) inHeader(h http.Header) bool {
	for name, values := range h {
		if s.inName(name) || slices.ContainsFunc(values, func(v string) bool { return s.In([]byte(v)) }) {
			return true
		}
	}
	return false
}

// body also searches the trailers, at the end of an answer's body.
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

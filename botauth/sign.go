package botauth

import (
	"context"
	"crypto"
	stded25519 "crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/httpsig"
	"github.com/actionproof/mediator/internal/refusal"
)

// The forms of the field Signature-Agent, as a rule names them.
const (
	// Current is the draft's dictionary, of which the signature covers its member.
	Current = "web-bot-auth"
	// Legacy is a bare string, which verifiers of earlier drafts expect.
	Legacy = "web-bot-auth-legacy"
)

const (
	label, tag = "sig1", "web-bot-auth"
	// backdate lets verifiers whose clocks are behind accept a new signature.
	backdate   = 5 * time.Second
	nonceBytes = 64
)

// Key signs with one of its versions.
type Key interface {
	Current(ctx context.Context) (custody.Version, error)
}

// Options configure a [Signer]. All are required.
type Options struct {
	Directory string        // the https origin that publishes the key: see [CheckOrigin]
	Lifetime  time.Duration // of a signature
	Now       func() time.Time
}

// Signer signs requests. It is safe for concurrent use. A nil Signer signs none.
type Signer struct {
	key    Key
	o      Options
	legacy bool
}

// New makes a Signer for a form of Signature-Agent.
func New(key Key, form string, o Options) (*Signer, error) {
	if key == nil || o.Lifetime < time.Second || o.Now == nil || form != Current && form != Legacy {
		return nil, errors.New("botauth: a signer needs a key, a form, a lifetime and a clock")
	}
	return &Signer{key, o, form == Legacy}, CheckOrigin(o.Directory)
}

var origin = regexp.MustCompile(`^https://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?$`)

// CheckOrigin refuses a directory that is not an https origin (RFC 6454), such as https://agents.example.com.
func CheckOrigin(directory string) error {
	if !origin.MatchString(directory) || strings.HasSuffix(directory, ":443") {
		return fmt.Errorf("%q is not an https origin such as https://agents.example.com", directory)
	}
	return nil
}

// Sign adds the fields Signature-Agent, Signature-Input and Signature. They cover method, authority, path and query,
// and the fields in also, which the mediator must have set itself. The request must have no such fields before.
func (s *Signer) Sign(ctx context.Context, r *http.Request, also ...string) error {
	if s == nil {
		return nil
	}
	version, err := s.key.Current(ctx)
	if err != nil {
		return err
	}
	components := []string{"@method", "@authority", "@path"}
	if r.URL.RawQuery != "" { // verifiers differ on the value of an empty one
		components = append(components, "@query")
	}
	agent, component := `"`+s.o.Directory+`"`, "signature-agent"
	if !s.legacy {
		agent, component = label+"="+agent, component+`;key="`+label+`"`
	}
	r.Header.Set("Signature-Agent", agent)
	nonce := make([]byte, nonceBytes)
	_, _ = rand.Read(nonce) // never fails
	created := s.o.Now().Add(-backdate)
	err = httpsig.Sign(&httpsig.Message{Method: r.Method, Target: r.URL, Header: r.Header}, label,
		append(append(components, also...), component), httpsig.Params{Created: created,
			Expires: created.Add(backdate + s.o.Lifetime), Nonce: base64.StdEncoding.EncodeToString(nonce), Tag: tag},
		signing{ctx, version})
	if err != nil && refusal.CodeOf(err) == "" {
		return refusal.New("request_malformed", "the call cannot be signed: %w", err)
	}
	return err
}

// signing lets package httpsig sign with a version of a custody's key.
type signing struct {
	ctx     context.Context //nolint:containedctx // of one signature
	version custody.Version
}

func (s signing) Public() crypto.PublicKey { return stded25519.PublicKey(s.version.Public()) }

func (s signing) Sign(_ io.Reader, message []byte, _ crypto.SignerOpts) ([]byte, error) {
	return s.version.Sign(s.ctx, message)
}

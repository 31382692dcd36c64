package vault

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/actionproof/mediator/custody"
)

// Issued is a certificate that Vault's PKI engine has made, with a key of its own.
type Issued struct {
	Certificate string // and those that lead to its authority, in PEM
	Key         string // in PEM
	End         time.Time
}

// Issue gets a certificate from a PKI engine, at a path such as pki/issue/ROLE. Its errors are those of [Secret.Read].
func (s *Secrets) Issue(ctx context.Context, path, name string) (Issued, error) {
	made, err := s.session.write(ctx, path, map[string]any{"common_name": name})
	if err != nil {
		return Issued{}, s.session.explain(err, "write to "+path)
	}
	var is struct {
		Certificate string   `json:"certificate"`
		Chain       []string `json:"ca_chain"`
		Key         string   `json:"private_key"`
		End         int64    `json:"expiration"`
	}
	err = decode(made, &is)
	if err == nil && (is.Certificate == "" || is.Key == "" || is.End == 0) {
		err = errors.New("it is not a certificate with a key")
	}
	if err != nil {
		return Issued{}, custody.Unavailable(err, "what Vault answers at %s is no certificate with a key", path)
	}
	return Issued{strings.Join(append([]string{is.Certificate}, is.Chain...), "\n"), is.Key, time.Unix(is.End, 0)}, nil
}

// Format keeps the key out of logs and errors.
func (Issued) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("REDACTED")) }

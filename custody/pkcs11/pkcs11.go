// Package pkcs11 is custody in a PKCS #11 token, such as a hardware security module. The token signs, and its private
// keys never leave it.
//
// A key is all private keys with its name as CKA_LABEL; CKA_ID, as a number, is the version. The public key has the
// same label and id. The token's own tools make and delete versions, which this package sees within Options.Refresh.
package pkcs11

import (
	"cmp"
	"errors"
	"time"
)

// Options name a token.
type Options struct {
	Module string // path of the token's library
	Token  string // label of the token
	PIN    string // of the token's user
	// Hardware declares a hardware module if the slot does not say so itself.
	Hardware bool
	Now      func() time.Time // required
	// Refresh is how often the versions are read; 10 s if 0.
	Refresh time.Duration
	// Sessions bounds concurrent signatures; 8 if 0.
	Sessions int
}

func (o *Options) check() error {
	if o.Module == "" || o.Token == "" || o.PIN == "" || o.Now == nil {
		return errors.New("pkcs11: a token needs its module, its label, a PIN and a clock")
	}
	o.Refresh = cmp.Or(o.Refresh, 10*time.Second)
	o.Sessions = cmp.Or(o.Sessions, 8)
	return nil
}

// Package pkcs11 is custody in a PKCS #11 token, such as a hardware security module: the token signs, and its private keys never leave
// it.
//
// A key is all private keys of the token that bear its name as CKA_LABEL; CKA_ID, read as a number, is the version. The public key
// beside each, with the same label and id, says what it verifies with. The token makes new versions, with its own tools; they are
// noticed within Options.Refresh, and so is a version that was deleted.
package pkcs11

import (
	"cmp"
	"errors"
	"time"
)

// Options say which token, and how it is used.
type Options struct {
	Module string // path of the token's library
	Token  string // label of the token
	PIN    string // of the token's user
	// Hardware declares that the token is a hardware module, where the token's slot does not say so itself.
	Hardware bool
	Now      func() time.Time // required
	// Refresh is how often the token is asked for its versions; 10 s if 0.
	Refresh time.Duration
	// Sessions bounds the signatures that are made at once; 8 if 0.
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

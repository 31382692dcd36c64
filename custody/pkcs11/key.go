//go:build cgo

package pkcs11

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"
	"github.com/miekg/pkcs11"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/look"
)

type key struct {
	token *Token
	name  string

	mu       sync.Mutex // guards all below; held during a reading, so that callers share it
	read     time.Time  // when versions were read
	again    bool       // read again in any case
	versions []version  // oldest first
}

type version struct {
	custody.Version
	number int
	handle pkcs11.ObjectHandle
	// kept: the token made the key, has never let it out and never will (PKCS #11 section 4.9).
	kept bool
}

var _ custody.Key = (*key)(nil)

func (k *key) Name() string { return k.name }

// Current returns the newest version.
func (k *key) Current(ctx context.Context) (custody.Version, error) {
	all, err := k.all(ctx)
	if err != nil {
		return custody.Version{}, err
	}
	return all[len(all)-1].Version, nil
}

// Versions returns the token's versions.
func (k *key) Versions(ctx context.Context) ([]custody.Version, error) {
	all, err := k.all(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]custody.Version, len(all))
	for i, v := range all {
		out[i] = v.Version
	}
	return out, nil
}

// Properties returns what the token says of the key.
func (k *key) Properties() custody.Properties {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := custody.Properties{Custody: custody.ExternalMediator, Exportable: !kept(k.versions),
		Observed: []string{"keyExportable"}}
	if k.token.hardware || k.token.o.Hardware {
		p.Custody = custody.HardwareBacked
	}
	if k.token.hardware {
		p.Observed = append(p.Observed, "keyCustody")
	}
	return p
}

// Observe reports what the token says of the key.
func (k *key) Observe(ctx context.Context, _ time.Duration) []look.Observation {
	return []look.Observation{k.custodyLook(ctx), k.apartLook(ctx)}
}

func (k *key) custodyLook(ctx context.Context) look.Observation {
	result, seen := look.Holds, "says that it made the key %s and has never let it out"
	switch all, err := k.all(ctx); {
	case err != nil:
		result, seen = look.NotObserved, "could not be asked about the key %s"
	case !kept(all):
		result, seen = look.Contradicts, "says that a version of the key %s can be extracted, or was once outside of it"
	}
	return look.New(look.Custody, result, fmt.Sprintf("The token %s "+seen+".", k.token.o.Token, k.name))
}

// apartLook reports whether the PIN opens only keys of this process. The token does not say what other keys are for.
func (k *key) apartLook(ctx context.Context) look.Observation {
	token := k.token.o.Token
	switch others, err := k.token.others(ctx); {
	case err != nil:
		return look.New(look.Apart, look.NotObserved,
			fmt.Sprintf("The token %s could not be asked which keys its PIN opens.", token))
	case len(others) > 0:
		return look.New(look.Apart, look.NotObserved,
			fmt.Sprintf("The PIN of the token %s opens keys that are not this process's: %q.", token, others))
	}
	return look.New(look.Apart, look.Holds, fmt.Sprintf(
		"The key %s is a key of its own in the token %s, whose PIN opens no key but this process's.", k.name, token))
}

func kept(all []version) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(v version) bool { return !v.kept })
}

// all returns the versions, read within Refresh. While the token cannot be read, as when it makes a version, the last
// reading may be three times as old, but no older: a version may have been deleted.
func (k *key) all(ctx context.Context) ([]version, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := k.token.o.Now().Sub(k.read)
	if k.again || age >= k.token.o.Refresh {
		if err := k.load(ctx); err != nil && (len(k.versions) == 0 || age >= 3*k.token.o.Refresh) {
			return nil, err
		}
	}
	return k.versions, nil
}

// The caller holds mu.
func (k *key) load(ctx context.Context) error {
	var found []version
	err := k.token.use(ctx, func(s pkcs11.SessionHandle) (err error) {
		found, err = k.find(s)
		return err
	})
	if err != nil {
		return custody.Unavailable(err, "the key %s cannot be read from the token %s: %v", k.name, k.token.o.Token, err)
	}
	k.versions, k.read, k.again = found, k.token.o.Now(), len(found) == 0
	if len(found) == 0 {
		return custody.Unavailable(nil, "the token %s holds no Ed25519 key with the label %s", k.token.o.Token, k.name)
	}
	return nil
}

func (k *key) find(s pkcs11.SessionHandle) ([]version, error) {
	publics, err := k.publics(s)
	if err != nil {
		return nil, err
	}
	handles, err := k.token.objects(s, pkcs11.CKO_PRIVATE_KEY, pkcs11.NewAttribute(pkcs11.CKA_LABEL, k.name))
	if err != nil {
		return nil, err
	}
	var out []version
	for _, h := range handles {
		a, err := k.token.attributes(s, h, pkcs11.CKA_ID, pkcs11.CKA_EXTRACTABLE, pkcs11.CKA_NEVER_EXTRACTABLE,
			pkcs11.CKA_SENSITIVE, pkcs11.CKA_ALWAYS_SENSITIVE, pkcs11.CKA_LOCAL)
		if err != nil {
			return nil, err
		}
		number, err := number(a[0])
		if err != nil {
			return nil, fmt.Errorf("the key %s: %w", k.name, err)
		}
		public, ok := publics[number]
		if !ok {
			return nil, fmt.Errorf("the key %s has no public Ed25519 key for its id %d", k.name, number)
		}
		v := version{number: number, handle: h,
			kept: !isTrue(a[1]) && isTrue(a[2]) && isTrue(a[3]) && isTrue(a[4]) && isTrue(a[5])}
		v.Version = custody.NewVersion(k.name, number, public, k.signer(number, public))
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b version) int { return cmp.Compare(a.number, b.number) })
	for i := 1; i < len(out); i++ {
		if out[i].number == out[i-1].number {
			return nil, fmt.Errorf("the key %s has two private keys with the id %d", k.name, out[i].number)
		}
	}
	return out, nil
}

func (k *key) publics(s pkcs11.SessionHandle) (map[int]ed25519.PublicKey, error) {
	handles, err := k.token.objects(s, pkcs11.CKO_PUBLIC_KEY, pkcs11.NewAttribute(pkcs11.CKA_LABEL, k.name))
	if err != nil {
		return nil, err
	}
	out := make(map[int]ed25519.PublicKey)
	for _, h := range handles {
		a, err := k.token.attributes(s, h, pkcs11.CKA_ID, pkcs11.CKA_EC_PARAMS, pkcs11.CKA_EC_POINT)
		if err != nil {
			return nil, err
		}
		number, err := number(a[0])
		if err != nil {
			return nil, fmt.Errorf("the key %s: %w", k.name, err)
		}
		if !slices.ContainsFunc(ed25519Params, func(p []byte) bool { return bytes.Equal(a[1], p) }) {
			return nil, fmt.Errorf("the key %s with the id %d is not an Ed25519 key", k.name, number)
		}
		// a DER OCTET STRING, or bare bytes (PKCS #11 3.0)
		point := bytes.TrimPrefix(a[2], []byte{0x04, ed25519.PublicKeySize})
		if _, twice := out[number]; twice || len(point) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("the public key of %s with the id %d occurs twice or is malformed", k.name, number)
		}
		out[number] = ed25519.PublicKey(bytes.Clone(point))
	}
	return out, nil
}

// ed25519Params are the curve's two encodings in CKA_EC_PARAMS (PKCS #11 3.0 section 2.3.10): the PrintableString
// "edwards25519" and the OID 1.3.101.112 (RFC 8410).
var ed25519Params = [][]byte{append([]byte{0x13, 12}, "edwards25519"...), {0x06, 3, 43, 101, 112}}

// ckmEDDSA is CKM_EDDSA; without parameters it is pure Ed25519 (PKCS #11 3.0 section 2.3.14).
const ckmEDDSA = 0x1057

func isTrue(b []byte) bool { return len(b) == 1 && b[0] != 0 }

// number reads CKA_ID as a version: big-endian, from 1.
func number(id []byte) (int, error) {
	n := 0
	for _, b := range id {
		if n >= 1<<23 {
			return 0, fmt.Errorf("its id %x is not a version", id)
		}
		n = n<<8 | int(b)
	}
	if n == 0 {
		return 0, fmt.Errorf("its id %x is not a version: give it a number from 1", id)
	}
	return n, nil
}

func (k *key) signer(number int, public ed25519.PublicKey) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, message []byte) ([]byte, error) {
		private, err := k.handle(ctx, number)
		if err != nil {
			return nil, err
		}
		message = bytes.Clone(message) // the call may outlast ctx and the caller
		var signature []byte
		err = k.token.use(ctx, func(s pkcs11.SessionHandle) error {
			err := k.token.module.SignInit(s, []*pkcs11.Mechanism{pkcs11.NewMechanism(ckmEDDSA, nil)}, private)
			if err == nil {
				signature, err = k.token.module.Sign(s, message)
			}
			return err
		})
		if err != nil {
			k.forget()
			return nil, custody.Unavailable(err, "the token %s did not sign with the key %s", k.token.o.Token, k.name)
		}
		if len(signature) != ed25519.SignatureSize || !ed25519.Verify(public, message, signature) {
			return nil, custody.Unavailable(nil, "the token %s gave a wrong signature for the key %s", k.token.o.Token,
				k.name)
		}
		return signature, nil
	}
}

func (k *key) handle(ctx context.Context, number int) (pkcs11.ObjectHandle, error) {
	all, err := k.all(ctx)
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(all, func(v version) bool { return v.number == number })
	if i < 0 {
		return 0, custody.Unavailable(nil, "the token %s holds version %d of the key %s no more", k.token.o.Token,
			number, k.name)
	}
	return all[i].handle, nil
}

// forget makes the next use read the token again: a handle may end with its login.
func (k *key) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.again = true
}

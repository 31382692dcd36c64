// Package custody holds signing keys, or reaches whoever holds them, and signs bytes. It knows nothing of artifacts.
//
// A [Key] has a name and versions; a signature is made with one [Version], whose id ("<name>:v<n>") becomes the artifact's
// kid. The package says of a key only what it knows: see [Properties].
package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/look"
)

// Error is a failure of custody that may be shown to an operator: a stable code and a sentence without key material.
type Error struct {
	code, detail string
	err          error
}

// Unavailable is the error of a key that cannot sign now; detail holds no key material, and err, the cause, is not shown.
func Unavailable(err error, detail string, args ...any) *Error {
	return &Error{code: "custody_unavailable", detail: fmt.Sprintf(detail, args...), err: err}
}

// Unfit is the error of a key that must not sign, because it is not what it was or not what the mediator signs with; waiting does not help.
func Unfit(detail string, args ...any) *Error {
	return &Error{code: "custody_unfit", detail: fmt.Sprintf(detail, args...)}
}

// IsUnfit tells whether err is that of [Unfit].
func IsUnfit(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.code == "custody_unfit"
}

// Refused is the error of somebody who works on a key, and whom its custody tells that what was asked cannot be done; waiting does not
// help. detail may quote the custody, so it is for operators alone: no process that signs makes this error.
func Refused(err error, detail string, args ...any) *Error {
	return &Error{code: "custody_refused", detail: fmt.Sprintf(detail, args...), err: err}
}

// NoCredential is the error of an API credential that cannot be had now, as [Unavailable] is of a key.
func NoCredential(err error, detail string, args ...any) *Error {
	return &Error{code: "custody_unavailable", detail: fmt.Sprintf(detail, args...), err: err}
}

// Code returns the stable code, as listed in docs/errors.md.
func (e *Error) Code() string { return e.code }

// Error returns the sentence.
func (e *Error) Error() string { return e.detail }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.err }

// Custody classes, as custody certificates name them (seed: keyCustody).
const (
	// ExternalMediator is a key that only the mediator's own process, or a server that it asks, can use.
	ExternalMediator = "external_mediator"
	// HardwareBacked is a key inside a hardware security module.
	HardwareBacked = "hardware_backed"
)

// Properties are what a custody knows of one key.
type Properties struct {
	Custody    string // ExternalMediator or HardwareBacked
	Exportable bool
	// Observed names the properties that were seen and not only declared: "keyCustody", "keyExportable".
	Observed []string
}

// Key is one named signing key, whatever its versions. Implementations are safe for concurrent use.
type Key interface {
	// Name returns the key's name, without a version.
	Name() string
	// Current returns the version that signs now. Whoever signs asks for it each time, so that a custody that is far away is asked about
	// the key again while it is used, and seldom otherwise.
	Current(ctx context.Context) (Version, error)
	// Versions returns every version whose signatures are still accepted, oldest first.
	Versions(ctx context.Context) ([]Version, error)
	// Properties returns what is known of the key.
	Properties() Properties
	// Observe looks at what can be seen of the key: look.Custody and look.Apart. What cannot be looked at is look.NotObserved.
	// What was seen to hold at most maxAge ago may be told again.
	Observe(ctx context.Context, maxAge time.Duration) []look.Observation
}

// Version is one version of one key: immutable, usable for as long as the key lives.
type Version struct {
	id     string
	public ed25519.PublicKey
	sign   func(ctx context.Context, message []byte) ([]byte, error)
	made   time.Time
}

// NewVersion makes a Version for a custody backend. sign returns the 64-byte Ed25519 signature and honours ctx.
func NewVersion(name string, number int, public ed25519.PublicKey, sign func(ctx context.Context, message []byte) ([]byte, error)) Version {
	return Version{id: fmt.Sprintf("%s:v%d", name, number), public: public, sign: sign}
}

// MadeAt returns the version with the time at which its custody made it.
func (v Version) MadeAt(t time.Time) Version {
	v.made = t
	return v
}

// Made returns when the custody made the version; zero if it does not say.
func (v Version) Made() time.Time { return v.made }

// KeyID returns the kid: "<key name>:v<version>".
func (v Version) KeyID() string { return v.id }

// Public returns the public key. The caller must not change it.
func (v Version) Public() ed25519.PublicKey { return v.public }

// Sign returns the Ed25519 signature of message (RFC 8032, pure). It refuses an empty message, which some backends would
// sign as if it had been meant.
func (v Version) Sign(ctx context.Context, message []byte) ([]byte, error) {
	if v.sign == nil || len(message) == 0 {
		return nil, errors.New("custody: nothing to sign, or no key to sign it with")
	}
	if err := ctx.Err(); err != nil {
		return nil, Unavailable(err, "the signature was not made in time")
	}
	return v.sign(ctx, message)
}

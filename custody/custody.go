// Package custody holds or reaches signing keys, and signs bytes. It knows nothing of artifacts.
//
// A [Key] has versions. A [Version] signs; its id becomes the artifact's kid.
package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/look"
)

// Error is a custody failure for operators: a stable code, and a sentence without key material.
type Error struct {
	code, detail string
	err          error
}

// Unavailable is the error of a key or an API credential that cannot be used now. detail must not contain key material;
// err is not shown.
func Unavailable(err error, detail string, args ...any) *Error {
	return &Error{code: "custody_unavailable", detail: fmt.Sprintf(detail, args...), err: err}
}

// Unfit is the error of a key that must never sign, because it has changed or has the wrong type.
func Unfit(detail string, args ...any) *Error {
	return &Error{code: "custody_unfit", detail: fmt.Sprintf(detail, args...)}
}

// IsUnfit reports that the mediator must not sign with the key.
func IsUnfit(err error) bool {
	e := (*Error)(nil)
	return errors.As(err, &e) && e.code == "custody_unfit"
}

// Refused is the error of an administrator's request that the custody refuses. detail may quote the custody, because
// only operators see it.
func Refused(err error, detail string, args ...any) *Error {
	return &Error{code: "custody_refused", detail: fmt.Sprintf(detail, args...), err: err}
}

func (e *Error) Code() string { return e.code }

func (e *Error) Error() string { return e.detail }

func (e *Error) Unwrap() error { return e.err }

// Custody classes in certificates (seed: keyCustody).
const (
	// ExternalMediator is a key that only the mediator, or a server that it asks, can use.
	ExternalMediator = "external_mediator"
	// HardwareBacked is a key inside a hardware security module.
	HardwareBacked = "hardware_backed"
)

// Properties are what a custody knows of a key.
type Properties struct {
	Custody    string // ExternalMediator or HardwareBacked
	Exportable bool
	Observed   []string // the observed properties: "keyCustody", "keyExportable"; others are only declared
}

// Key is a named signing key with its versions. Implementations are safe for concurrent use.
type Key interface {
	Name() string
	// Current returns the version that signs now. Call it before each signature: a remote custody checks a key in use
	// more often.
	Current(ctx context.Context) (Version, error)
	// Versions returns the versions whose signatures are still accepted, oldest first.
	Versions(ctx context.Context) ([]Version, error)
	Properties() Properties
	// Observe reports look.Custody and look.Apart, or look.NotObserved. It may repeat a good result up to maxAge old.
	Observe(ctx context.Context, maxAge time.Duration) []look.Observation
}

// Version is one immutable version of a key.
type Version struct {
	id     string
	public ed25519.PublicKey
	sign   func(ctx context.Context, message []byte) ([]byte, error)
	made   time.Time
}

// NewVersion makes a Version for a custody. sign returns the 64-byte Ed25519 signature and honours ctx.
func NewVersion(name string, number int, public ed25519.PublicKey,
	sign func(ctx context.Context, message []byte) ([]byte, error)) Version {
	return Version{id: fmt.Sprintf("%s:v%d", name, number), public: public, sign: sign}
}

// MadeAt returns v with its creation time.
func (v Version) MadeAt(t time.Time) Version {
	v.made = t
	return v
}

// WithoutSigner returns v without its private half.
func (v Version) WithoutSigner() Version {
	v.sign = nil
	return v
}

// Made returns the creation time, or zero if unknown.
func (v Version) Made() time.Time { return v.made }

// KeyID returns the kid: "<key name>:v<version>".
func (v Version) KeyID() string { return v.id }

// Public returns the public key. Do not change it.
func (v Version) Public() ed25519.PublicKey { return v.public }

// Sign returns the pure Ed25519 signature (RFC 8032). It refuses an empty message: some custodies would sign it.
func (v Version) Sign(ctx context.Context, message []byte) ([]byte, error) {
	if v.sign == nil || len(message) == 0 {
		return nil, errors.New("custody: nothing to sign, or no key to sign it with")
	}
	if err := ctx.Err(); err != nil {
		return nil, Unavailable(err, "the signature was not made in time")
	}
	return v.sign(ctx, message)
}

package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
)

// ID is a SPIFFE id, such as spiffe://example.org/pod/agents/1. It has a path, and at most 2048 bytes.
type ID string

// maxID is the bound of the SPIFFE ID specification, section 2.3, in bytes.
const maxID = 2048

func parse(s string) (ID, error) {
	if len(s) > maxID {
		return "", fmt.Errorf("a SPIFFE id has at most %d bytes", maxID)
	}
	id, err := spiffeid.FromString(s)
	switch {
	case err != nil:
		return "", err
	case id.Path() == "":
		return "", errors.New("it names only a trust domain, and no process in it")
	}
	return ID(s), nil
}

// Path returns the path without its first slash. It names the runtime of a sidecar.
func (id ID) Path() string {
	_, rest, _ := strings.Cut(string(id), "://")
	_, path, _ := strings.Cut(rest, "/")
	return path
}

// CheckPattern refuses a text that matches no SPIFFE id. In a pattern, a segment * of the path matches any one
// segment.
func CheckPattern(pattern string) error {
	segments := strings.Split(pattern, "/")
	for i, s := range segments {
		if s == "*" && i > 2 { // after the scheme and the trust domain
			segments[i] = "any"
		}
	}
	if _, err := parse(strings.Join(segments, "/")); err != nil {
		return fmt.Errorf("%.200q is not a pattern of SPIFFE ids, such as spiffe://example.org/pod/agents/*: %w",
			pattern, err)
	}
	return nil
}

// Matches reports whether a pattern matches the id.
func (id ID) Matches(pattern string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(string(id), "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if want[i] != got[i] && want[i] != "*" {
			return false
		}
	}
	return true
}

// of returns the id in a leaf certificate. The certificate has no other URI (X509-SVID, section 2).
func of(c *x509.Certificate) (ID, error) {
	switch {
	case c.IsCA:
		return "", errors.New("it is the certificate of an authority, and not of a process")
	case len(c.URIs) != 1:
		return "", fmt.Errorf("it has %d URIs; a process has exactly one, its SPIFFE id", len(c.URIs))
	}
	id, err := parse(c.URIs[0].String())
	if err != nil {
		return "", fmt.Errorf("its URI is not a SPIFFE id: %w", err)
	}
	return id, nil
}

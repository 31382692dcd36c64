// Package check holds the assertions that the tests of the proxy share.
package check

import (
	"errors"
	"net"
	"testing"
)

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// CodeOf returns the code of a refusal, and "internal" for any other error.
func CodeOf(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return "internal"
}

// WantCode ends the test if err is not a refusal with this code.
func WantCode(t testing.TB, err error, code string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want the code %s", code)
	}
	if got := CodeOf(err); got != code {
		t.Fatalf("got the code %s (%v), want %s", got, err, code)
	}
}

// IsTimeout reports whether a deadline has ended what returned err.
func IsTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

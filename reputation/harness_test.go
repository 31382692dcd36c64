package reputation_test

import (
	"errors"
	"testing"

	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/test/check"
)

var must = check.Must

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	var coded interface{ Code() string }
	if !errors.As(err, &coded) || coded.Code() != code {
		t.Fatalf("%v, want %s", err, code)
	}
	if !problem.Known(code) {
		t.Errorf("the code %s is not in the table", code)
	}
}

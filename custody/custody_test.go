package custody_test

import (
	"context"
	"errors"
	"testing"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/test/check"
)

type failing struct{ custody.Key }

var errAway = errors.New("away")

func (failing) Versions(context.Context) ([]custody.Version, error) { return nil, errAway }

func TestFailures(t *testing.T) {
	good, err := custody.NewMemory("good")
	check.Must(t, err)
	public := current(t, good).Public()
	fails := custody.NewVersion("k", 1, public, func(context.Context, []byte) ([]byte, error) { return nil, errAway })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		do   func() (any, error)
		want error
	}{
		"a version that does not sign": {func() (any, error) { return fails.Sign(t.Context(), []byte("m")) }, errAway},
		"a caller who has gone": {func() (any, error) { return fails.Sign(gone, []byte("m")) },
			context.Canceled},
		"the set of a key that is away": {func() (any, error) {
			return custody.JWKS(t.Context(), good, failing{good})
		}, errAway},
	} {
		if got, err := tt.do(); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if set, err := custody.JWKS(t.Context(), good, failing{good}); err == nil || len(set.Keys) != 0 {
		t.Errorf("half a set: %v", set)
	}
}

func current(t *testing.T, k custody.Key) custody.Version {
	t.Helper()
	v, err := k.Current(t.Context())
	check.Must(t, err)
	return v
}

func TestErrors(t *testing.T) {
	unavailable, unfit := custody.Unavailable(errAway, "the key %s is away", "k"),
		custody.Unfit("the key %s is another", "k")
	for _, tt := range []struct {
		err        error
		code, text string
		unfit      bool
	}{
		{unavailable, "custody_unavailable", "the key k is away", false},
		{unfit, "custody_unfit", "the key k is another", true},
		{errors.Join(errAway, unfit), "", "away\nthe key k is another", true}, {errAway, "", "away", false},
		{nil, "", "", false},
	} {
		if custody.IsUnfit(tt.err) != tt.unfit {
			t.Errorf("%v: unfit %t", tt.err, !tt.unfit)
		}
		if coded, ok := tt.err.(interface{ Code() string }); ok && coded.Code() != tt.code {
			t.Errorf("%v: %s", tt.err, coded.Code())
		}
		if tt.err != nil && tt.err.Error() != tt.text {
			t.Errorf("%q, want %q", tt.err, tt.text)
		}
	}
	if !errors.Is(unavailable, errAway) {
		t.Error("an error has lost its cause")
	}
}

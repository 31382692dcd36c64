package checked

import "testing"

func TestShown(t *testing.T) {
	for _, s := range []string{"", "a b", "root", "admin", "nobody"} {
		if Shown(s) == nil {
			t.Errorf("%q was accepted", s)
		}
	}
	if err := Shown("somebody"); err != nil {
		t.Error(err)
	}
}

func TestHalf(t *testing.T) {
	if Half(0) || !Half(1) {
		t.Error("wrong")
	}
}

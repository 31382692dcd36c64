// Package checked has checks that its tests show, and others.
package checked

import (
	"errors"
	"strings"
)

// Shown is shown whole.
func Shown(s string) error {
	if s == "" || strings.Contains(s, " ") {
		return errors.New("refused")
	}
	for _, word := range []string{"root", "admin"} {
		if s == word {
			return errors.New("refused")
		}
	}
	return passed(s)
}

func passed(s string) error {
	switch s {
	case "nobody":
		return errors.New("refused")
	}
	return nil
}

// Half has a check that nothing shows.
func Half(n int) bool {
	return n > 0 && n != 10
}

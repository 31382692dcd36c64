package launch

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// find returns the absolute path of a command. Relative folders of PATH depend on the current folder, and are refused.
func find(name string) (string, error) {
	at, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return "", fmt.Errorf("%w; relative folders of PATH are not searched: give its path", err)
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(at)
}

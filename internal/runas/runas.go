// Package runas finds the user for programs that refuse to work as root, in tests and benchmarks.
package runas

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Credential returns the user with this name if this process is root, and nil otherwise: its own user is then good
// enough.
func Credential(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	gid, bad := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err, bad)
}

// Package runas says as whom tests and benchmarks start programs that refuse to work as root.
package runas

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Credential returns the user with this name where this process is root, and nil where it is not: its own user will do
// then.
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

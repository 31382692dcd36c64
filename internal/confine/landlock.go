package confine

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// held is everything that Landlock restricts here: files, TCP ports, abstract unix sockets and signals (ABI 6, Linux
// 6.12).
var held = landlock.V6

// held returns the restrictions for these limits.
func (l Limits) held() landlock.Config {
	if !l.AnyConnect {
		return held
	}
	return landlock.MustConfig(held.HandledAccessFS, landlock.AccessNetSet(ll.AccessNetBindTCP), held.Scoped)
}

// heldABI is the first version of Landlock that has all of held. portsABI is the first that knows ports.
const (
	heldABI  = 6
	portsABI = 4
)

// rights are the rights of each use of a folder. A file can have only those in ofFile.
var (
	rights = map[Use]landlock.AccessFSSet{
		Read:   reading,
		Write:  writing,
		Move:   writing | ll.AccessFSRefer,
		Listen: ll.AccessFSMakeSock | ll.AccessFSRemoveFile,
	}
	ofFile landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSIoctlDev
)

const (
	reading landlock.AccessFSSet = ll.AccessFSReadFile | ll.AccessFSReadDir
	writing landlock.AccessFSSet = reading | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSMakeReg |
		ll.AccessFSMakeDir | ll.AccessFSRemoveFile | ll.AccessFSRemoveDir | ll.AccessFSIoctlDev
)

// landlock restricts the process to its files and ports.
func (c *Confined) landlock() error {
	if c.limits.Landlock == Off {
		return nil
	}
	if abi, err := ll.LandlockGetABIVersion(); err == nil {
		c.abi = abi
	}
	if c.limits.Landlock == Required && c.abi < heldABI {
		return fmt.Errorf("it needs ABI %d (Linux 6.12), and %s", heldABI, kernelHas(c.abi))
	}
	rules, err := c.limits.rules()
	if err != nil {
		return err
	}
	return c.limits.held().BestEffort().Restrict(rules...)
}

// rules returns the rules for Landlock.
func (l Limits) rules() ([]landlock.Rule, error) {
	var out []landlock.Rule
	for _, f := range l.Files {
		info, err := os.Stat(f.Path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		access := rights[f.Use]
		if !info.IsDir() {
			access &= ofFile
		}
		out = append(out, landlock.PathAccess(access, f.Path).IgnoreIfMissing())
	}
	for _, port := range l.Bind {
		out = append(out, landlock.BindTCP(port))
	}
	if !l.AnyConnect {
		for _, port := range l.Connect {
			out = append(out, landlock.ConnectTCP(port))
		}
	}
	return out, nil
}

// kernelHas names the kernel's version of Landlock.
func kernelHas(abi int) string {
	if abi == 0 {
		return "Landlock is not supported by this kernel"
	}
	return fmt.Sprintf("this kernel has ABI %d of Landlock", abi)
}

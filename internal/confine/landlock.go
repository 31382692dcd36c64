package confine

import (
	"errors"
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// held returns the restrictions: of files, TCP ports, abstract unix sockets and signals.
func (l Limits) held() landlock.Config {
	all := landlock.V6
	if !l.AnyConnect {
		return all
	}
	return landlock.MustConfig(all.HandledAccessFS, landlock.AccessNetSet(ll.AccessNetBindTCP), all.Scoped)
}

// Versions of Landlock.
const (
	heldABI  = 6 // the first with everything in held (Linux 6.12)
	portsABI = 4 // the first with ports (Linux 6.7)
)

// rights are the rights of each use. A file can have only those in ofFile.
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

func kernelHas(abi int) string {
	if abi == 0 {
		return "Landlock is not supported by this kernel"
	}
	return fmt.Sprintf("this kernel has ABI %d of Landlock", abi)
}

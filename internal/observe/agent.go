// Package observe finds out what a process can see of its own deployment. Package look defines the observations.
package observe

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/actionproof/mediator/look"
)

// Agent is the user of the agent.
type Agent struct {
	UID  uint32
	GIDs []uint32 // all its groups
}

// anyone is a user number that no file can have (chown(2)).
const anyone = math.MaxUint32

// Anyone returns a user that owns no file, is in no group and is in no access control list.
func Anyone() Agent { return Agent{UID: anyone} }

func (a Agent) String() string {
	if a.UID == anyone {
		return "a user who owns nothing and is in no group"
	}
	return fmt.Sprintf("the agent's user %d", a.UID)
}

// Process observes whether the agent's user could reach the memory of a process that runs as uid, as the same user and
// root can (ptrace, /proc).
func (a Agent) Process(uid uint32) look.Observation {
	switch a.UID {
	case 0:
		return looked(look.Process, look.Contradicts, "The agent runs as root, which reaches every process here.")
	case uid:
		return looked(look.Process, look.Contradicts, "This process and the agent both run as user %d.", uid)
	}
	return looked(look.Process, look.Holds, "This process runs as user %d and the agent as user %d.", uid, a.UID)
}

// Path is a file, folder or socket that the agent must not change, and must not read if it is secret.
type Path struct {
	Name   string
	Secret bool
	Users  []uint32 // the users that the listener of a socket admits besides its own; the socket's mode does not matter
}

// LookAtFiles observes whether one of the users can change or replace one of the paths, or read a secret one. It judges
// each folder and symbolic link on the way by owner and mode, and a missing path by its folders. An access control list
// or an error makes the result NotObserved, unless something else contradicts.
func LookAtFiles(users []Agent, paths ...Path) look.Observation {
	var against, unseen parts
	for _, p := range paths {
		for _, u := range users {
			found, doubt := u.access(p)
			if found != "" {
				against.add("%s can %s", u, found)
				break // what the other users can do there says nothing more
			}
			if doubt != nil {
				unseen.add("%s could not be looked at: %v", p.Name, doubt)
			}
		}
	}
	switch {
	case len(against) > 0:
		return looked(look.Files, look.Contradicts, "By owner and mode, %s.", append(against, unseen...))
	case len(unseen) > 0:
		return looked(look.Files, look.NotObserved, "%s.", unseen)
	}
	var names []string
	for _, u := range users {
		names = append(names, u.String())
	}
	return looked(look.Files, look.Holds,
		"By owner and mode, this process's %d files and folders can be neither changed nor replaced, nor the secret "+
			"ones read, by %s.", len(paths), strings.Join(names, " or by "))
}

type parts []string

func (p *parts) add(format string, args ...any) {
	if part := fmt.Sprintf(format, args...); !slices.Contains(*p, part) {
		*p = append(*p, part)
	}
}

// maxParts bounds the sentence of an observation of many files.
const maxParts = 6

// String joins the parts, and counts those beyond maxParts.
func (p parts) String() string {
	if n := len(p) - maxParts; n > 0 {
		p = append(slices.Clone(p[:maxParts]), fmt.Sprintf("and %d more", n))
	}
	return strings.Join(p, "; ")
}

func looked(name string, result look.Result, format string, args ...any) look.Observation {
	return look.New(name, result, fmt.Sprintf(format, args...))
}

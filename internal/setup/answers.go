// Package setup prepares a machine to run the processes of one deployment: it makes root keys, configuration files and
// secrets, and sets the rights of each process's user. The Debian package has installed the program and the users.
//
//	answers.go  what only people know, from a file
//	ask.go      the same, from a terminal
//	texts.go    the configuration files that follow from the answers
//	setup.go    the steps
package setup

import (
	"cmp"
	"fmt"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/preset"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/strict"
)

// Answers say what a machine is set up for. They matter only for files that are not there yet.
type Answers struct {
	// Roots is here, to make the two root keys on this machine, or a folder with the security team's registry.jwk and
	// auditor.jwk. Default: here.
	Roots string `yaml:"roots"`
	// Presets are the rules of the agent: see mediator preset list.
	Presets []string `yaml:"presets"`
	// Sources are the event sources, by their names in the example of the trigger service. Default: github.
	Sources []string `yaml:"sources"`
	// Agent is the user of agents that are not isolated, by name or number. Default: mediator-agent.
	Agent string `yaml:"agent"`
	// Node runs a node too.
	Node bool `yaml:"node"`
	// Vault holds the signing keys. Default: each process makes its own in memory.
	Vault *Vault `yaml:"vault"`
}

// Vault is a HashiCorp Vault, in which setup makes keys and logins.
type Vault struct {
	// Address is https://host:port.
	Address string `yaml:"address"`
	// CA is a PEM file of authorities for Vault's certificate. Default: the system's.
	CA string `yaml:"ca"`
	// TokenFile holds an administrator's token. Only setup reads it.
	TokenFile string `yaml:"tokenFile"`
}

const here = "here"

const maxAnswers = 64 << 10

// Read reads a file of answers. Relative paths in it start at its own folder. Errors have the code config_malformed.
func Read(path string) (Answers, error) {
	raw, err := files.ReadUpTo(path, maxAnswers)
	if err != nil {
		return Answers{}, fmt.Errorf("answers: %w", err)
	}
	a, err := parse(raw)
	if err != nil {
		return a, refusal.New("config_malformed", "%s: %w", path, err)
	}
	for _, p := range a.paths() {
		if *p != "" && *p != here && !filepath.IsAbs(*p) {
			*p = filepath.Join(filepath.Dir(path), *p)
		}
	}
	return a, nil
}

func parse(raw []byte) (a Answers, err error) {
	file, err := strict.Read(raw, &a, strict.Options{})
	if err == nil {
		err = cmp.Or(file.Err(""), a.check())
	}
	return a, err
}

func (a *Answers) paths() []*string {
	out := []*string{&a.Roots}
	if a.Vault != nil {
		out = append(out, &a.Vault.CA, &a.Vault.TokenFile)
	}
	return out
}

// check sets defaults, and refuses names that nothing has.
func (a *Answers) check() error {
	a.Roots, a.Agent = cmp.Or(a.Roots, here), cmp.Or(a.Agent, "mediator-agent")
	if len(a.Sources) == 0 {
		a.Sources = []string{"github"}
	}
	for _, name := range a.Presets {
		if _, err := preset.Find(name); err != nil {
			return fmt.Errorf("presets: %w", err)
		}
	}
	known, _ := exampleSources()
	for _, name := range a.Sources {
		if !slices.Contains(known, name) {
			return fmt.Errorf("sources: there is no example of a source %.80q; there are %s", name,
				strings.Join(known, ", "))
		}
	}
	switch v := a.Vault; {
	case v == nil:
	case !strings.HasPrefix(v.Address, "https://") || strings.ContainsAny(v.Address, " \t\n\"'#"):
		return fmt.Errorf("vault.address: %.80q is not https://host:port", v.Address)
	case v.TokenFile == "":
		return fmt.Errorf("vault.tokenFile: name the file with an administrator's token")
	}
	return nil
}

// User is a user of the machine.
type User struct {
	UID, GID uint32
	Groups   []uint32 // besides the one numbered like the user
}

// LookUp finds a user of this machine by name or number. A number needs no such user.
func LookUp(name string) (User, error) {
	find := user.Lookup
	if _, err := strconv.ParseUint(name, 10, 32); err == nil {
		find = user.LookupId
	}
	found, err := find(name)
	if err != nil {
		if uid, bad := strconv.ParseUint(name, 10, 32); bad == nil {
			return User{UID: uint32(uid), GID: uint32(uid)}, nil
		}
		return User{}, refusal.New("config_malformed",
			"this machine has no user %.80q: install the package, or make the user", name)
	}
	ids, err := found.GroupIds()
	if err != nil {
		return User{}, err
	}
	numbers := make([]uint32, 0, len(ids))
	for _, id := range append([]string{found.Uid, found.Gid}, ids...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return User{}, fmt.Errorf("the user %s: %w", name, err)
		}
		numbers = append(numbers, uint32(n))
	}
	u := User{UID: numbers[0], GID: numbers[1], Groups: numbers[2:]}
	u.Groups = slices.DeleteFunc(u.Groups, func(g uint32) bool { return g == u.UID })
	return u, nil
}

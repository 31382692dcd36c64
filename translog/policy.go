package translog

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"

	"github.com/actionproof/mediator/internal/refusal"
)

const (
	// maxPolicy bounds a policy in bytes, maxMembers its witnesses.
	maxPolicy, maxMembers = 64 << 10, 32
)

// Policy lists the signatures that a checkpoint needs: one by a key of the log, and a quorum by witnesses.
type Policy struct {
	torchwood.Policy
	origin    string
	logs      []string // vkeys
	quorum    bool     // demands witnesses
	witnesses []member
}

// member is a witness of a policy.
type member struct {
	name     string // in the policy
	url      string // empty if only its key is known
	verifier *torchwood.CosignatureVerifier
}

// ParsePolicy reads a file in the format of c2sp.org/tlog-policy with one log, which has a line for each of its keys.
// The log asks a witness with a URL to cosign. Without one, its cosignatures only count.
func ParsePolicy(text []byte) (*Policy, error) {
	if len(text) > maxPolicy {
		return nil, refusal.New("config_malformed", "the log's policy has more than %d bytes", maxPolicy)
	}
	// The format has no other spaces than these; torchwood splits at all of them, and then may find no word.
	if strings.IndexFunc(string(text), func(r rune) bool {
		return (unicode.IsSpace(r) || unicode.IsControl(r)) && !strings.ContainsRune(" \t\n", r)
	}) >= 0 {
		return nil, refusal.New("config_malformed", "the log's policy has a control character, or "+
			"white space other than space and newline")
	}
	if _, err := torchwood.ParsePolicy(text); err != nil {
		return nil, refusal.New("config_malformed", "the log's policy: %v", err)
	}
	p := new(Policy)
	var rest []string // without the log's keys
	keys, grouped := make(map[string]bool), make(map[string]bool)
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] != "log" {
			rest = append(rest, line)
		}
		var err error
		switch fields[0] {
		case "log":
			origin, _, _ := strings.Cut(fields[1], "+")
			switch {
			case slices.Contains(p.logs, fields[1]):
				err = errors.New("it names a key twice")
			case p.origin != "" && p.origin != origin:
				err = errors.New("it names a second log")
			}
			p.origin, p.logs = origin, append(p.logs, fields[1])
		case "quorum":
			p.quorum = fields[1] != "none"
		case "witness":
			var m member
			if m, err = readMember(fields[1:]); err != nil {
				break
			}
			key := strings.SplitN(m.verifier.String(), "+", 3)[2]
			if keys[key] { // one party must not count twice
				err = errors.New("two witnesses have one key")
			}
			keys[key], p.witnesses = true, append(p.witnesses, m)
		case "group": // torchwood accepts no cosignature of a witness that counts twice
			for _, child := range fields[3:] {
				if grouped[child] {
					err = fmt.Errorf("%.80q is in a group already", child)
				}
				grouped[child] = true
			}
		}
		if err == nil && max(len(p.witnesses), len(p.logs)) > maxMembers {
			err = fmt.Errorf("it has more than %d witnesses or keys", maxMembers)
		}
		if err != nil {
			return nil, refusal.New("config_malformed", "line %d of the log's policy: %v", i+1, err)
		}
	}
	if len(p.logs) == 0 {
		return nil, refusal.New("config_malformed", "the log's policy names no log")
	}
	var err error
	p.Policy, err = anyKey(p.logs, strings.Join(rest, "\n"))
	return p, err
}

// either is satisfied if one of its policies is. They have the same witnesses.
type either []torchwood.Policy

// anyKey reads a policy that one of the log's keys satisfies, as c2sp.org/tlog-policy has it. Torchwood demands all of
// them. rest are the lines that name no key.
func anyKey(vkeys []string, rest string) (all either, err error) {
	for _, vkey := range vkeys {
		p, err := torchwood.ParsePolicy([]byte("log " + vkey + "\n" + rest))
		if err != nil {
			return nil, refusal.New("config_malformed", "the log's policy: %v", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Check implements [torchwood.Policy].
func (e either) Check(origin string, sigs []note.Signature) (err error) {
	for _, p := range e {
		if err = p.Check(origin, sigs); err == nil {
			return nil
		}
	}
	return err
}

// Verifier implements [torchwood.Policy].
func (e either) Verifier(name string, hash uint32) (v note.Verifier, err error) {
	for _, p := range e {
		if v, err = p.Verifier(name, hash); err == nil {
			return v, nil
		}
	}
	return nil, err
}

func readMember(fields []string) (m member, err error) {
	m.name = fields[0]
	if m.verifier, err = torchwood.NewCosignatureVerifier(fields[1]); err != nil || len(fields) < 3 {
		return m, err
	}
	u, err := url.Parse(fields[2])
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return m, fmt.Errorf("the URL of the witness %.80q must be http or https, without credentials and query",
			m.name)
	}
	m.url = strings.TrimSuffix(u.String(), "/")
	return m, nil
}

// Origin is the name of the log.
func (p *Policy) Origin() string { return p.origin }

// Witnessed reports whether the log's own signature is not enough.
func (p *Policy) Witnessed() bool { return p.quorum }

// URLs returns the witnesses' URLs; some have none.
func (p *Policy) URLs() (all []string) {
	for _, m := range p.witnesses {
		if m.url != "" {
			all = append(all, m.url)
		}
	}
	return all
}

// Names reports whether k is a key of the log.
func (p *Policy) Names(k Key) bool { return slices.Contains(p.logs, k.vkey) }

// Unwitnessed is the policy that the log's own signature satisfies: the word of its operator.
func Unwitnessed(k Key) *Policy { return unwitnessed(k.vkey) }

func unwitnessed(vkeys ...string) *Policy {
	p, err := ParsePolicy([]byte("log " + strings.Join(vkeys, "\nlog ") + "\nquorum none\n"))
	if err != nil {
		panic(err) // the keys' own texts
	}
	return p
}

// Cosignature tells who saw a checkpoint, and when.
type Cosignature struct {
	Witness string    `json:"witness"` // its name in the policy
	Time    time.Time `json:"time"`
}

// maxSeconds is the year 10000: JSON has no later times.
const maxSeconds = 253_402_300_800

// cosigned returns the cosignatures of the policy's witnesses, in the policy's order. n was opened with the policy.
func (p *Policy) cosigned(n *note.Note) (all []Cosignature) {
	for _, m := range p.witnesses {
		for _, s := range n.Sigs {
			if s.Name != m.verifier.Name() || s.Hash != m.verifier.KeyHash() {
				continue
			}
			if at, err := torchwood.CosignatureTimestamp(s); err == nil && at < maxSeconds {
				all = append(all, Cosignature{m.name, time.Unix(at, 0).UTC()})
			}
		}
	}
	return all
}

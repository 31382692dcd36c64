package translog

import (
	"errors"
	"fmt"
	"net/url"
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
	keys      map[string]note.Verifier // of the log, by vkey
	quorum    bool                     // demands witnesses
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
	p := &Policy{keys: make(map[string]note.Verifier)}
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
			var v note.Verifier
			if v, err = note.NewVerifier(fields[1]); err != nil {
				break
			}
			for _, other := range p.keys {
				switch {
				case other.Name() != v.Name():
					err = errors.New("it names a second log")
				case other.KeyHash() == v.KeyHash():
					err = errors.New("it names a key twice")
				}
			}
			p.origin, p.keys[fields[1]] = v.Name(), v
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
		if err == nil && fields[0] != "quorum" && fields[1] == "none" {
			err = errors.New("none has a meaning already: it is the quorum of no witnesses")
		}
		if err == nil && max(len(p.witnesses), len(p.keys)) > maxMembers {
			err = fmt.Errorf("it has more than %d witnesses or keys", maxMembers)
		}
		if err != nil {
			return nil, refusal.New("config_malformed", "line %d of the log's policy: %v", i+1, err)
		}
	}
	if len(p.keys) == 0 {
		return nil, refusal.New("config_malformed", "the log's policy names no log")
	}
	witnessed, err := torchwood.ParsePolicy([]byte(strings.Join(rest, "\n")))
	if err != nil {
		return nil, refusal.New("config_malformed", "the log's policy: %v", err)
	}
	p.Policy = torchwood.ThresholdPolicy(2, signedBy(p.keys), witnessed)
	return p, nil
}

// signedBy is the policy that one of the log's keys satisfies, as c2sp.org/tlog-policy has it. Torchwood's own parser
// demands all of them.
func signedBy(keys map[string]note.Verifier) torchwood.Policy {
	var each []torchwood.Policy
	for _, v := range keys {
		each = append(each,
			torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(v.Name()), torchwood.SingleVerifierPolicy(v)))
	}
	return torchwood.ThresholdPolicy(1, each...)
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
func (p *Policy) Names(k Key) bool { return p.keys[k.vkey] != nil }

// Unwitnessed is the policy that the log's own signature satisfies: the word of its operator.
func Unwitnessed(k Key) *Policy {
	keys := map[string]note.Verifier{k.vkey: k.verifier}
	return &Policy{Policy: signedBy(keys), origin: k.origin, keys: keys}
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

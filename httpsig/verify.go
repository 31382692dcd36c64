package httpsig

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Expected is what a signature must be. Only Tag may be empty.
type Expected struct {
	// Components must all be covered; others may be.
	Components []string
	// by key id
	Keys Keys
	// Tag chooses the message's signature: exactly one must have it. Empty chooses the one without a tag.
	Tag string
	Now time.Time
	// MaxAge bounds the time since the signature was created, and Skew the error of both clocks.
	MaxAge, Skew time.Duration
}

// Signed is a verified signature. It can be verified again without the message: see [Open].
type Signed struct {
	Base      string
	Signature []byte
	Key       ed25519.PublicKey
	Params    Params
}

// Verify verifies m's one signature with the expected tag. It refuses what it does not know.
func Verify(m *Message, want Expected) (s Signed, err error) {
	if len(want.Components) == 0 || len(want.Keys) == 0 || want.Now.IsZero() || want.MaxAge <= 0 || want.Skew <= 0 {
		return s, errors.New("httpsig: an expectation is missing")
	}
	label, covered, p, err := find(m.Header, want.Tag)
	if err != nil {
		return s, err
	}
	if err := p.check(want); err != nil {
		return s, err
	}
	for _, c := range want.Components {
		if err := covers(covered, c); err != nil {
			return s, err
		}
	}
	if s.Signature, err = signature(m.Header, label); err != nil {
		return s, err
	}
	if s.Base, err = m.base(covered); err != nil {
		return s, err
	}
	s.Key, s.Params = want.Keys[p.KeyID], p
	if len(s.Key) == 0 {
		return s, fmt.Errorf("httpsig: the key %.80q is not expected", p.KeyID)
	}
	_, _, err = Open(s.Base, s.Signature, s.Key)
	return s, err
}

// find returns the one signature with a tag.
func find(h http.Header, tag string) (label string, covered httpsfv.InnerList, p Params, err error) {
	inputs, err := dictionary(h, "Signature-Input")
	if err != nil {
		return label, covered, p, err
	}
	found := 0
	for _, name := range inputs.Names() {
		member, _ := inputs.Get(name)
		list, ok := member.(httpsfv.InnerList)
		if !ok {
			return label, covered, p, fmt.Errorf("httpsig: Signature-Input %.80q is not an inner list", name)
		}
		if got, _ := list.Params.Get("tag"); got == tag || got == nil && tag == "" {
			label, covered = name, list
			found++
		}
	}
	if found != 1 {
		return label, covered, p, fmt.Errorf("httpsig: %d signatures have the tag %q instead of one", found, tag)
	}
	p, err = paramsOf(covered)
	return label, covered, p, err
}

func (p Params) check(want Expected) error {
	switch {
	case p.Alg != "" && p.Alg != algorithm:
		return fmt.Errorf("httpsig: the algorithm is %.80q, not %s", p.Alg, algorithm)
	case p.Created.IsZero() || p.Created.After(want.Now.Add(want.Skew)):
		return errors.New("httpsig: the signature has no time of creation, or one in the future")
	case p.Created.Before(want.Now.Add(-want.MaxAge - want.Skew)):
		return errors.New("httpsig: the signature is too old")
	case !p.Expires.IsZero() && !p.Expires.After(want.Now.Add(-want.Skew)):
		return errors.New("httpsig: the signature has expired")
	}
	return nil
}

func covers(covered httpsfv.InnerList, component string) error {
	id, err := parseComponent(component)
	if err != nil {
		return err
	}
	want, err := httpsfv.Marshal(id)
	if err != nil {
		return fmt.Errorf("httpsig: %w", err)
	}
	for _, c := range covered.Items {
		if got, err := httpsfv.Marshal(c); err == nil && got == want {
			return nil
		}
	}
	return fmt.Errorf("httpsig: the signature does not cover %s", want)
}

func signature(h http.Header, label string) ([]byte, error) {
	values, err := dictionary(h, "Signature")
	if err != nil {
		return nil, err
	}
	member, _ := values.Get(label)
	item, _ := member.(httpsfv.Item)
	raw, ok := item.Value.([]byte)
	if !ok {
		return nil, fmt.Errorf("httpsig: the message has no signature %.80q", label)
	}
	return raw, nil
}

// dictionary reads a field that is a dictionary; absent, it is empty.
func dictionary(h http.Header, name string) (*httpsfv.Dictionary, error) {
	lines, size := h.Values(name), 0
	for _, line := range lines {
		size += len(line) + 2
	}
	if size > maxField {
		return nil, fmt.Errorf("httpsig: the field %s has more than %d bytes", name, maxField)
	}
	d, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, fmt.Errorf("httpsig: the field %s: %w", name, err)
	}
	return d, nil
}

// Open verifies a signature over a base, and returns what the base says: the values of its components, by their
// identifiers as "@method;req", and its parameters. Times and key id are for the caller to judge.
func Open(base string, signature []byte, key ed25519.PublicKey) (values map[string]string, p Params, err error) {
	if len(base) > maxBase || len(key) != ed25519.PublicKeySize || !ed25519.Verify(key, []byte(base), signature) {
		return nil, p, errors.New("httpsig: the signature is not by this key over this base")
	}
	lines := strings.Split(base, "\n")
	last, ok := strings.CutPrefix(lines[len(lines)-1], paramsLine)
	if !ok {
		return nil, p, errors.New("httpsig: the base has no parameters")
	}
	list, err := httpsfv.UnmarshalList([]string{last})
	if err != nil || len(list) != 1 {
		return nil, p, errors.New("httpsig: the base's parameters are malformed")
	}
	covered, _ := list[0].(httpsfv.InnerList)
	if again, err := httpsfv.Marshal(covered); err != nil || again != last || len(covered.Items) != len(lines)-1 {
		return nil, p, errors.New("httpsig: the base's parameters are not those of its components")
	}
	values = make(map[string]string)
	for i, id := range covered.Items {
		name, err := httpsfv.Marshal(id)
		if err != nil {
			return nil, p, fmt.Errorf("httpsig: %w", err)
		}
		value, ok := strings.CutPrefix(lines[i], name+": ")
		component := strings.Replace(name[1:], `"`, "", 1)
		if _, twice := values[component]; !ok || twice {
			return nil, p, fmt.Errorf("httpsig: line %d of the base does not belong to %.80s alone", i+1, name)
		}
		values[component] = value
	}
	p, err = paramsOf(covered)
	return values, p, err
}

package httpsig

import (
	"errors"
	"fmt"
	"time"

	"github.com/dunglas/httpsfv"
)

// Params are a signature's parameters (section 2.3). Times are whole seconds; an empty one is left out.
type Params struct {
	Created, Expires       time.Time
	Nonce, KeyID, Alg, Tag string
}

// algorithm is the only one, and the only value of Params.Alg besides none.
const algorithm = "ed25519"

// param is one parameter: a text or a time.
type param struct {
	name string
	text *string
	at   *time.Time
}

func (p *Params) fields() []param {
	return []param{
		{"created", nil, &p.Created}, {"expires", nil, &p.Expires}, {"nonce", &p.Nonce, nil},
		{"keyid", &p.KeyID, nil}, {"alg", &p.Alg, nil}, {"tag", &p.Tag, nil},
	}
}

func (p Params) list(components []string) (l httpsfv.InnerList, err error) {
	l.Params = httpsfv.NewParams()
	for _, c := range components {
		id, err := parseComponent(c)
		if err != nil {
			return l, err
		}
		l.Items = append(l.Items, id)
	}
	for _, f := range p.fields() {
		switch {
		case f.text != nil && *f.text != "":
			l.Params.Add(f.name, *f.text)
		case f.at != nil && !f.at.IsZero():
			l.Params.Add(f.name, f.at.Unix())
		}
	}
	return l, nil
}

// paramsOf refuses parameters that are not known here: they could limit what the signature means.
func paramsOf(l httpsfv.InnerList) (p Params, err error) {
	known := 0
	for _, f := range p.fields() {
		v, ok := l.Params.Get(f.name)
		if !ok {
			continue
		}
		known++
		if f.text != nil {
			*f.text, ok = v.(string)
		} else {
			var at int64
			at, ok = v.(int64)
			*f.at = time.Unix(at, 0)
		}
		if !ok {
			return p, fmt.Errorf("httpsig: the parameter %s is of another type", f.name)
		}
	}
	if known != len(l.Params.Names()) {
		return p, errors.New("httpsig: the signature has a parameter that is not known here")
	}
	return p, nil
}

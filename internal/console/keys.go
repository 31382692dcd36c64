package console

import (
	"net/http"
	"time"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
)

// key is a signing key with its versions, the first first.
type key struct {
	Name, Purpose, Issuer, Custody string
	Exportable                     bool
	Versions                       []keyring.Version
	Chart                          chart
}

type keysPage struct {
	Keys   []key
	Unread []string
	Now    time.Time
}

func (s *Server) keys(r *http.Request) (view, error) {
	p := keysPage{Now: s.Now()}
	var versions []keyring.Version
	var uses told[[]ledger.KeyUse]
	together(
		func() { versions, p.Unread = s.versions(r.Context()) },
		func() { uses = ask[[]ledger.KeyUse](r.Context(), s.Admin, "/v1/ledger/keys") },
	)
	if uses.Err != "" {
		p.Unread = append(p.Unread, uses.Err)
	} else {
		keyring.AddUse(versions, uses.Is)
	}
	for _, v := range versions {
		name := evidence.KeyName(v.KeyID)
		if n := len(p.Keys); n == 0 || p.Keys[n-1].Name != name {
			p.Keys = append(p.Keys, key{Name: name, Purpose: v.Purpose, Issuer: v.Issuer, Custody: v.Custody,
				Exportable: v.Exportable})
		}
		last := &p.Keys[len(p.Keys)-1]
		last.Versions = append(last.Versions, v)
	}
	for i := range p.Keys {
		p.Keys[i].Chart = rotations(p.Keys[i].Versions, p.Now)
	}
	return view{"keys", "Keys", p}, nil
}

// postsBy returns the page with the posts that a version of a key signed. Of an earlier version it begins at the last
// one: to find that among all later posts takes long.
func postsBy(v keyring.Version) string {
	var until string
	if v.Use != nil && v.Use.Posts > 0 && (v.Signs == nil || !*v.Signs) {
		until = v.Use.Last.Add(time.Second).UTC().Format(time.RFC3339)
	}
	return link("/feed", "key", v.KeyID, "until", until)
}

package console

import (
	"net/http"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/ledger"
)

func (s *Server) keys(r *http.Request) (view, error) {
	var all [][]keyring.Version // of each key
	var unread []string
	var versions []keyring.Version
	var uses told[[]ledger.KeyUse]
	together(
		func() { versions, unread = s.versions(r.Context()) },
		func() { uses = ask[[]ledger.KeyUse](r.Context(), s.Admin, "/v1/ledger/keys") },
	)
	if uses.Err != "" {
		unread = append(unread, uses.Err)
	} else {
		keyring.AddUse(versions, uses.Is)
	}
	for i, v := range versions {
		if i == 0 || evidence.KeyName(versions[i-1].KeyID) != evidence.KeyName(v.KeyID) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], v)
	}
	now := s.Now()
	return view{"/keys", "Keys", Group{
		H1(Text("Keys")),
		P(Class("legend"), hue("certified"), Text("certified "), hue("ended"), Text("retired, revoked or ended "),
			hue("used"), Text("from the first to the last post that it signed for")),
		Map(unread, func(why string) Node { return P(Class("banner bad"), say("Not read: %s", why)) }),
		list(all, "No key is known.", Div, "columns wide cards",
			func(versions []keyring.Version) Node { return showKey(versions, now) })}}, nil
}

func showKey(versions []keyring.Version, now time.Time) Node {
	key, exportable := versions[0], ""
	if key.Exportable {
		exportable = ", exportable"
	}
	name := evidence.KeyName(key.KeyID)
	return Section(Class("card"), label(name), H2(code(name)),
		dim(say("signs %s as ", key.Purpose), bdi(key.Issuer), say(" · custody %s%s", key.Custody, exportable)),
		rotations(versions, now).draw(),
		Ul(Class("versions"), Map(versions, func(v keyring.Version) Node {
			says := Group{A(to(postsBy(v)), code(v.KeyID)), space}
			if v.Signs != nil && *v.Signs {
				says = append(says, B(Text("signs now")), Text(" · "))
			}
			says = append(says, text(v.State))
			if v.Until != nil {
				says = append(says, say(" until %s UTC (%s)", stamp(*v.Until), until(*v.Until, now)))
			}
			if v.Created != nil {
				says = append(says, say(" · made %s", stamp(*v.Created)))
			}
			if u := v.Use; u != nil && u.Posts > 0 {
				says = append(says, say(" · %d posts from %s to %s", u.Posts, stamp(u.First), stamp(u.Last)))
			} else if u != nil {
				says = append(says, Text(" · no posts"))
			}
			if v.Revocation != nil {
				says = append(says, say(" · revoked: %s", v.Revocation.Reason))
			}
			return Li(says)
		})))
}

// postsBy returns the page with the posts that a version of a key signed. Of an earlier version it begins at the last
// one: to find that among all later posts takes long.
func postsBy(v keyring.Version) place {
	var until string
	if v.Use != nil && v.Use.Posts > 0 && (v.Signs == nil || !*v.Signs) {
		until = v.Use.Last.Add(time.Second).UTC().Format(time.RFC3339)
	}
	return link("/feed", "key", v.KeyID, "until", until)
}

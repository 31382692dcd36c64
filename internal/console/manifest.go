package console

import (
	"net/http"
	"strconv"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/confine"
	"github.com/actionproof/mediator/policy"
)

// group is the controls of the manifest in one state.
type group struct {
	State, Title, Status string
	Controls             []policy.ObservedControl
}

func (s *Server) manifest(r *http.Request) (view, error) {
	var controls told[[]policy.ObservedControl]
	var confined told[[]admin.Confinement]
	together(
		func() { controls = ask[[]policy.ObservedControl](r.Context(), s.Admin, "/v1/controls") },
		func() { confined = ask[[]admin.Confinement](r.Context(), s.Admin, "/v1/confinement") },
	)
	groups := []group{
		{policy.ObservedFalse, "Observed false: posts are refused until this is mended", bad, nil},
		{policy.ObservedTrue, "Observed true", good, nil},
		{policy.DeclaredOnly, "Only declared: no process can observe it here", declared, nil},
	}
	for _, c := range controls.Is {
		for i := range groups {
			if groups[i].State == c.State {
				groups[i].Controls = append(groups[i].Controls, c)
			}
		}
	}
	return view{"/manifest", "Manifest", Group{
		H1(Text("Manifest")),
		dim(say("%d controls that the deployment's manifest declares, compared with what the processes observe now.",
			len(controls.Is))),
		If(controls.Err != "", alert("The sidecar does not answer: %s", controls.Err)),
		Map(groups, group.show),
		section("confinement", "Confinement of the processes", If(confined.Err != "", P(text(confined.Err))),
			Map(confined.Is, func(c admin.Confinement) Node {
				return Group{H3(say("mediator %s", c.Process)), If(c.Error != "", P(Class("bad"), text(c.Error))),
					Ul(Class("checks"), Map(c.Layers, func(l confine.Layer) Node {
						return tick(l.InForce, text(l.Name), If(!l.InForce, Text(" is not in force")), say(": %s", l.Seen))
					}))}
			}))}}, nil
}

func (g group) show() Node {
	return Section(label(g.Title),
		H2(mark(g.Status), say(" %s ", g.Title), Span(Class("dim"), say("%d", len(g.Controls)))),
		list(g.Controls, "None.", Ul, "controls", func(c policy.ObservedControl) Node {
			return Li(Class(g.Status), B(text(c.Control)), Text(": "), code(strconv.FormatBool(c.Declared)),
				If(len(c.Evidence) > 0, Ul(Map(c.Evidence, func(seen string) Node {
					return Li(If(seen == c.Against, Class("bad")), text(seen))
				}))))
		}))
}

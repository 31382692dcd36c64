package console

import (
	"net/http"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/policy"
)

// group is the controls of the manifest in one state.
type group struct {
	State, Title, Status string
	Controls             []policy.ObservedControl
}

type manifestPage struct {
	Groups      []group
	All         int
	Err         string
	Confinement told[[]admin.Confinement]
}

func (s *Server) manifest(r *http.Request) (view, error) {
	p := manifestPage{}
	var controls told[[]policy.ObservedControl]
	together(
		func() { controls = ask[[]policy.ObservedControl](r.Context(), s.Admin, "/v1/controls") },
		func() { p.Confinement = ask[[]admin.Confinement](r.Context(), s.Admin, "/v1/confinement") },
	)
	p.All, p.Err = len(controls.Is), controls.Err
	p.Groups = []group{
		{policy.ObservedFalse, "Observed false: posts are refused until this is mended", bad, nil},
		{policy.ObservedTrue, "Observed true", good, nil},
		{policy.DeclaredOnly, "Only declared: no process can observe it here", declared, nil},
	}
	for _, c := range controls.Is {
		for i := range p.Groups {
			if p.Groups[i].State == c.State {
				p.Groups[i].Controls = append(p.Groups[i].Controls, c)
			}
		}
	}
	return view{"manifest", "Manifest", p}, nil
}

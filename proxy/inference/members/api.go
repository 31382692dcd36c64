package members

import (
	"maps"
	"strings"
	"sync"
)

// Classes has the class of each name in one place.
type Classes map[string]Class

// API has what a request to one API may hold.
type API struct {
	Request, Tools, Items, Parts Classes
	Config                       Classes // of the request's member that holds settings of the model
	near                         map[string]bool
}

// Near reports whether no unknown member may have this name: a server could read it as a member of its API, or as one
// by which another provider acts or reads content, such as tools.
func (a *API) Near(name string) bool { return a.near[folded(name)] }

// folded returns a name as careless servers compare it.
func folded(name string) string { return separators.Replace(strings.ToLower(name)) }

var separators = strings.NewReplacer("_", "", "-", "")

// Of returns an API by its name, or nil.
func Of(api string) *API { return apis()[api] }

var apis = sync.OnceValue(func() map[string]*API {
	all, risky := make(map[string]*API), make(map[string]bool)
	for place, names := range Known() {
		api, part, _ := strings.Cut(string(place), " ")
		a := all[api]
		if a == nil {
			a = &API{}
			all[api] = a
		}
		switch part {
		case "request":
			a.Request = names
		case "tools":
			a.Tools = names
		case "items":
			a.Items = names
		case "parts":
			a.Parts = names
		default:
			a.Config = names
		}
		for name, class := range names {
			if part == "request" && class != Tuning && class != Metadata {
				risky[folded(name)] = true
			}
		}
	}
	for _, a := range all {
		a.near = maps.Clone(risky)
		for name := range a.Request {
			a.near[folded(name)] = true
		}
	}
	return all
})

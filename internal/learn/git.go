package learn

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/actionproof/mediator/ledger"
)

// The two calls of git's fetch (gitprotocol-http(5)).
const infoRefs, uploadPack = "/info/refs", "/git-upload-pack"

// fetched returns the path of the git repository from which a call fetches, or "". The first call of a push looks like
// that of a fetch.
func fetched(r ledger.Record) string {
	end := infoRefs
	if r.Method == http.MethodPost && r.Carries == "application/x-git-upload-pack-request" {
		end = uploadPack
	} else if r.Method != http.MethodGet || !slices.Equal(r.QueryNames, []string{"service"}) {
		return ""
	}
	repository, ok := strings.CutSuffix(r.Path, end)
	if !ok {
		return ""
	}
	return repository
}

// fetch proposes both calls of a fetch, even if the second was never made because the first was refused.
func (p *Proposal) fetch(repository string, names namer) {
	p.About = fmt.Sprintf("fetches of the git repository %s%s, by POST with a body that passes unread", p.Host, repository)
	rule := Rule{Name: names.name(p.Host, "fetch"),
		Match: Match{URL: p.Host + repository + uploadPack, Methods: []string{http.MethodPost}}}
	p.Normal = []Rule{rule}
	if methods := p.methods(repository + infoRefs); methods != nil {
		p.Normal = append(p.Normal, Rule{Name: names.unique(rule.Name),
			Match: Match{URL: p.Host + repository + infoRefs, Methods: methods}})
	}
	p.Narrow, p.Wide = p.Normal, p.Normal
}

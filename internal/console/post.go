package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/own"
)

// artifact is an artifact of a post with its claims, above those that it rests on.
type artifact struct {
	*records.Artifact
	Claims []claim
	Below  []artifact
}

// claim is one claim of an artifact, and how its signer knows it.
type claim struct{ Name, Value, How string }

// How a signer knows a claim. It says itself what it observed. The claims of the others are its own acts.
const (
	observed = "observed"
	declared = "declared"
	signed   = "signed"
)

type postPage struct {
	admin.Record
	Why      *why
	Results  []Result
	Unjudged string // why there are no results
	Steps    chart
	Evidence []artifact
	Timeline []records.Moment
	Earlier  int // moments that are not shown
	Facts    []fact
}

type fact struct{ Name, Value string }

// maxMoments bounds a timeline on a page.
const maxMoments = 300

func (s *Server) post(r *http.Request) (view, error) {
	found, err := get[admin.Record](r.Context(), s.Admin, "/v1/posts/"+url.PathEscape(r.PathValue("id")))
	if err != nil {
		return view{}, err
	}
	p := postPage{Record: found, Steps: waterfall(found.Record), Facts: facts(found.Record)}
	p.Timeline = records.Timeline(found.Receipts)
	if p.Earlier = max(0, len(p.Timeline)-maxMoments); p.Earlier > 0 {
		p.Timeline = p.Timeline[p.Earlier:]
	}
	if found.Code != "" {
		p.Why = explain(found.Record, ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules)
	}
	p.Evidence = withClaims(records.Chain(found.Artifacts))
	if found.Flow == "post" {
		p.Results, p.Unjudged = s.judge(r.Context(), found)
	}
	return view{"post", found.ID, p}, nil
}

func (s *Server) judge(ctx context.Context, r admin.Record) (results []Result, unjudged string) {
	if s.Judge == nil {
		return nil, "the console was started without the public keys of the two roots"
	}
	results, err := s.Judge(ctx, r)
	if err != nil {
		return nil, err.Error()
	}
	return results, ""
}

// facts are what a record says of its call, without the empty ones.
func facts(r ledger.Record) (all []fact) {
	for _, f := range []fact{{"rule", r.Rule}, {"subject", r.Subject}, {"action", r.Action}, {"resource", r.Resource},
		{"message", r.Message}, {"result", r.Result}, {"query names", strings.Join(r.QueryNames, ", ")},
		{"carries", r.Carries}, {"event", r.Event}, {"content hash", r.ContentHash}, {"binding hash", r.BindingHash},
		{"capability", r.CapabilityID}, {"manifest", r.Manifest}, {"unfit", r.Unfit}} {
		if f.Value != "" {
			all = append(all, f)
		}
	}
	return all
}

func withClaims(all []*records.Artifact) (out []artifact) {
	for _, a := range all {
		out = append(out, artifact{a, claims(a.Token), withClaims(a.RestsOn)})
	}
	return out
}

// registered are the claims that every artifact has. The page shows them by themselves.
var registered = []string{"aud", "exp", "iat", "iss", "jti", "observed"}

// claims reads the claims of a token, which has not been verified.
func claims(token string) (all []claim) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	var seen []string
	says := members["observed"] != nil && json.Unmarshal(members["observed"], &seen) == nil
	for name, value := range members {
		if slices.Contains(registered, name) {
			continue
		}
		how := signed
		if says {
			how = declared
			if slices.Contains(seen, name) {
				how = observed
			}
		}
		all = append(all, claim{name, textOf(value), how})
	}
	slices.SortFunc(all, func(a, b claim) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// textOf returns a JSON value as text: a text without its quotes.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, value) != nil {
		return string(value)
	}
	return compact.String()
}

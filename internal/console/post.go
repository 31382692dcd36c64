package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/cli"
	"github.com/actionproof/mediator/internal/cli/records"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/policy"
	"github.com/actionproof/mediator/proxy/own"
)

// claim is one claim of an artifact, and how its signer knows it.
type claim struct{ Name, Value, How string }

// How a signer knows a claim. It says itself what it observed. The claims of the others are its own acts.
const (
	observed = "observed"
	declared = "declared"
	signed   = "signed"
)

// maxMoments bounds a timeline on a page.
const maxMoments = 300

func (s *Server) post(r *http.Request) (view, error) {
	found, err := get[admin.Record](r.Context(), s.Admin, "/v1/posts/"+url.PathEscape(r.PathValue("id")))
	if err != nil {
		return view{}, err
	}
	moments := records.Timeline(found.Receipts)
	earlier := max(0, len(moments)-maxMoments)
	var rules []own.Rule
	if found.Code != "" {
		rules = ask[own.Rules](r.Context(), s.Admin, "/v1/rules").Is.Rules
	}
	isPost := found.Flow == "post"
	evidence := records.Chain(found.Artifacts)
	return view{"/feed", found.ID, Group{
		H1(Class("title"), state(found.State), space,
			Span(B(text(found.Method)), space, bdi(found.Host+found.Path))),
		dim(code(found.ID), say(" · %s · %s UTC", found.Flow, stamp(found.Started)),
			If(!found.Finished.IsZero(), say(" · %s", took(found.Record))),
			If(found.Status != 0, say(" · answered %d", found.Status)),
			If(found.Session != "", Group{Text(" · "), A(to(under("/sessions/", found.Session)),
				say("session %s", cli.Short(found.Session)))})),
		If(found.Code != "", section("why", "Why it was "+string(found.State), explanation(found.Record, rules))),
		Iff(isPost, func() Node { return s.results(r.Context(), found) }),
		Div(Class("columns wide"),
			Div(
				If(len(evidence) > 0, section("evidence", "Evidence",
					dim(Text("Each artifact is above those that it rests on. "), how(observed),
						Text(" its signer saw it, "), how(declared), Text(" its signer was told, "), how(signed),
						Text(" its signer's own act.")),
					Ul(Class("tree"), Map(evidence, showArtifact)))),
				section("facts", "What was asked", Dl(asked(found.Record)))),
			Div(
				If(len(moments) > 0, section("timeline", "The session up to this call",
					If(earlier > 0, dim(say("%d earlier moments are ", earlier),
						A(to(under("/sessions/", found.Session)), Text("on the session's page")), Text("."))),
					timeline(moments[earlier:], ""))),
				If(len(found.Steps) > 0, section("step-times", "Steps", waterfall(found.Record).draw())),
				If(len(found.Checks) > 0, section("checks", "Checks", Ul(Class("checks"),
					Map(found.Checks, func(c ledger.Check) Node {
						return tick(c.OK, text(c.Name), If(!c.OK, Group{Text(" refused: "), code(c.Code),
							say(" %s", c.Detail)}))
					})))),
				shown(found.Assurance))),
		If(isPost, section("offline", "Verify it without this page", Pre(TabIndex("0"),
			say("mediator posts show %s --json > post.json\nmediator verify post.json --registry registry.jwk "+
				"--auditor auditor.jwk", found.ID))))}}, nil
}

// results shows what mediator verify says of a post.
func (s *Server) results(ctx context.Context, r admin.Record) Node {
	var results []Result
	err := errors.New("the console was started without the public keys of the two roots")
	if s.Judge != nil {
		results, err = s.Judge(ctx, r)
	}
	judged := Node(Dl(Class("results"), Map(results, func(one Result) Node {
		return Group{Dt(text(one.Name)), Dd(Class(one.State), sign(cmp.Or(signs[one.State], "–")), say(" %s", one.Says))}
	})))
	if err != nil {
		judged = P(say("Not verified here: %v", err))
	}
	return section("results", "Four results", dim(Text("Each stands for itself. There is no overall result.")), judged,
		P(code("nonHumanIdentityProven: false"), Text(", always."),
			If(r.State.Outcome(), say(" The outcome is %s.", r.Word()))))
}

var signs = map[string]string{"yes": "✓", "no": "✕"}

func how(known string) Node { return Span(Class("how "+known), Text(known)) }

// shown says what the checks of a record show.
func shown(a *policy.Assurance) Node {
	if a == nil {
		return nil
	}
	return section("assurance", "What the checks show", P(text(strings.ReplaceAll(a.Claim, "_", " "))),
		If(len(a.Issues) > 0, P(say("Missing: %s", strings.Join(a.Issues, ", ")))))
}

// showArtifact shows an artifact with its claims, above those that it rests on.
func showArtifact(a *records.Artifact) Node {
	return Li(
		Details(
			Summary(B(text(a.Name)), space, Span(Class("says"), text(a.Says+a.Unread))),
			If(a.Unread == "", Dl(
				pair("Said by", bdi(a.Issuer), Text(" with key "), code(a.Key)),
				pair("Id", code(a.ID)),
				Map(claims(a.Token), func(c claim) Node { return pair(c.Name, bdi(c.Value), space, how(c.How)) }))),
			P(Class("label"), ID("token-"+a.ID), Text("Token, as signed")),
			Pre(Class("token"), TabIndex("0"), label("Token of "+a.Name), text(a.Token))),
		If(len(a.RestsOn) > 0, Ul(Map(a.RestsOn, showArtifact))))
}

// asked shows what a record says of its call, without what is empty.
func asked(r ledger.Record) (all Group) {
	for _, fact := range [][2]string{{"rule", r.Rule}, {"subject", r.Subject}, {"action", r.Action},
		{"resource", r.Resource}, {"message", r.Message}, {"result", r.Result},
		{"query names", strings.Join(r.QueryNames, ", ")}, {"carries", r.Carries}, {"event", r.Event},
		{"content hash", r.ContentHash}, {"binding hash", r.BindingHash}, {"capability", r.CapabilityID},
		{"manifest", r.Manifest}, {"unfit", r.Unfit}} {
		if fact[1] != "" {
			all = append(all, pair(fact[0], bdi(fact[1])))
		}
	}
	if m := r.Model; m != nil {
		all = append(all, pair("model", bdi(m.API+" "+m.Model), say(", %s", m.Outcome),
			If(m.AnsweredBy != "", Group{Text(", answered by "), bdi(m.AnsweredBy)})))
	}
	for _, t := range r.Tools {
		all = append(all, pair("tool", bdi(t.Name), If(t.Unnamed, Text(" (no rule names it)"))))
	}
	return all
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

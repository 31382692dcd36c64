package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	. "maragu.dev/gomponents"
	. "maragu.dev/gomponents/html"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/reputation/client"
)

// Statuses of a line about the deployment; a declared one is only the configuration's word.
const good, bad, none, unknown = "good", "bad", "none", "unknown"

// line is one fact about the deployment.
type line struct {
	Name, State, Says, Remedy string
}

// end is when something stops being good.
type end struct {
	Name string
	At   time.Time
}

const shownEnds = 8

func (s *Server) now(r *http.Request) (view, error) {
	var sum told[admin.Summary]
	var lines []line
	var unread []string
	var metrics told[admin.Metrics]
	var versions []keyring.Version
	together(
		func() { sum = ask[admin.Summary](r.Context(), s.Admin, "/v1/summary") },
		func() { lines = s.lines(r.Context()) },
		func() { metrics = s.metrics(r.Context()) },
		func() { versions, unread = s.versions(r.Context()) },
	)
	all, now := ends(metrics.Is, versions), s.Now()
	counts := Node(alert("The sidecar does not answer: %s", sum.Err))
	if sum.Err == "" {
		counts = showCounts(sum.Is)
	}
	return view{"/", "Now", Div(following,
		H1(Text("Now")), counts,
		Div(Class("columns"),
			section("deployment", "Deployment",
				Dl(Class("lines"), Map(append(lines, vaultLine(metrics)), func(l line) Node {
					return pair(l.Name, mark(l.State), say(" %s %s", l.Says, l.Remedy))
				}))),
			section("ends", "What ends next",
				Ul(Class("ranking"), Map(all[:min(len(all), shownEnds)], func(e end) Node {
					return Li(Span(text(e.Name)), space, B(at(e.At, until(e.At, now))))
				})),
				If(len(all) > shownEnds, P(A(to("/keys"), say("%d more", len(all)-shownEnds)))),
				Map(unread, func(why string) Node { return dim(say("Not read: %s", why)) }))))}, nil
}

// showCounts shows what a summary counts.
func showCounts(sum admin.Summary) Node {
	none := P(Class("empty"), Text("No call is on record yet."))
	overTime, steps := Node(none), Node(P(Class("empty"), Text("No post is among these calls.")))
	if sum.Calls > 0 {
		overTime = Group{callsOverTime(sum).draw(), P(Class("legend"),
			Map(states, func(s ledger.State) Node { return Group{hue(string(s)), say("%s ", s)} }))}
	}
	if len(sum.Steps) > 0 {
		steps = Group{P(Class("legend"), hue("median"), Text("median "), hue("p95"), Text("95th percentile")),
			stepTimes(sum.Steps).draw()}
	}
	return Group{
		dim(say("The newest %d calls", sum.Calls), If(sum.Calls > 0, say(", since %s UTC", stamp(sum.First))),
			Text(".")),
		Ul(Class("numbers"), Map(states, func(of ledger.State) Node {
			class := string(of)
			if sum.States[of] == 0 {
				class = "zero"
			}
			return Li(Class(class), A(to(link("/feed", "state", string(of))), B(say("%d", sum.States[of])), space,
				state(of), space, Span(Class("dim"), say("%d posts", sum.Posts[of]))))
		})),
		section("over-time", "Calls over time", overTime),
		Div(Class("columns"),
			section("by-code", "Refused and failed, by code", list(sum.Codes, "None.", Ul, "ranking",
				func(c admin.Count) Node {
					return Li(A(to(link("/feed", "code", c.Name)), code(c.Name)), space, B(say("%d", c.Calls)))
				})),
			section("by-agent", "By agent", list(sum.Agents, "None.", Ul, "ranking", func(c admin.Count) Node {
				name := Span(Text("no rule names the agent"))
				if c.Name != "" {
					name = A(to(link("/feed", "agent", c.Name)), bdi(c.Name))
				}
				return Li(name, space, B(say("%d", c.Calls)))
			}))),
		section("steps", "Time of each step of a post", steps)}
}

func (s *Server) metrics(ctx context.Context) told[admin.Metrics] {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return tell(admin.ReadMetrics(ctx, s.Admin))
}

// lines asks the sidecar about itself and what it works with.
func (s *Server) lines(ctx context.Context) []line {
	all := make([]line, 5)
	together(
		func() {
			all[0] = line{"Posts", good, "are possible now", ""}
			if a := ask[any](ctx, s.Admin, "/readyz"); a.Err != "" {
				all[0] = line{"Posts", bad, "would be refused now: " + a.Err, ""}
			}
		},
		func() {
			a := ask[admin.Enforcement](ctx, s.Admin, "/v1/enforcement")
			state := declared
			switch {
			case a.Is.Missing:
				state = bad
			case a.Is.Observed:
				state = good
			}
			all[1] = lineOf("Agents' only way out", a.Err, state, a.Is.Mode+": "+a.Is.Seen)
		},
		func() {
			a := ask[admin.Ledger](ctx, s.Admin, "/v1/ledger")
			all[2] = lineOf("Ledger", a.Err, good, a.Is.Identity.String())
		},
		func() {
			a := ask[*admin.TransparencyLog](ctx, s.Admin, "/v1/log")
			if all[3] = lineOf("Transparency log", a.Err, none, ""); a.Is != nil {
				all[3].Says, all[3].State = a.Is.String(), good
				if len(a.Is.Failures) > 0 || a.Is.Demanded && a.Is.Witnessed == 0 {
					all[3].State = bad
				}
			}
		},
		func() { all[4] = s.nodeLine(ctx) },
	)
	return all
}

func lineOf(name, err, state, says string) line {
	if err != "" {
		return line{Name: name, State: unknown, Says: err}
	}
	return line{Name: name, State: state, Says: says}
}

func (s *Server) nodeLine(ctx context.Context) line {
	a := ask[*client.Status](ctx, s.Admin, "/v1/delivery")
	believed := ask[*admin.Reputation](ctx, s.Admin, "/v1/reputation")
	switch {
	case a.Err != "" || a.Is == nil:
		return lineOf("Node", a.Err, none, "receipts go to no node")
	case a.Is.Away != "":
		return line{Name: "Node", State: bad, Says: "away: " + a.Is.Away}
	case a.Is.Refused > 0:
		return line{Name: "Node", State: bad, Says: "refuses receipts: " + a.Is.Reason}
	case believed.Is != nil && believed.Is.Code != "":
		return line{"Node", bad, "the believed reputation is missing: " + believed.Is.Reason,
			problem.Remedy(believed.Is.Code)}
	}
	return line{Name: "Node", State: good, Says: fmt.Sprintf("%d receipts are on their way", a.Is.Undelivered)}
}

func vaultLine(m told[admin.Metrics]) line {
	var away, logins []string
	for _, v := range m.Is["mediator_vault_reachable"] {
		name := v.Labels["for"]
		if logins = append(logins, name); v.Value == 0 {
			away = append(away, name)
		}
	}
	switch {
	case m.Err != "" || len(logins) == 0:
		return lineOf("Vault", m.Err, none, "the sidecar uses none")
	case len(away) > 0:
		return line{Name: "Vault", State: bad, Says: "does not do what is asked of it for " + strings.Join(away, ", ")}
	}
	return line{Name: "Vault", State: good, Says: "does what is asked of it for " + strings.Join(logins, ", ")}
}

// endings are the metrics that say when something ends, with its name.
var endings = map[string]string{
	"mediator_deployment_certificate_until_seconds": "deployment certificate",
	"mediator_revocation_list_until_seconds":        "revocation list",
	"mediator_tls_certificate_until_seconds":        "the sidecar's TLS certificate",
	"mediator_vault_certificate_until_seconds":      "Vault's certificate",
	"mediator_vault_token_until_seconds":            "Vault token for",
	"mediator_interception_ca_until_seconds":        "interception CA",
}

// ends lists what ends, the first first. Certificates that end in the same minute are one.
func ends(m admin.Metrics, versions []keyring.Version) (all []end) {
	certificates := make(map[time.Time][]string)
	for metric, name := range endings {
		for _, v := range m[metric] {
			all = append(all, end{strings.TrimSpace(name + " " + v.Labels["for"]), time.Unix(int64(v.Value), 0)})
		}
	}
	for _, v := range versions {
		if v.State == keyring.Certified && v.Until != nil {
			certificates[v.Until.Truncate(time.Minute)] = append(certificates[v.Until.Truncate(time.Minute)], v.KeyID)
		}
	}
	for at, kids := range certificates {
		name := "certificate of " + kids[0]
		if len(kids) > 1 {
			name = fmt.Sprintf("certificates of %d keys, such as %s", len(kids), kids[0])
		}
		all = append(all, end{name, at})
	}
	slices.SortFunc(all, func(a, b end) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Name, b.Name)) })
	return all
}

package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

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

type nowPage struct {
	Summary told[admin.Summary]
	States  []stateCount
	Chart   chart
	Steps   chart
	Lines   []line
	Ends    []end
	More    int // ends that are not shown
	Unread  []string
	Now     time.Time
}

type stateCount struct {
	State ledger.State
	Calls int
	Posts int
}

const shownEnds = 8

func (s *Server) now(r *http.Request) (view, error) {
	p := nowPage{Now: s.Now()}
	var metrics told[admin.Metrics]
	var versions []keyring.Version
	together(
		func() { p.Summary = ask[admin.Summary](r.Context(), s.Admin, "/v1/summary") },
		func() { p.Lines = s.lines(r.Context()) },
		func() { metrics = s.metrics(r.Context()) },
		func() { versions, p.Unread = s.versions(r.Context()) },
	)
	for _, state := range states {
		p.States = append(p.States, stateCount{state, p.Summary.Is.States[state], p.Summary.Is.Posts[state]})
	}
	p.Chart, p.Steps = callsOverTime(p.Summary.Is), stepTimes(p.Summary.Is.Steps)
	p.Lines = append(p.Lines, vaultLine(metrics))
	p.Ends = ends(metrics.Is, versions)
	if p.More = len(p.Ends) - shownEnds; p.More > 0 {
		p.Ends = p.Ends[:shownEnds]
	}
	return view{"now", "Now", p}, nil
}

func (s *Server) metrics(ctx context.Context) (m told[admin.Metrics]) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var err error
	if m.Is, err = admin.ReadMetrics(ctx, s.Admin); err != nil {
		m.Err = err.Error()
	}
	return m
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

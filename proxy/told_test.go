package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/gate"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/proxy/intercept"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// inside is a name in the deployment that an agent may not learn.
const inside = "runtime-key:v3"

// insideErrors are errors of each step, each with a name of the deployment.
func insideErrors(t *testing.T) map[string]error {
	t.Helper()
	away := wire.Peer{HTTP: &http.Client{Transport: refusing{}}, Name: "the control plane at " + inside,
		Unavailable: "process_unavailable"}
	errs := map[string]error{
		"the custody denies": custody.Unavailable(io.EOF,
			"Vault denies it to this role (403): update on transit/sign/%s", inside),
		"the key is another": custody.Unfit("the key %s is of another type", inside),
		"no credential":      custody.Unavailable(io.EOF, "the secret kv/data/%s cannot be read", inside),
		"the ledger is full": ledger.Unavailable("commit",
			errors.New("INSERT INTO "+inside+": database or disk is full (13)")),
		"it was used before": &ledger.ConsumedError{Key: ledger.Key{Kind: "capability", ID: inside}},
		"no control plane":   away.Call(t.Context(), "http://control.invalid/", nil, nil),
		"what another process has": &problem.Error{
			Details: problem.Details{Code: "key_unknown", Detail: inside + " is unknown"}},
		"no code": errors.New(inside),
	}
	for _, c := range problem.Codes() {
		r := refusal.New(c.Name, "the sentence")
		if !c.Public {
			r = refusal.New(c.Name, "the sentence has %s", inside)
		}
		errs[c.Name] = r.ForOperator("the operator's part has %s", inside)
	}
	return errs
}

type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("dial unix /run/" + inside + ": connection refused")
}

// wantNothingTold demands that answer and record agree, and that only the record has the name.
func (p *postRig) wantNothingTold(t *testing.T, answer string, err error) {
	t.Helper()
	var d problem.Details
	rec, _ := p.record.last()
	if json.Unmarshal([]byte(answer), &d) != nil || d.Post != rec.ID || d.Code != rec.Code {
		t.Fatalf("%v: the agent got %s, and the record is %+v", err, answer, rec)
	}
	if strings.Contains(answer, inside) {
		t.Errorf("%v: the agent is told %s", err, answer)
	}
	if full := problem.DetailsOf(err); rec.Code != full.Code || rec.Reason != full.Detail || full.Code != "internal" &&
		!strings.Contains(rec.Reason, inside) {
		t.Errorf("%v: the record has %s: %q", err, rec.Code, rec.Reason)
	}
}

// Names of keys, files, processes and databases are for the record alone.
func TestNoRefusalTellsTheAgentOfTheDeployment(t *testing.T) {
	all := insideErrors(t)
	p := newPostRig(t, created, func(o *PipelineOptions, _ []rules.Action) {
		o.Load = unlimited
		o.Standing, o.Load.Unknown = true, 1000 // for calls after the session's end
	})
	for _, step := range []string{"deployment", "challenge", "trigger", "decision", "gate", "proof"} {
		for _, err := range all {
			p.roles.fail[step] = err
			_, answer := p.send("POST", "/posts", "{}")
			p.wantNothingTold(t, answer, err)
		}
		delete(p.roles.fail, step)
	}
	for _, err := range all {
		p.record.fail = err
		_, answer := p.send("POST", "/posts", "{}")
		p.wantNothingTold(t, answer, err)
		p.record.fail, p.record.full = nil, err
		_, answer = p.send("GET", "/x", "")
		p.wantNothingTold(t, answer, err)
		p.record.full = nil
	}
	if len(p.sent) > 0 {
		t.Errorf("the upstream saw %d calls", len(p.sent))
	}
	for _, err := range all {
		p.roles.fail["claim"] = err
		_, answer := p.send("GET", ownURL+"/v1/event/next?wait=0s", "")
		p.wantNothingTold(t, answer, err)
	}
}

func TestNoRefusedConnectTellsTheAgentOfTheDeployment(t *testing.T) {
	p := newPostRig(t, created, nil)
	for _, err := range insideErrors(t) {
		for name, refuse := range map[string]func(w http.ResponseWriter, r *http.Request){
			"the connection layer": func(w http.ResponseWriter, r *http.Request) { p.pipeline.Refuse(w, r, err) },
			"the destination": func(w http.ResponseWriter, r *http.Request) {
				p.pipeline.o.Destination = func(context.Context, upstream.Target, netip.Addr) error { return err }
				target, _ := upstream.ParseOrigin("https", strings.TrimPrefix(p.base, "https://"))
				r = r.WithContext(
					intercept.WithRoute(r.Context(),
						intercept.Route{Target: target, Original: netip.MustParseAddrPort("192.0.2.1:443")}))
				_, refused := p.pipeline.Connect(r, target)
				p.pipeline.Refuse(w, r, refused)
			},
		} {
			w := httptest.NewRecorder()
			refuse(w, httptest.NewRequest(http.MethodConnect, "a.example.com:443", nil))
			t.Run(name, func(t *testing.T) { p.wantNothingTold(t, w.Body.String(), err) })
		}
	}
}

// An API that takes part refuses in its own words, even with a code whose sentences agents may read.
func TestAnAPIsWordsAreForTheRecord(t *testing.T) {
	for _, code := range []string{"challenge_refused", "key_unknown", "quota"} {
		api := http.Client{Transport: saying(`{"code":"` + code + `","detail":"see ` + inside + `"}`)}
		client, err := gate.NewClient(
			gate.ClientOptions{ChallengeURL: "https://api.invalid/c", VerifyURL: "https://api.invalid/v", HTTP: &api,
				Now: time.Now})
		must(t, err)
		p := newPostRig(t, created, func(_ *PipelineOptions, actions []rules.Action) {
			actions[0].Gate, actions[0].TakesPart = client, true
		})
		_, answer := p.send("POST", "/posts", "{}")
		_, err = client.Challenge(t.Context(), evidence.Binding{})
		p.wantNothingTold(t, answer, err)
	}
}

// saying is an API that refuses everything with one document.
type saying string

func (s saying) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusForbidden, Body: io.NopCloser(strings.NewReader(string(s)))}, nil
}

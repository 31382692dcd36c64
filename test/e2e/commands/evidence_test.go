package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/archive"
	"github.com/actionproof/mediator/ledger"
	"github.com/actionproof/mediator/ledger/sqlite"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/reputation/accrual"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
	"github.com/actionproof/mediator/test/gatetest"
	"github.com/actionproof/mediator/test/ledgertest"
	"github.com/actionproof/mediator/test/nodetest"
	"github.com/actionproof/mediator/translog"
)

func writeEvidence(t *testing.T) string {
	t.Helper()
	dir, k := t.TempDir(), gatetest.New(t)
	manifest, err := k.Manifest.Canonical()
	check.Must(t, err)
	kit.Write(t, dir+"/manifest.yaml", manifest)
	bundle := evidence.Bundle{DeploymentCertificate: k.Deployment}
	k.Observe(t)
	k.Appraiser(t)
	for _, purpose := range append(slices.Clone(gatetest.Roles), evidence.PurposeInteraction, evidence.PurposeAppraiser) {
		bundle.Certificates = append(bundle.Certificates, k.Certificates[purpose])
	}
	registry, auditor := k.Key(t, evidence.PurposeSignerCertificate), k.Key(t, evidence.PurposeDeploymentCertificate)
	steering := k.Post(t)
	steering.Artifacts[3].Token = gatetest.Resign(t, k, evidence.PolicyDecisionKind(), steering.Artifacts[3].Token,
		"rule", "\x1b[2Jposts\nrequest proof\u202e")
	for name, v := range map[string]any{
		"steering.json": steering,
		"trust.json":    bundle, "registry.jwk": jwk(registry), "auditor.jwk": jwk(auditor), "record.json": k.Post(t),
		"other.json": k.Post(t),
	} {
		kit.Write(t, filepath.Join(dir, name), indented(t, v))
	}
	writeLedger(t, k, dir+"/ledger.db")
	writeLogged(t, k, dir)
	writeReceipts(t, k, dir)
	writeScores(t, k, dir)
	return dir
}

// writeScores writes scores in the form that reputation show score --json prints.
func writeScores(t *testing.T, k *gatetest.Kit, dir string) {
	t.Helper()
	n := nodetest.New(t, k, nil, func(o *reputation.Options) {
		o.Verified = func(context.Context, accrual.Agent) (*accrual.Verified, error) { return k.Verified(), nil }
	})
	for i := range 2 {
		id := fmt.Sprint("ses_before_", i)
		s := n.Calls(t, id, 10)
		s.Close(t)
		n.Delivered(t, 12, s.Receipts...)
	}
	n.Sampled(t)
	for _, id := range []string{"ses_closed", "ses_open"} {
		issued, err := n.Issue(t.Context(), n.By(t, id))
		check.Must(t, err)
		raw, hash := nodetest.Plan(t, issued.Nonce, nil)
		_, err = n.Commit(t.Context(), n.By(t, id), issued.Nonce, hash)
		check.Must(t, err)
		ref := interaction.ChallengeRef{ChallengeNonce: issued.Nonce, CommitmentHash: hash}
		s := k.Session(t, id)
		for call := range 12 {
			s.Call(t, func(c *interaction.Receipt) {
				ref.CommitmentRevealed = call == 11
				named := ref
				c.Challenge, c.ActionType = &named, interaction.ActionChallengeResponse
			})
		}
		_, err = n.Reveal(t.Context(), n.By(t, id), issued.Nonce, nodetest.Salt, raw)
		check.Must(t, err)
		if id == "ses_closed" {
			s.Close(t)
		}
		n.Delivered(t, int64(len(s.Receipts))+1, s.Receipts...)
		answer, err := n.SessionScore(t.Context(), "", id)
		check.Must(t, err)
		revealed, err := n.Revealed(t.Context(), "", id)
		check.Must(t, err)
		score := archive.Score{Score: answer.Score, Token: answer.Token, Revealed: revealed}
		baseline, err := n.Baseline(t.Context(), n.Scored(t, id).BaselineHash)
		check.Must(t, err)
		check.Must(t, json.Unmarshal(baseline, &score.Baseline))
		kit.Write(t, filepath.Join(dir, id+".json"), indented(t, score))
		kit.Write(t, filepath.Join(dir, id+".jwt"), answer.Token+"\n")
		kit.Write(t, filepath.Join(dir, id+".txt"), strings.Join(s.Receipts, "\n")+"\n")
	}
	check.Must(t, n.Enter(t.Context()))
	reputed, err := n.Reputation(t.Context(), k.Agent(t).String())
	check.Must(t, err)
	kit.Write(t, dir+"/reputation.json", indented(t, reputed))
	kit.Write(t, dir+"/reputation.jwt", reputed.Token+"\n")
}

func writeReceipts(t *testing.T, k *gatetest.Kit, dir string) {
	t.Helper()
	s := k.Session(t, "ses_1")
	s.Call(t, nil)
	s.Call(t, nil)
	head := s.Head("post_open")
	post := k.PostOf(t, gatetest.Claim(evidence.PurposeAgentSession, "interactions", head))
	record := struct {
		ledger.Record
		Receipts []string `json:"receipts"`
	}{post, s.Receipts}
	kit.Write(t, dir+"/observed.json", indented(t, record))
	record.Receipts = nil
	kit.Write(t, dir+"/bare.json", indented(t, record))
	l, err := sqlite.Open(t.Context(), dir+"/observed.db", sqlite.Options{Now: k.Clock.Now})
	check.Must(t, err)
	defer l.Close()
	check.Must(t, l.Add(t.Context(), post))
	for i, token := range s.Receipts {
		check.Must(t, l.AddReceipts(t.Context(), ledger.Receipt{Session: "ses_1", Number: int64(i + 1),
			Call: fmt.Sprint("post_", i), Signed: k.Clock.Now(), Token: token}))
	}
	s.Close(t)
	kit.Write(t, dir+"/receipts.txt", strings.Join(s.Receipts, "\n")+"\n")
}

func indented(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", "  ")
	check.Must(t, err)
	return raw
}

func writeLedger(t *testing.T, k *gatetest.Kit, path string) {
	t.Helper()
	l, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: k.Clock.Now})
	check.Must(t, err)
	defer l.Close()
	for i := range 3 {
		p := k.Post(t)
		p.ID, p.Started = fmt.Sprint("post_", i+1), k.Clock.Now().Add(time.Duration(i)*time.Second)
		if p.Finished = p.Started; i == 2 {
			p.Subject = "agent:mallory"
		}
		check.Must(t, l.Add(t.Context(), p))
	}
	read := ledger.Record{ID: "post_4", Flow: "egress", State: ledger.StateForwarded, Started: k.Clock.Now()}
	check.Must(t, l.Add(t.Context(), read))
}

// writeLogged writes a ledger with a transparency log, that log's files, an earlier checkpoint, and its policy.
func writeLogged(t *testing.T, k *gatetest.Kit, dir string) {
	t.Helper()
	l, err := sqlite.Open(t.Context(), dir+"/logged.db", sqlite.Options{Now: k.Clock.Now, Logged: func() {}})
	check.Must(t, err)
	defer l.Close()
	o, err := ledgertest.LogOptions()
	check.Must(t, err)
	log, err := translog.New(t.Context(), l, o)
	check.Must(t, err)
	get := func(path string) []byte {
		w := httptest.NewRecorder()
		translog.Handler(l).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/"+path, nil))
		return w.Body.Bytes()
	}
	defer k.Clock.Set(k.Clock.Now())
	for i := range 3 {
		k.Clock.Advance(time.Second)
		p := k.Post(t)
		p.ID, p.State = fmt.Sprint("post_", i+1), ledger.StateForwarding
		check.Must(t, l.Begin(t.Context(), p))
		p.State, p.Status = ledger.StateForwarded, 201
		check.Must(t, l.Finish(t.Context(), p), log.Publish(t.Context()))
		if i == 1 {
			kit.Write(t, dir+"/seen", get("checkpoint"))
		}
	}
	for _, name := range []string{"checkpoint", "tile/0/000.p/4", "tile/0/000.p/6", "tile/entries/000.p/4",
		"tile/entries/000.p/6"} {
		path := filepath.Join(dir, "log", name)
		check.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		kit.Write(t, path, get(name))
	}
	kit.Write(t, dir+"/log-policy", "log "+o.Key.String()+"\nquorum none\n")
}

func jwk(key custody.Version) map[string]string {
	return map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": key.KeyID(),
		"x": evidence.EncodePublicKey(key.Public())}
}

func TestEvidenceOfARealPost(t *testing.T) {
	t.Parallel()
	r := kit.NewClientsRig(t, kit.ManyPosts)
	post := []string{kit.Need(t, "curl"), "-sS", "-H", "Content-Type: application/json", "-d", kit.Comment,
		"https://" + r.Plain() + kit.Comments}
	twice := slices.Concat(post, []string{"--next"}, post[1:]) // in one session
	if out, err := r.AsAgent(t, twice...); err != nil {
		t.Fatalf("%s %v", out, err)
	}
	posts := r.Records(t, "state=forwarded")
	if len(posts) != 2 {
		t.Fatalf("%d posts", len(posts))
	}
	if said := r.VerifyRecord(t, posts[0].ID); !strings.Contains(said,
		"The session receipt names interaction receipt 1 (") {
		t.Errorf("the second post rests on the receipt of the first: %s", said)
	}
}

func TestEvidenceReceipts(t *testing.T) {
	t.Parallel()
	l, path := fillLedger(t, 1)
	want := ""
	receipts := make([]ledger.Receipt, ledger.MaxChain+7)
	for i := range receipts {
		receipts[i] = ledger.Receipt{Session: "ses_1", Number: int64(i + 1), Call: fmt.Sprint("call_", i),
			Signed: recordsFrom, Token: fmt.Sprint("token-", i)}
		want += receipts[i].Token + "\n"
	}
	check.Must(t, l.AddReceipts(t.Context(), receipts...))
	for _, from := range [][]string{{"--admin", serveRecords(t, l)}, {"--ledger", path}} {
		export := func(session string) kit.Ended {
			return kit.Mediator(t, append([]string{"posts", "export", "--receipts", "--session", session}, from...)...)
		}
		if e := export("ses_1").Done(); e.Out != want {
			t.Errorf("%v: %d of %d bytes", from, len(e.Out), len(want))
		}
		if e := export("ses_2").Refused("not_found"); e.Out != "" {
			t.Errorf("%v: %q", from, e.Out)
		}
	}
}

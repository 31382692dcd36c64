package vectors_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/cloudflare/circl/sign/ed25519"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/reputation/verification"
)

type verificationVector struct {
	Name    string `json:"name"`
	Token   string `json:"token"`
	Verdict string `json:"verdict"`
}

type possessionJSON struct {
	PEM       string `json:"pem"`
	DID       string `json:"did"`
	DIDKey    string `json:"didKey"`
	Nonce     string `json:"nonce"`
	Payload   string `json:"payload"`
	Signature string `json:"signature"`
}

type verificationsFile struct {
	About       string               `json:"about"`
	At          int64                `json:"at"`
	Skew        int64                `json:"skew"`
	Trust       trustJSON            `json:"trust"`
	Expected    expectedJSON         `json:"expected"`
	Possession  possessionJSON       `json:"possession"`
	Trace       verification.Trace   `json:"trace"`
	RFC6962Root string               `json:"rfc6962Root"`
	Vectors     []verificationVector `json:"vectors,omitempty"`
}

const vectorPEM = "-----BEGIN PUBLIC " +
	"KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n"

func possession() possessionJSON {
	key := must(verification.ParseKey(vectorPEM))
	private := ed25519.NewKeyFromSeed(
		must(hex.DecodeString("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")))
	nonce := evidence.HashBytes([]byte("nonce"))
	return possessionJSON{vectorPEM, key.DID(), key.DIDKey(), nonce, "pay|load",
		hex.EncodeToString(ed25519.Sign(private, []byte(nonce+"|pay|load")))}
}

func vectorTrace() verification.Trace {
	var t verification.Trace
	mustDo(json.Unmarshal(must(os.ReadFile("../../reputation/verification/testdata/seed.json")), &t))
	fourth := verification.Turn{ToolCall: "search_plugins", Input: `{"query":"0123abcd"}`,
		Output: `{"results":[],"canary":"canary-0"}`, Reasoning: "search_plugins adds canary-0 to what I know.",
		Timestamp: 1700000006000}
	fourth.Hash = fourth.HashAfter(t.Turns[2].Hash)
	t.Turns = append(t.Turns, fourth)
	hashes := make([]string, len(t.Turns))
	for i, turn := range t.Turns {
		hashes[i] = turn.Hash
	}
	t.MerkleRoot = verification.MerkleRoot(hashes)
	t.Attestation = verification.Attestation(t.MerkleRoot, t.SessionID)
	return t
}

func (d deployment) result() verification.Result {
	r, p, t := d.roles[evidence.PurposeAppraiser], possession(), vectorTrace()
	claims := verification.Result{
		Registered: evidence.Registered{Audience: r.audience, Issuer: r.issuer, ID: "verification-result", IssuedAt: at,
			Expires: at + 86400},
		KeyClaims: custodyClaims, Session: t.SessionID, Nonce: p.Nonce, Subject: "agent:worker-1",
		SubjectBasis: verification.BasisObserved,
		PublicKey:    evidence.EncodePublicKey(must(hex.DecodeString(must(verification.ParseKey(p.PEM)).String()))),
		DID:          p.DID,
		DIDKey:       p.DIDKey,
		Task:         "survey", Mode: string(verification.ModeObserved), Score: verification.MaxScore,
		MaxScore: verification.MaxScore, ObservedAll: true,
		ModelCalls: verification.ModelCalls{Basis: verification.BasisObserved, BeforeTurn: []int64{1, 0, 2, 1}}, Turns: 4,
		FirstTurn: (at - 60) * 1000, LastTurn: (at - 50) * 1000,
		Reasoning: verification.Reasoning{Basis: verification.BasisDeclared, By: verification.ByKeywords, Coverage: 400,
			Band: verification.BandFull},
		Gates: []verification.Gate{
			{Name: verification.GateOrchestrate, Status: verification.GateNotConfigured},
			{Name: verification.GateGovern, Status: verification.GatePassed},
			{Name: verification.GateEnforce, Status: verification.GateUnavailable, Reason: "timeout", Score: 100},
		},
		Degraded: true, MerkleRoot: t.MerkleRoot, Attestation: t.Attestation, RFC6962Root: t.RFC6962Root(),
		Probabilistic: true,
	}
	for _, c := range []struct {
		name   string
		points int64
	}{
		{verification.CheckTurns, 25}, {verification.CheckDuration, 10}, {verification.CheckTools, 15},
		{verification.CheckChain, 20}, {verification.CheckMerkle, 10},
		{verification.CheckAttestation, 10}, {verification.CheckFollowUp, 15},
	} {
		claims.Checks = append(claims.Checks,
			verification.Check{Name: c.name, Basis: verification.BasisObserved, Points: c.points, Most: c.points})
	}
	return claims
}

func (d deployment) verificationsVectors() verificationsFile {
	d, r := d.with(evidence.PurposeAppraiser, "mediator-reputation", "policy-engine", "appraiser-key")
	f := verificationsFile{
		About: "Verifications: see docs/vectors.md, Verification results.", At: at + 3600, Skew: 2, Trust: d.trusting(r),
		Expected: r.expected(86400), Possession: possession(), Trace: vectorTrace(), RFC6962Root: vectorTrace().RFC6962Root(),
	}
	add := func(name, verdict string, edit func(*verification.Result)) {
		c := d.result()
		edit(&c)
		token := d.signed(evidence.PurposeAppraiser, verification.Kind.Typ, canonicalOf(c), nil)
		f.Vectors = append(f.Vectors, verificationVector{name, token, verdict})
	}
	type result = verification.Result
	malformed := func(name string, edit func(*result)) { add(name, "artifact_malformed", edit) }
	add("valid", "ok", func(*result) {})
	add("valid, with a declared check in the mode seed", "ok", func(c *result) {
		c.Mode, c.Checks[1].Basis, c.ObservedAll = "seed", "declared", false
	})
	add("valid, of a caller that no sidecar names", "ok", func(c *result) {
		c.SubjectBasis, c.ModelCalls = "declared", verification.ModelCalls{Basis: "not_measured"}
	})
	add("valid, privileged with little coverage", "ok", func(c *result) {
		c.Privileged, c.Reasoning.Coverage, c.Reasoning.Band, c.Turns = true, 125, "marginal", 3
		c.ModelCalls.BeforeTurn = []int64{0, 0, 0}
	})
	malformed("valid for longer than a day", func(c *result) { c.Expires++ })
	malformed("that claims that no human was involved", func(c *result) { c.NonHumanIdentityProven = true })
	malformed("that claims more than a likelihood", func(c *result) { c.Probabilistic = false })
	malformed("with a declared check in the mode observed", func(c *result) {
		c.Checks[1].Basis, c.ObservedAll = "declared", false
	})
	malformed("with a declared check that calls all observed", func(c *result) {
		c.Mode, c.Checks[1].Basis = "seed", "declared"
	})
	malformed("with an unknown mode", func(c *result) { c.Mode = "strict" })
	malformed("with a check left out", func(c *result) { c.Checks = c.Checks[1:] })
	malformed("with checks in another order", func(c *result) { c.Checks[0], c.Checks[1] = c.Checks[1], c.Checks[0] })
	malformed("with a check that was not passed", func(c *result) { c.Checks[1].Points, c.Score = 0, 95 })
	malformed("with another score", func(c *result) { c.Score = 104 })
	malformed("with a greater best score", func(c *result) { c.MaxScore = 100 })
	malformed("with observed reasoning", func(c *result) { c.Reasoning.Basis = "observed" })
	malformed("with another band than its coverage", func(c *result) { c.Reasoning.Band = "marginal" })
	malformed("with a gate left out", func(c *result) { c.Gates = c.Gates[:2] })
	malformed("that hides a gate that was away", func(c *result) { c.Degraded = false })
	malformed("although orchestration failed", func(c *result) { c.Gates[0].Status = "failed" })
	malformed("although governance refused", func(c *result) { c.Gates[1].Status = "failed" })
	malformed("with a root that is no hash", func(c *result) { c.RFC6962Root = "00" })
	malformed("with two turns", func(c *result) { c.Turns = 2 })
	malformed("whose last turn came first", func(c *result) { c.LastTurn = c.FirstTurn - 1 })
	malformed("that observes model calls of a caller that no sidecar names", func(c *result) {
		c.SubjectBasis = "declared"
	})
	malformed("with model calls of three turns out of four", func(c *result) {
		c.ModelCalls.BeforeTurn = c.ModelCalls.BeforeTurn[1:]
	})
	malformed("with fewer model calls than none", func(c *result) { c.ModelCalls.BeforeTurn[1] = -1 })
	malformed("with declared model calls", func(c *result) { c.ModelCalls.Basis = "declared" })
	malformed("with model calls that were not measured", func(c *result) { c.ModelCalls.Basis = "not_measured" })
	malformed("without a subject", func(c *result) { c.Subject = "" })
	return f
}

func (f verificationsFile) judge() (out []judged) {
	const file = "verifications.json"
	verifier := must(f.Trust.verifier(f.At))
	for _, v := range f.Vectors {
		_, err := evidence.Open(verifier, verification.Kind, v.Token, f.Expected.expected())
		out = append(out, judged{file, v.Name, v.Verdict, codeOf(err)})
	}
	return append(out, judged{file, "possession", "ok", f.possession()}, judged{file, "trace", "ok", f.trace()})
}

func (f verificationsFile) possession() string {
	p := f.Possession
	key, err := verification.ParseKey(p.PEM)
	if err == nil {
		err = key.Possesses(p.Nonce, p.Payload, p.Signature)
	}
	if err == nil && (key.DID() != p.DID || key.DIDKey() != p.DIDKey) {
		return "another name"
	}
	return codeOf(err)
}

func (f verificationsFile) trace() string {
	previous := verification.ChainSeed
	var hashes []string
	for _, turn := range f.Trace.Turns {
		if turn.HashAfter(previous) != turn.Hash {
			return "another hash of a turn"
		}
		previous, hashes = turn.Hash, append(hashes, turn.Hash)
	}
	root := verification.MerkleRoot(hashes)
	if root != f.Trace.MerkleRoot || verification.Attestation(root, f.Trace.SessionID) != f.Trace.Attestation ||
		f.Trace.RFC6962Root() != f.RFC6962Root {
		return "another root or attestation"
	}
	return "ok"
}

func TestVerifications(t *testing.T) {
	const again = `import { checkPossession, checkTrace } from './js/verification.mjs';
const f = JSON.parse(process.argv[1]);
try { checkPossession(f.possession); checkTrace(f.trace, f.rfc6962Root); } catch (e) { console.log(e.code); }`
	for name, edit := range map[string]func(f *verificationsFile){
		"did":         func(f *verificationsFile) { f.Possession.DID += "0" },
		"did:key":     func(f *verificationsFile) { f.Possession.DIDKey += "0" },
		"payload":     func(f *verificationsFile) { f.Possession.Payload += "0" },
		"turn":        func(f *verificationsFile) { f.Trace.Turns[3].Output += " " },
		"root":        func(f *verificationsFile) { f.Trace.MerkleRoot = otherHash },
		"attestation": func(f *verificationsFile) { f.Trace.Attestation = otherHash },
		"RFC 6962":    func(f *verificationsFile) { f.RFC6962Root = otherHash },
	} {
		f := read[verificationsFile]("verifications.json")
		edit(&f)
		if f.possession() == "ok" && f.trace() == "ok" {
			t.Errorf("another %s: nobody notices", name)
		}
		out, err := exec.Command("node", "--input-type=module", "--eval", again,
			string(must(json.Marshal(f)))).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got == "" {
			t.Errorf("another %s: the verifier in js does not notice: %v", name, err)
		}
	}
}

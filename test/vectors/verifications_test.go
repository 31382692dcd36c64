package vectors_test

import (
	"encoding/hex"
	"encoding/json"
	"maps"
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

func (f verificationsFile) marshal() []byte {
	vectors := f.Vectors
	f.Vectors = nil
	return oneAVector(f, anys(vectors))
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
	d.roles = maps.Clone(d.roles)
	r := role{evidence.PurposeAppraiser, "mediator-reputation", "policy-engine", newKey("appraiser-key:v1")}
	d.roles[evidence.PurposeAppraiser] = r
	f := verificationsFile{
		About: "Verifications: see docs/vectors.md, Verification results.", At: at + 3600, Skew: 2, Trust: d.trust(),
		Expected: expectedJSON{Issuers: []string{r.issuer}, Audiences: []string{r.audience},
			KeyIDs: []string{"appraiser-key"}, MaxAge: 86400,
			Custody: []string{evidence.CustodyExternalMediator, evidence.CustodyHardwareBacked}, RequireNonExportable: true},
		Possession: possession(), Trace: vectorTrace(), RFC6962Root: vectorTrace().RFC6962Root(),
	}
	f.Trust.Certificates = append(f.Trust.Certificates, d.certificate(r, nil))
	add := func(name, verdict string, edit func(*verification.Result)) {
		c := d.result()
		edit(&c)
		token := d.signed(evidence.PurposeAppraiser, verification.Kind.Typ, canonicalOf(c), nil)
		f.Vectors = append(f.Vectors, verificationVector{name, token, verdict})
	}
	const malformed = "artifact_malformed"
	add("valid", "ok", func(*verification.Result) {})
	add("valid, with a declared check in the mode seed", "ok", func(c *verification.Result) {
		c.Mode, c.Checks[1].Basis, c.ObservedAll = "seed", "declared", false
	})
	add("valid, of a caller that no sidecar names", "ok", func(c *verification.Result) {
		c.SubjectBasis, c.ModelCalls = "declared", verification.ModelCalls{Basis: "not_measured"}
	})
	add("valid, privileged with little coverage", "ok", func(c *verification.Result) {
		c.Privileged, c.Reasoning.Coverage, c.Reasoning.Band, c.Turns = true, 125, "marginal", 3
		c.ModelCalls.BeforeTurn = []int64{0, 0, 0}
	})
	add("valid for longer than a day", "artifact_malformed", func(c *verification.Result) { c.Expires++ })
	add("that claims that no human was involved", malformed, func(c *verification.Result) {
		c.NonHumanIdentityProven = true
	})
	add("that claims more than a likelihood", malformed, func(c *verification.Result) { c.Probabilistic = false })
	add("with a declared check in the mode observed", malformed, func(c *verification.Result) {
		c.Checks[1].Basis, c.ObservedAll = "declared", false
	})
	add("with a declared check that calls all observed", malformed, func(c *verification.Result) {
		c.Mode, c.Checks[1].Basis = "seed", "declared"
	})
	add("with an unknown mode", malformed, func(c *verification.Result) { c.Mode = "strict" })
	add("with a check left out", malformed, func(c *verification.Result) { c.Checks = c.Checks[1:] })
	add("with checks in another order", malformed, func(c *verification.Result) {
		c.Checks[0], c.Checks[1] = c.Checks[1], c.Checks[0]
	})
	add("with a check that was not passed", malformed, func(c *verification.Result) {
		c.Checks[1].Points, c.Score = 0, 95
	})
	add("with another score", malformed, func(c *verification.Result) { c.Score = 104 })
	add("with a greater best score", malformed, func(c *verification.Result) { c.MaxScore = 100 })
	add("with observed reasoning", malformed, func(c *verification.Result) { c.Reasoning.Basis = "observed" })
	add("with another band than its coverage", malformed, func(c *verification.Result) { c.Reasoning.Band = "marginal" })
	add("with a gate left out", malformed, func(c *verification.Result) { c.Gates = c.Gates[:2] })
	add("that hides a gate that was away", malformed, func(c *verification.Result) { c.Degraded = false })
	add("although governance refused", malformed, func(c *verification.Result) { c.Gates[1].Status = "failed" })
	add("with a root that is no hash", malformed, func(c *verification.Result) { c.RFC6962Root = "00" })
	add("with two turns", malformed, func(c *verification.Result) { c.Turns = 2 })
	add("whose last turn came first", malformed, func(c *verification.Result) { c.LastTurn = c.FirstTurn - 1 })
	add("that observes model calls of a caller that no sidecar names", malformed, func(c *verification.Result) {
		c.SubjectBasis = "declared"
	})
	add("with model calls of three turns out of four", malformed, func(c *verification.Result) {
		c.ModelCalls.BeforeTurn = c.ModelCalls.BeforeTurn[1:]
	})
	add("with fewer model calls than none", malformed, func(c *verification.Result) { c.ModelCalls.BeforeTurn[1] = -1 })
	add("with declared model calls", malformed, func(c *verification.Result) { c.ModelCalls.Basis = "declared" })
	add("with model calls that were not measured", malformed, func(c *verification.Result) {
		c.ModelCalls.Basis = "not_measured"
	})
	add("without a subject", malformed, func(c *verification.Result) { c.Subject = "" })
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
	for _, v := range read[verificationsFile](t, "verifications.json").judge() {
		if v.got != v.want {
			t.Errorf("%s: %s, want %s", v.name, v.got, v.want)
		}
	}
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
		f := read[verificationsFile](t, "verifications.json")
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

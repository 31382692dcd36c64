package clients

import (
	stded25519 "crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/devstack"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/e2e/kit"
)

var signedTyps = map[string]string{
	"originProof": evidence.TriggerOriginProofKind().Typ, "triggerReceipt": evidence.TriggerReceiptKind().Typ,
	"policyDecision": evidence.PolicyDecisionKind().Typ, "grant": evidence.ActionGrantKind().Typ,
	"runtimeAttestation": evidence.RuntimeAttestationKind().Typ, "sessionReceipt": evidence.SessionReceiptKind().Typ,
	"deploymentCertificate": evidence.DeploymentCertificateKind().Typ, "requestProof": evidence.RequestProofKind().Typ,
}

type typed struct {
	Typ   string `json:"typ"`
	Token string `json:"token"`
}

// Npm's jose verifies every token of a real post and of its bundle, and none with one bit changed.
func TestJose(t *testing.T) {
	t.Parallel()
	kit.NodeJS(t) // says what to run where Node's packages are missing
	r := kit.NewClientsRig(t)
	r.Curl(t)
	jwks, tokens := published(t, r), signed(t, r)
	for i, line := range josed(t, jwks, tokens) {
		payload, err := base64.RawURLEncoding.DecodeString(strings.Split(tokens[i].Token, ".")[1])
		check.Must(t, err)
		if want := evidence.KeyIDOf(tokens[i].Token) + " " + evidence.HashBytes(payload); line != want {
			t.Errorf("%s: jose says %q, want %q", tokens[i].Typ, line, want)
		}
	}
	var altered []typed
	for _, k := range tokens {
		for part := range 3 {
			altered = append(altered, typed{k.Typ, flipped(k.Token, part)})
		}
	}
	for i, line := range josed(t, jwks, altered) {
		if !strings.HasPrefix(line, "refused ERR_J") {
			t.Errorf("%s, altered in part %d: jose says %q", altered[i].Typ, i%3+1, line)
		}
	}
}

func signed(t *testing.T, r *kit.Rig) []typed {
	t.Helper()
	posts := r.Records(t, "state=forwarded")
	if len(posts) != 1 {
		t.Fatalf("%d posts", len(posts))
	}
	var out []typed
	for _, a := range posts[0].Artifacts {
		if typ, ok := signedTyps[a.Name]; ok {
			out = append(out, typed{typ, a.Token})
		}
	}
	if len(out) != len(signedTyps) {
		t.Fatalf("the record holds %d signed artifacts; there are %d", len(out), len(signedTyps))
	}
	b, _, err := deployed.ReadBundle(r.In(devstack.BundleFile))
	check.Must(t, err)
	for _, c := range b.Certificates {
		out = append(out, typed{evidence.SignerCertificateKind().Typ, c})
	}
	return out
}

func published(t *testing.T, r *kit.Rig) jose.JSONWebKeySet {
	t.Helper()
	var all jose.JSONWebKeySet
	for _, p := range r.Stack.Processes {
		var set jose.JSONWebKeySet
		check.Must(t, admin.Get(t.Context(), p.Endpoint, "/v1/jwks", &set))
		all.Keys = append(all.Keys, set.Keys...)
	}
	roots, err := deployed.ReadRoots(r.In(devstack.RegistryFile), r.In(devstack.AuditorFile))
	check.Must(t, err)
	for _, root := range roots {
		all.Keys = append(all.Keys,
			jose.JSONWebKey{Key: stded25519.PublicKey(root.Public), KeyID: root.KeyID, Algorithm: "EdDSA", Use: "sig"})
	}
	if len(all.Keys) != 11 {
		t.Fatalf("%d keys are published", len(all.Keys))
	}
	return all
}

func josed(t *testing.T, jwks jose.JSONWebKeySet, tokens []typed) []string {
	t.Helper()
	in, err := json.Marshal(map[string]any{"jwks": jwks, "tokens": tokens})
	check.Must(t, err)
	cmd := exec.Command(kit.Need(t, "node"), kit.Scripts+"node/jose.mjs")
	cmd.Dir = kit.Top
	cmd.Stdin = strings.NewReader(string(in))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != len(tokens) {
		t.Fatalf("jose says %d lines of %d tokens", len(lines), len(tokens))
	}
	return lines
}

func flipped(token string, part int) string {
	parts := strings.Split(token, ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		panic(err)
	}
	raw[len(raw)/2] ^= 1
	parts[part] = base64.RawURLEncoding.EncodeToString(raw)
	return strings.Join(parts, ".")
}

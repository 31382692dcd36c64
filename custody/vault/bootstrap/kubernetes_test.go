package bootstrap_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/actionproof/mediator/custody/vault"
	"github.com/actionproof/mediator/custody/vault/bootstrap"
	"github.com/actionproof/mediator/test/check"
)

// cluster is Kubernetes' TokenReview (authentication.k8s.io/v1) for Vault.
type cluster struct {
	t      *testing.T
	server *httptest.Server
	signer jose.Signer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.Must(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	check.Must(t, err)
	c := &cluster{t: t, signer: signer}
	c.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.review(w, r, &key.PublicKey)
	}))
	t.Cleanup(c.server.Close)
	return c
}

type podClaims struct {
	jwt.Claims
	Audience   []string `json:"aud"` // always a list
	Kubernetes struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"serviceaccount"`
	} `json:"kubernetes.io"`
}

func (c *cluster) token(account, audience string) string {
	c.t.Helper()
	var claims podClaims
	namespace, name, _ := strings.Cut(account, "/")
	claims.Subject, claims.Audience = "system:serviceaccount:"+namespace+":"+name, []string{audience}
	claims.IssuedAt, claims.Expiry = jwt.NewNumericDate(time.Now()), jwt.NewNumericDate(time.Now().Add(time.Hour))
	claims.Kubernetes.Namespace, claims.Kubernetes.ServiceAccount.Name,
		claims.Kubernetes.ServiceAccount.UID = namespace, name, "uid-of-"+name
	text, err := jwt.Signed(c.signer).Claims(claims).Serialize()
	check.Must(c.t, err)
	path := filepath.Join(c.t.TempDir(), "token")
	check.Must(c.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (c *cluster) review(w http.ResponseWriter, r *http.Request, public *ecdsa.PublicKey) {
	var asked struct {
		Spec struct {
			Token     string   `json:"token"`
			Audiences []string `json:"audiences"`
		} `json:"spec"`
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(raw, &asked) != nil ||
		r.URL.Path != "/apis/authentication.k8s.io/v1/tokenreviews" ||
		r.Header.Get("Authorization") != "Bearer reviewer" {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	status := map[string]any{"authenticated": false}
	var claims podClaims
	token, err := jwt.ParseSigned(asked.Spec.Token, []jose.SignatureAlgorithm{jose.ES256})
	if err == nil && token.Claims(public, &claims) == nil && len(asked.Spec.Audiences) == 1 &&
		slices.Contains(claims.Audience, asked.Spec.Audiences[0]) {
		status = map[string]any{
			"authenticated": true, "audiences": claims.Audience,
			"user": map[string]any{"username": claims.Subject, "uid": claims.Kubernetes.ServiceAccount.UID},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(
		map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "status": status})
}

func TestKubernetes(t *testing.T) {
	server.Reset(t)
	server.Kubernetes(t)
	cluster := newCluster(t)
	accounts := map[string][]string{"serve": {"agents/worker", "research/worker"}, "trigger": {"mediator/trigger"}}
	apply(t, bootstrap.Options{Transit: "transit",
		Kubernetes: &bootstrap.Kubernetes{Mount: "kubernetes", Audience: "vault", Accounts: accounts}})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cluster.server.Certificate().Raw})
	server.Write(t, "auth/kubernetes/config",
		map[string]any{"kubernetes_host": cluster.server.URL, "kubernetes_ca_cert": string(ca),
			"token_reviewer_jwt": "reviewer", "disable_local_ca_jwt": true})
	s := connect(t)
	elsewhere := newCluster(t)
	for _, r := range bootstrap.Roles {
		for name, tt := range map[string]struct {
			token string
			good  bool
		}{
			"the agent's pod":                 {cluster.token("agents/worker", "vault"), r.Process == "serve"},
			"a pod of the other namespace":    {cluster.token("research/worker", "vault"), r.Process == "serve"},
			"the trigger's pod":               {cluster.token("mediator/trigger", "vault"), r.Process == "trigger"},
			"another namespace":               {cluster.token("other/worker", "vault"), false},
			"a token for the API server":      {cluster.token("agents/worker", "https://kubernetes.default.svc"), false},
			"a token that somebody else made": {elsewhere.token("agents/worker", "vault"), false},
		} {
			k := s.Prepare(r.Key, &vault.Kubernetes{Role: "mediator-" + r.Purpose, JWTFile: tt.token})
			err := k.Open(t.Context())
			if (err == nil) != tt.good {
				t.Errorf("%s with %s: %v", r.Purpose, name, err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "Vault refuses the login for key "+r.Key) {
					t.Errorf("%s with %s: %v", r.Purpose, name, err)
				}
				continue
			}
			if err := sign(t, k); err != nil {
				t.Errorf("%s with %s: %v", r.Purpose, name, err)
			}
		}
	}
}

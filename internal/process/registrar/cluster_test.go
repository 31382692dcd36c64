package registrar

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/configs"
	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/test/check"
)

const (
	digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	signer = config.RegistrarSigner
)

// apiServer is a Kubernetes API server with one list of pods and one of requests.
type fakeAPI struct {
	mu       sync.Mutex
	pods     map[string]map[string]any // by name
	requests []map[string]any
	answers  map[string]map[string]any // status by the name of the request
	events   []map[string]any
	bundle   string
	watching map[string]chan string // lines for the watch of a path
	read     func()                 // while a pod is read; may be nil
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	write := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	f.mu.Lock()
	if r.URL.Query().Get("watch") != "" {
		lines := f.watching[last]
		f.mu.Unlock()
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-r.Context().Done():
				return
			case line := <-lines:
				_, _ = w.Write([]byte(line + "\n"))
				_ = http.NewResponseController(w).Flush()
			}
		}
	}
	defer f.mu.Unlock()
	switch {
	case r.Method == http.MethodPatch && last == "status":
		parts := strings.Split(r.URL.Path, "/")
		f.answers[parts[len(parts)-2]] = body["status"].(map[string]any)
		write(body)
	case r.Method == http.MethodPatch:
		f.bundle = body["spec"].(map[string]any)["trustBundle"].(string)
		write(body)
	case last == "tokenreviews": // a token is the name of its pod
		token := body["spec"].(map[string]any)["token"].(string)
		pod := f.pods[token]
		if pod == nil {
			write(map[string]any{"status": map[string]any{"authenticated": false}})
			return
		}
		meta := pod["metadata"].(map[string]any)
		write(map[string]any{"status": map[string]any{"authenticated": true,
			"audiences": []string{"mediator-registrar"},
			"user": map[string]any{"username": fmt.Sprintf("system:serviceaccount:%s:%s", meta["namespace"],
				pod["spec"].(map[string]any)["serviceAccountName"]), "extra": map[string]any{
				"authentication.kubernetes.io/pod-name": []any{meta["name"]},
				"authentication.kubernetes.io/pod-uid":  []any{meta["uid"]}}}}})
	case r.Method == http.MethodPost:
		f.events = append(f.events, body)
		write(body)
	case last == "pods":
		var all []any
		for _, p := range f.pods {
			if strings.Contains(r.URL.Path, "/namespaces/"+p["metadata"].(map[string]any)["namespace"].(string)+"/") {
				all = append(all, p)
			}
		}
		write(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": all})
	case last == "podcertificaterequests":
		write(map[string]any{"metadata": map[string]any{"resourceVersion": "1"}, "items": f.requests})
	case f.pods[last] != nil:
		if f.read != nil {
			f.read()
		}
		write(f.pods[last])
	default:
		w.WriteHeader(http.StatusNotFound)
		write(map[string]any{"code": 404, "reason": "NotFound"})
	}
}

func podOf(namespace, name, account, image string) map[string]any {
	return map[string]any{
		"metadata": map[string]any{"namespace": namespace, "name": name, "uid": "uid-" + name},
		"spec": map[string]any{"serviceAccountName": account, "nodeName": "node-1",
			"volumes": []any{map[string]any{"name": "identity", "projected": map[string]any{"sources": []any{
				map[string]any{"podCertificate": map[string]any{"signerName": signer}}}}}},
			"initContainers": []any{map[string]any{"name": "mediator", "image": "mediator@" + image,
				"volumeMounts": []any{map[string]any{"name": "identity"}}}}},
		"status": map[string]any{"phase": "Pending"},
	}
}

// requestFor is what the kubelet of node-1 asks for a pod. change edits the specification.
func requestFor(t *testing.T, name string, pod map[string]any, change func(spec map[string]any)) map[string]any {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	check.Must(t, err)
	of := pod["metadata"].(map[string]any)
	spec := map[string]any{"signerName": signer, "podName": of["name"], "podUID": of["uid"],
		"serviceAccountName": pod["spec"].(map[string]any)["serviceAccountName"], "nodeName": "node-1",
		"maxExpirationSeconds": 7200, "stubPKCS10Request": csr}
	created := time.Now()
	if change != nil {
		change(spec)
	}
	if at, ok := spec["created"].(time.Time); ok {
		created = at
		delete(spec, "created")
	}
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": of["namespace"], "uid": "request-" +
		name, "resourceVersion": "1", "creationTimestamp": created.UTC().Truncate(time.Second)}, "spec": spec}
}

// newProcess returns a registrar in a cluster, with rules for the pods of one service account.
func newProcess(t *testing.T, api http.Handler) *process {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	s := httptest.NewTLSServer(api)
	t.Cleanup(s.Close)
	files := map[string][]byte{"token": []byte("token"), "mediator.yaml": configs.Dev["mediator.yaml"],
		"manifest.yaml": configs.Dev["manifest.yaml"],
		"ca":            pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
		"rules.yaml": fmt.Appendf(nil,
			"serial: 1\nrules: [{namespace: agents, serviceAccount: worker, imageDigests: [%q], role: sidecar, "+
				"dnsNames: [worker.agents.svc]}]", digest)}
	for name, content := range files {
		check.Must(t, os.WriteFile(at(name), content, 0o600))
	}
	p := &process{config: &config.Registrar{State: dir, Rules: at("rules.yaml"), Trial: true,
		Kubernetes: &config.Cluster{
			TrustDomain: "example.org", Signer: signer, Key: "ca", DNSNames: []string{"registrar"}, Server: s.URL,
			CA: at("ca"), TokenFile: at("token")}}}
	check.Must(t, p.Roles(&daemon.Process{Log: zap.NewNop(), Metrics: daemon.NewMetrics(), Keys: memoryKeys{}}, p.config))
	var err error
	p.store, err = registrar.OpenFolder(dir)
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, p.store.Close()) })
	p.registry, _, err = keyring.GenerateRoot("registry", false)
	check.Must(t, err)
	p.Registrar = registrar.New(registrar.Options{Key: p.registry, Store: p.store, Now: time.Now, Lifetime: time.Hour})
	p.authority = &registrar.Authority{Key: p.caKey, Store: p.store, TrustDomain: "example.org", Now: time.Now}
	check.Must(t, p.certifyItself(t.Context()))
	p.cluster, err = newCluster(p)
	check.Must(t, err, p.readRules(t.Context()))
	return p
}

type memoryKeys struct{}

func (memoryKeys) Key(_, name string) (custody.Key, error) { return custody.NewMemory(name) }
func (memoryKeys) Open(context.Context) error              { return nil }
func (memoryKeys) Close() error                            { return nil }

func TestCluster(t *testing.T) {
	good := podOf("agents", "good", "worker", digest)
	ended := podOf("agents", "ended", "worker", digest)
	ended["status"] = map[string]any{"phase": "Succeeded"}
	shell := podOf("agents", "shell", "worker", digest)
	shell["spec"].(map[string]any)["ephemeralContainers"] = []any{map[string]any{"name": "shell", "image": "busybox",
		"volumeMounts": []any{map[string]any{"name": "identity"}}}}
	pods := []map[string]any{good, ended, shell, podOf("others", "foreign", "worker", digest),
		podOf("agents", "account", "default", digest),
		podOf("agents", "image", "worker", strings.Replace(digest, "0", "9", 1))}
	f := &fakeAPI{pods: make(map[string]map[string]any), answers: make(map[string]map[string]any),
		watching: map[string]chan string{"pods": make(chan string), "podcertificaterequests": make(chan string)}}
	want := map[string]string{"good": "RuleMatched", "ended": "Gone", "shell": "Digest", "foreign": "Namespace",
		"account": "ServiceAccount", "image": "Digest"}
	for _, p := range pods {
		name := p["metadata"].(map[string]any)["name"].(string)
		f.pods[name], f.requests = p, append(f.requests, requestFor(t, name, p, nil))
	}
	for name, change := range map[string]func(map[string]any){
		"Annotation": func(s map[string]any) {
			s["unverifiedUserAnnotations"] = map[string]string{"example.org/admin": "yes"}
		},
		"Stale": func(s map[string]any) { s["created"] = time.Now().Add(-time.Hour) },
		"Gone":  func(s map[string]any) { s["podUID"] = "another" },
		"Possession": func(s map[string]any) {
			csr := s["stubPKCS10Request"].([]byte)
			csr[len(csr)-1] ^= 1
		},
		"ServiceAccount": func(s map[string]any) { s["nodeName"] = "node-2" },
	} {
		want["by-"+name] = name
		f.requests = append(f.requests, requestFor(t, "by-"+name, good, change))
	}
	p := newProcess(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { p.cluster.followPods(ctx) })
	all.Go(func() { _ = p.lead(ctx) })
	defer func() { cancel(); all.Wait() }()
	until(t, "answers to all requests", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.answers) == len(want)
	})
	f.mu.Lock()
	for name, reason := range want {
		c := f.answers[name]["conditions"].([]any)[0].(map[string]any)
		if c["reason"] != reason || (c["type"] == "Issued") != (name == "good") {
			t.Errorf("%s is answered with %v, want %s", name, c, reason)
		}
	}
	block, _ := pem.Decode([]byte(f.answers["good"]["certificateChain"].(string)))
	bundle := f.bundle
	if len(f.events) != len(want)-1 { // one for each pod and reason
		t.Errorf("%d events: %v", len(f.events), f.events)
	}
	f.mu.Unlock()
	leaf, err := x509.ParseCertificate(block.Bytes)
	check.Must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "worker.agents.svc"})
	if err != nil || leaf.URIs[0].String() != "spiffe://example.org/pod/agents/uid-good" ||
		leaf.NotAfter.Sub(leaf.NotBefore) != 2*time.Hour {
		t.Errorf("%v: %v until %v", err, leaf.URIs, leaf.NotAfter)
	}

	// The pod can be a caller while it lives.
	id := identity.ID("spiffe://example.org/pod/agents/uid-good")
	until(t, "the pods", func() bool { return len(p.cluster.podsOf(id)) == 1 && p.cluster.unseen("uid-ended") })
	gone := func(uid string) bool { return p.cluster.gone(t.Context())(uid) }
	if !gone("uid-ended") || gone("uid-good") || len(p.cluster.podsOf("spiffe://example.com/pod/agents/uid-good")) > 0 {
		t.Error("a pod that lives is gone, or has the name of another trust domain")
	}
	raw, err := json.Marshal(map[string]any{"type": "DELETED", "object": good})
	check.Must(t, err)
	f.watching["pods"] <- string(raw)
	until(t, "its end", func() bool { return p.cluster.unseen("uid-good") })
	if gone("uid-good") {
		t.Error("a pod that only the watch does not know is gone")
	}
	f.mu.Lock()
	delete(f.pods, "good")
	f.mu.Unlock()
	if !gone("uid-good") {
		t.Error("a pod that has ended is not gone")
	}
}

// TestSlowRequest: a request that takes long holds up no later one.
func TestSlowRequest(t *testing.T) {
	f := &fakeAPI{pods: make(map[string]map[string]any), answers: make(map[string]map[string]any)}
	begun, release := make(chan struct{}, 8), make(chan struct{})
	p := newProcess(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pods/slow") {
			begun <- struct{}{}
			select {
			case <-release:
			case <-r.Context().Done():
				t.Error("the slow request ended before the later one was answered")
				return
			}
		}
		f.ServeHTTP(w, r)
	}))
	ask := func(name string) {
		f.mu.Lock()
		f.pods[name] = podOf("agents", name, "worker", digest)
		raw, err := json.Marshal(requestFor(t, name, f.pods[name], nil))
		f.mu.Unlock()
		var request kube.CertificateRequest
		check.Must(t, err, json.Unmarshal(raw, &request))
		p.cluster.take(request)
	}
	answered := func(n int) func() bool {
		return func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.answers) == n
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { p.cluster.answerAll(ctx) })
	defer func() { cancel(); all.Wait() }()
	ask("slow")
	<-begun
	ask("good")
	until(t, "the later request", answered(1))
	close(release)
	until(t, "the slow request", answered(2))
}

// TestRefused: a refusal has one Event about each pod that may be the caller, also about one that is gone.
func TestRefused(t *testing.T) {
	f := &fakeAPI{}
	p := newProcess(t, f)
	for range 2 {
		p.refuse(registrar.Caller{ID: "spiffe://example.org/pod/agents/u", Pods: []registrar.Pod{}},
			registrar.Refuse("gone", "it is"))
		p.refuse(registrar.Caller{ID: "spiffe://example.org/service/mediator/control", Pods: []registrar.Pod{
			{Namespace: "mediator", Name: "a", UID: "a"}, {Namespace: "mediator", Name: "b", UID: "b"}}},
			registrar.Refuse("key", "it is another's"))
	}
	var about []any
	for _, e := range f.events {
		about = append(about, e["involvedObject"].(map[string]any)["uid"])
	}
	check.WantEqual(t, about, []any{"u", "a", "b"})
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("waited for %s", what)
		}
	}
}

// TestCAOfAnotherReplica: a replica that takes the lead publishes the certificates that others have added to the CA.
func TestCAOfAnotherReplica(t *testing.T) {
	f := &fakeAPI{watching: make(map[string]chan string)}
	p := newProcess(t, f)
	rotated, err := custody.NewMemory("rotated")
	check.Must(t, err)
	other := &registrar.Authority{Key: rotated, Store: p.store, TrustDomain: "example.org", Now: time.Now}
	check.Must(t, other.Open(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	var leading sync.WaitGroup
	leading.Go(func() { p.cluster.lead(ctx) })
	published := ""
	until(t, "the CA", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		published = f.bundle
		return published != ""
	})
	cancel()
	leading.Wait()
	check.WantEqual(t, published, string(other.PEM()))
}

// TestNewerRules: no pod gets a certificate by rules that are older than another replica's, and none is denied one.
func TestNewerRules(t *testing.T) {
	good := podOf("agents", "good", "worker", digest)
	f := &fakeAPI{pods: map[string]map[string]any{"good": good}, answers: make(map[string]map[string]any)}
	p := newProcess(t, f)
	at := func(name string) string { return filepath.Join(p.config.State, name) }
	check.Must(t, os.WriteFile(at("policy.yaml"), configs.Dev["policy.yaml"], 0o600))
	claims, manifests, err := registrar.ReadSource(p.config.Rules, time.Now())
	check.Must(t, err)
	auditor, _, err := keyring.GenerateRoot("auditor", false)
	check.Must(t, err)
	signed, err := registrar.Sign(t.Context(), auditor, claims, manifests, time.Hour, time.Now)
	check.Must(t, err)
	raw, err := json.Marshal(signed)
	check.Must(t, err)
	rules, err := registrar.ParseSigned(raw, auditor.Pinned(evidence.PurposeDeploymentCertificate), time.Now)
	check.Must(t, err, p.SetRules(t.Context(), rules))
	raw, err = json.Marshal(requestFor(t, "good", good, nil))
	check.Must(t, err)
	var request kube.CertificateRequest
	check.Must(t, json.Unmarshal(raw, &request))
	_, err = p.cluster.decide(t.Context(), request, &registrar.Pod{Namespace: "agents", Name: "good", UID: "uid-good"})
	check.Must(t, err, os.WriteFile(at("serial"), []byte("2"), 0o600)) // another replica's
	p.cluster.answer(t.Context(), request)
	if len(f.answers) > 0 {
		t.Errorf("answered: %v", f.answers)
	}
	f.pods["good"], p.cluster.audience = withToken("good", "worker", digest), evidence.AudienceRegistrar
	var pod registrar.Pod
	_, err = p.cluster.exchange(t.Context(), "good", "127.0.0.1", request.Spec.StubPKCS10Request, &pod)
	check.WantCode(t, err, "rules_refused")
	if err := p.lead(t.Context()); !errors.Is(err, errOutdated) {
		t.Errorf("it leads: %v", err)
	}
}

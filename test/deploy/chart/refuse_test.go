package chart_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/actionproof/mediator/test/check"
)

const stranger = `
apiVersion: v1
kind: Pod
metadata: {name: REASON, namespace: NAMESPACE}
spec:
  serviceAccountName: ACCOUNT
  containers: [{name: agent, image: IMAGE, command: [sleep, "1000"], volumeMounts: [{name: id, mountPath: /id}]}]
  volumes: [{name: id, projected: {sources: [{podCertificate: {signerName: actionproof.github.io/mediator,
    keyType: ED25519, credentialBundlePath: pod.pem, userAnnotations: {ANNOTATIONS}}}]}}]
`

// strangers starts pods that no signed rule allows, or that ask for more than a certificate, in namespaces without
// admission policies. None gets a certificate.
func (p *production) strangers() {
	p.t.Helper()
	p.Apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: elsewhere}}")
	for reason, with := range map[string][]string{
		"namespace":       {"NAMESPACE", "elsewhere", "ACCOUNT", "default"},
		"service_account": {"ACCOUNT", "default"},
		"digest":          {"IMAGE", p.agent.Name + "@" + p.agent.Digest},
		"annotation":      {"ANNOTATIONS", "example.org/wish: admin"},
	} {
		name := strings.ReplaceAll(reason, "_", "-")
		pod := strings.NewReplacer(append(with, "REASON", name, "NAMESPACE", "mediator", "ACCOUNT", "mediator-trigger",
			"IMAGE", p.image.Name+"@"+p.image.Digest, "ANNOTATIONS", "")...).Replace(stranger)
		p.Apply("", pod)
		p.refused(reason, name, "")
		p.Delete("", pod)
	}
}

var words = regexp.MustCompile(`(^|_)[a-z]`)

// refused waits until a registrar's log and metric, and an Event about a pod, by its name or UID, give the reason. Log
// and Event also say something of it.
func (p *production) refused(reason, pod, says string) {
	p.t.Helper()
	event := "Mediator" + words.ReplaceAllStringFunc(reason, func(s string) string {
		return strings.ToUpper(strings.TrimPrefix(s, "_"))
	})
	line := regexp.MustCompile(`"msg":"refused".*"reason":"` + reason + `".*` + says)
	p.Eventually("log, metric and Event say "+reason, func() (bool, string) {
		events, err := p.Client.CoreV1().Events("").List(p.t.Context(),
			metav1.ListOptions{FieldSelector: "reason=" + event})
		check.Must(p.t, err)
		warned := slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return (e.InvolvedObject.Name == pod || string(e.InvolvedObject.UID) == pod) && strings.Contains(e.Message, says)
		})
		noted := slices.ContainsFunc(p.registrars(), func(r corev1.Pod) bool {
			return p.metric(r, fmt.Sprintf(`mediator_registrar_refusals_total\{reason=%q\} [1-9]`, reason)) &&
				line.MatchString(p.Logs(r, "registrar"))
		})
		return warned && noted, fmt.Sprintf("an Event: %t; log and metric: %t", warned, noted)
	})
}

// asks returns a function that sends requests to a registrar, always the same one, from a pod.
func (p *production) asks(from corev1.Pod, with ...tls.Certificate) func(path, token string, body any) (int, string) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: p.Node.DialFrom(from),
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: with}}}
	p.t.Cleanup(client.CloseIdleConnections)
	return func(path, token string, body any) (int, string) {
		raw, err := json.Marshal(body)
		check.Must(p.t, err)
		ask, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost,
			"https://mediator-registrar.mediator.svc:8443/v1/"+path, bytes.NewReader(raw))
		check.Must(p.t, err)
		ask.Header.Set("Content-Type", "application/json")
		ask.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(ask)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		check.Must(p.t, err)
		return answer.StatusCode, string(said)
	}
}

// file reads a file of a pod's volume, as a thief would.
func (p *production) file(of corev1.Pod, path string) []byte {
	p.t.Helper()
	volume, name, _ := strings.Cut(path, "/")
	raw, err := os.ReadFile(filepath.Join(p.Node.Volume(of, volume), name))
	check.Must(p.t, err)
	return raw
}

// start starts a pod that does nothing.
func (p *production) start(namespace, name, account string) corev1.Pod {
	p.t.Helper()
	p.Apply(namespace, strings.Replace(pod(name, p.agent, "sleep", "1000"), "spec: {",
		"spec: {serviceAccountName: "+account+", ", 1))
	p.WaitReady(namespace, "pod/"+name)
	return p.Pods(namespace, "app="+name)[0]
}

// thief has a pod use what it stole from a sidecar of another pod. The token for Vault gets no certificate. The pod's
// certificate has no key certified that is not shown to be held, and counts no more once its pod is gone.
func (p *production) thief() {
	p.t.Helper()
	victim, thief := p.start("agents", "victim", "worker"), p.start("mediator", "thief", "default")
	token := string(p.file(victim, "mediator-files/vault/token"))
	request := requestFor(p.t, victim)
	csr := map[string][]byte{"csr": request.Spec.StubPKCS10Request}
	if status, said := p.asks(thief)("certificates", token, csr); status != 0 { // it asks for a certificate
		p.t.Errorf("the registrar answers the token with %d %s", status, said)
	}
	as, err := kubernetes.NewForConfig(&rest.Config{Host: "https://kubernetes.default.svc", BearerToken: token,
		Dial: p.Node.DialFrom(thief), TLSClientConfig: rest.TLSClientConfig{CAData: p.Config.CAData}})
	check.Must(p.t, err)
	if _, err := as.CertificatesV1().PodCertificateRequests("agents").Create(p.t.Context(), request,
		metav1.CreateOptions{}); !apierrors.IsUnauthorized(err) {
		p.t.Errorf("the API server answers the token with %v", err)
	}

	both := p.file(victim, "mediator-files/identity/pod.pem")
	stolen, err := tls.X509KeyPair(both, both)
	check.Must(p.t, err)
	ask := p.asks(thief, stolen)
	status, said := ask("nonces", "", struct{}{})
	claim := map[string]any{"proofs": []string{},
		"publication": `{"looks": [], "roles": [{"purpose": "runtime_attestation",
		"issuer": "mediator-runtime", "keyCustody": "vault", "keyExportable": false, "observed": [], "keys": [{"kty": "OKP",
		"crv": "Ed25519", "kid": "runtime-key:v1", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}]}`}
	if err := json.Unmarshal([]byte(said), &claim); err != nil || status != http.StatusOK {
		p.t.Fatalf("no nonce: %d %s", status, said)
	}
	for _, reason := range []string{"possession", "replay"} { // the second one is the same request
		if status, said := ask("registrations", "", claim); status != http.StatusForbidden {
			p.t.Errorf("%s: %d %s", reason, status, said)
		}
		p.refused(reason, string(victim.UID), "")
	}

	p.end(victim)
	p.Eventually("the certificate counts no more", func() (bool, string) {
		status, said := ask("nonces", "", struct{}{})
		return status == http.StatusForbidden, said
	})
	p.refused("gone", string(victim.UID), "")
	requests := p.Client.CertificatesV1().PodCertificateRequests("agents")
	late, err := requests.Create(p.t.Context(), request, metav1.CreateOptions{})
	check.Must(p.t, err)
	p.Eventually("a late request for the pod is denied", func() (bool, string) {
		late, err = requests.Get(p.t.Context(), late.Name, metav1.GetOptions{})
		check.Must(p.t, err)
		c := late.Status.Conditions
		return len(c) == 1 && c[0].Type == "Denied" && c[0].Reason == "Gone", fmt.Sprint(c)
	})
}

// end ends a pod by force.
func (p *production) end(pod corev1.Pod) {
	p.t.Helper()
	now := int64(0)
	check.Must(p.t, p.Client.CoreV1().Pods(pod.Namespace).Delete(p.t.Context(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// requestFor is what a kubelet asks for a pod.
func requestFor(t *testing.T, pod corev1.Pod) *certificatesv1.PodCertificateRequest {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check.Must(t, err)
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	check.Must(t, err)
	day := int32(86400)
	return &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "late-"},
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: "actionproof.github.io/mediator", PodName: pod.Name,
			PodUID: pod.UID, ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: "account",
			NodeName: types.NodeName(pod.Spec.NodeName), NodeUID: "node", MaxExpirationSeconds: &day, StubPKCS10Request: csr}}
}

// tokens has a pod use the token of a sidecar in another pod, and a pod its own for a key that it does not hold.
func (p *production) tokens() {
	p.t.Helper()
	victim, thief := p.Pods("agents", "app=agent")[0], p.start("mediator", "thief", "default")
	trigger := p.Pods("mediator", "app.kubernetes.io/component=trigger")[0]
	csr := requestFor(p.t, victim).Spec.StubPKCS10Request
	broken := append(bytes.Clone(csr[:len(csr)-1]), csr[len(csr)-1]^1)
	for reason, by := range map[string]struct {
		from, of corev1.Pod
		token    string
		csr      []byte
	}{
		"address":    {thief, victim, "mediator-files/identity/token", csr},
		"possession": {trigger, trigger, "files/identity/token", broken},
	} {
		status, said := p.asks(by.from)("certificates", string(p.file(by.of, by.token)), map[string][]byte{"csr": by.csr})
		if status != http.StatusForbidden {
			p.t.Errorf("%s: %d %s", reason, status, said)
		}
		p.refused(reason, string(by.of.UID), "")
	}
}

// rules has the security team sign again, and delivers rules that are older and rules that were changed. Those before
// them stay, until the registrar that leads is lost; then the other one goes on.
func (p *production) rules() {
	p.t.Helper()
	signed := func() (raw []byte, s map[string]any, body, signature string) {
		raw, err := os.ReadFile(p.at("rules.json"))
		check.Must(p.t, err, json.Unmarshal(raw, &s))
		rules := s["rules"].(string)
		at := strings.LastIndexByte(rules, '.')
		return raw, s, rules[:at], rules[at:]
	}
	old, _, _, signature := signed()
	p.again("helm template", "--values values.yaml", "--values values.yaml --set rules.serial=2")
	good, changed, body, _ := signed()
	changed["rules"] = body + signature
	p.again("helm install", "helm install", "helm upgrade", "--values values.yaml",
		"--values values.yaml --set rules.serial=2")
	leader := p.leader()
	p.Eventually("the new rules count", func() (bool, string) {
		said := p.Logs(leader, "registrar")
		return strings.Contains(said, `"serial":2`), said
	})
	deliver := func(rules any) {
		text, err := json.Marshal(rules)
		check.Must(p.t, err)
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"rules.json": string(text)}})
		check.Must(p.t, err)
		_, err = p.Client.CoreV1().ConfigMaps("mediator").Patch(p.t.Context(), "mediator-files", types.MergePatchType, patch,
			metav1.PatchOptions{})
		check.Must(p.t, err)
	}
	deliver(json.RawMessage(old))
	p.refused("rules", leader.Name, "serial number 1")
	deliver(changed)
	p.refused("rules", leader.Name, "signature")

	before := fmt.Sprint(p.registrars())
	p.end(leader)
	p.post(4)
	p.Eventually("a registrar starts with them", func() (bool, string) {
		for _, leader = range p.registrars() {
			if !strings.Contains(before, leader.Name) {
				return true, ""
			}
		}
		return false, "none does"
	})
	p.refused("rules", leader.Name, "signature")
	deliver(json.RawMessage(good))
	p.WaitReady("mediator", "deployment/mediator-registrar")
}

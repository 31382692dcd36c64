package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/deploy/cluster"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testRegistrar: pods start once the registrar has signed what their kubelet asks, and one that no rule allows does
// not.
func testRegistrar(t *testing.T, c *cluster.Cluster, namespace string) {
	const top = "../../../"
	image := c.DebianImage("registry.test/signed", "", nil)
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, from := range map[string]string{"manifest.yaml": "configs/manifest.yaml",
		"policy.yaml":   "configs/policy.yaml",
		"mediator.yaml": "configs/dev/mediator.yaml"} {
		raw, err := os.ReadFile(top + from)
		if err != nil {
			t.Fatal(err)
		}
		write(name, string(raw))
	}
	write("token", c.Config.BearerToken)
	ca := c.Config.TLSClientConfig.CAData
	if len(ca) == 0 {
		ca, _ = os.ReadFile(c.Config.TLSClientConfig.CAFile)
	}
	write("ca.pem", string(ca))
	write("rules.yaml", fmt.Sprintf("serial: 1\nrules: [{namespace: %s, serviceAccount: worker, imageDigests: [%q], "+
		"role: sidecar}]\n", namespace, image.Digest))
	write("registrar.yaml", fmt.Sprintf(`trial: true
internal: {unix: registrar.sock}
listen: 127.0.0.1:0
state: .
custody: {type: memory}
trust: {registry: registry.jwk, auditor: auditor.jwk, bundle: trust.json}
rules: rules.yaml
kubernetes: {trustDomain: test, dnsNames: [registrar.test], server: %q, ca: ca.pem, tokenFile: token}
`, c.Config.Host))
	registrar := exec.CommandContext(t.Context(), top+"bin/mediator", "registrar", "--config",
		filepath.Join(dir, "registrar.yaml"))
	var said strings.Builder
	registrar.Stderr = &said
	if err := registrar.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = registrar.Process.Kill()
		if _ = registrar.Wait(); t.Failed() {
			t.Log(said.String())
		}
	})
	const pod = `
spec:
  serviceAccountName: ACCOUNT
  volumes: [{name: identity, projected: {sources: [{podCertificate: {signerName: actionproof.github.io/mediator,
    keyType: ED25519, credentialBundlePath: pod.pem}}, {clusterTrustBundle: {signerName: actionproof.github.io/mediator,
    labelSelector: {}, path: authorities.pem}}]}}]
  containers: [{name: c, image: IMAGE, command:
  [sh, -c, "openssl verify -CAfile authorities.pem pod.pem && sleep 1000"],
    workingDir: /identity, volumeMounts: [{name: identity, mountPath: /identity}]}]
  terminationGracePeriodSeconds: 1
`
	other := image
	other.Digest = "sha256:" + strings.Repeat("7", 64)
	other = c.RegisterImage(other)
	of := func(account, digest string) string {
		return strings.NewReplacer("ACCOUNT", account, "IMAGE", image.Name+"@"+digest).Replace(pod)
	}
	c.Apply(namespace, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: certified}
spec:
  replicas: 5
  selector: {matchLabels: {app: certified}}
  template:
    metadata: {labels: {app: certified}}`+strings.ReplaceAll(of("worker", image.Digest), "\n", "\n    ")+`
`)
	elsewhere := namespace + "-elsewhere"
	c.Apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: "+elsewhere+"}}")
	c.Apply(elsewhere, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: worker}}")
	refused := map[string]struct{ namespace, account, digest string }{
		"MediatorServiceAccount": {namespace, "default", image.Digest},
		"MediatorDigest":         {namespace, "worker", other.Digest},
		"MediatorNamespace":      {elsewhere, "worker", image.Digest},
	}
	for reason, tt := range refused {
		c.Apply(tt.namespace,
			"apiVersion: v1\nkind: Pod\nmetadata: {name: "+strings.ToLower(reason)+"}"+of(tt.account, tt.digest))
	}
	c.WaitReady(namespace, "deployment/certified")
	for reason, tt := range refused {
		name := strings.ToLower(reason)
		c.Eventually("an Event "+reason, func() (bool, string) {
			events, err := c.Client.CoreV1().Events(tt.namespace).List(t.Context(), metav1.ListOptions{
				FieldSelector: "reason=" + reason + ",involvedObject.name=" + name})
			return err == nil && len(events.Items) > 0, fmt.Sprint(err)
		})
		got, err := c.Client.CoreV1().Pods(tt.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || got.Status.Phase != corev1.PodPending {
			t.Errorf("a pod that no rule allows is %s, %v", got.Status.Phase, err)
		}
	}
	metrics, err := exec.CommandContext(t.Context(), "curl", "-sS", "--unix-socket", filepath.Join(dir, "registrar.sock"),
		"http://registrar/metrics").Output()
	for _, reason := range []string{"service_account", "digest", "namespace"} {
		if err != nil || !strings.Contains(string(metrics), `mediator_registrar_refusals_total{reason="`+reason+`"}`) {
			t.Errorf("no refusal is counted for %s: %v", reason, err)
		}
	}
}

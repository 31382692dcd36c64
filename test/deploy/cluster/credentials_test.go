package cluster_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// testToken has the API server review the token that a pod got, and use it through the Service kubernetes.
func testToken(t *testing.T, c *cluster.Cluster, namespace string) {
	c.Apply(namespace, `
apiVersion: batch/v1
kind: Job
metadata: {name: account}
spec:
  template:
    spec:
      restartPolicy: Never
      volumes:
        - name: token
          projected: {sources: [{serviceAccountToken: {path: token, audience: registrar, expirationSeconds: 600}}]}
      containers:
        - name: c
          image: registry.test/tools:1
          command: [bash, -c]
          args:
            - |
              cat /token/token; echo
              cd /var/run/secrets/kubernetes.io/serviceaccount
              curl -s --cacert ca.crt -H "Authorization: Bearer $(cat token)" \
                https://kubernetes.default/api/v1/namespaces/`+namespace+`/pods
          volumeMounts: [{name: token, mountPath: /token}]
`)
	c.WaitReady(namespace, "job/account")
	pod := c.Pods(namespace, "")[0]
	token, answer, _ := strings.Cut(c.Logs(pod, "c"), "\n")
	review, err := c.Client.AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{"registrar"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := review.Status; !s.Authenticated || s.User.Extra["authentication.kubernetes.io/pod-uid"][0] != string(pod.UID) {
		t.Errorf("the review says %+v", s)
	}
	var status metav1.Status
	if err := json.Unmarshal([]byte(answer), &status); err != nil || status.Code != http.StatusForbidden {
		t.Errorf("the API server answered the pod %q (%v)", answer, err)
	}
}

// testCertificate starts a pod that waits for its certificate, signs it, and renews it.
func testCertificate(t *testing.T, c *cluster.Cluster, namespace string) {
	_, key, _ := ed25519.GenerateKey(rand.Reader)
	c.Apply(namespace, `
apiVersion: v1
kind: Pod
metadata: {name: certified}
spec:
  volumes: [{name: identity, projected: {sources: [{podCertificate: {signerName: test.example/pod, keyType: ED25519,
    credentialBundlePath: bundle.pem, userAnnotations: {test.example/wish: one}}}]}}]
  containers: [{name: c, image: registry.test/tools:1, command: [sh, -c, "cat /identity/bundle.pem; sleep 1000"],
    volumeMounts: [{name: identity, mountPath: /identity}],
    readinessProbe: {exec: {command: [test, -s, /identity/bundle.pem]}, periodSeconds: 1}}]
  terminationGracePeriodSeconds: 1
`)
	first := sign(t, c, namespace, key, 1)
	c.WaitReady(namespace, "pod/certified")
	pod := c.Pods(namespace, "")[0]
	if first.Spec.PodUID != pod.UID || first.Spec.NodeName != node.Name ||
		first.Spec.UnverifiedUserAnnotations["test.example/wish"] != "one" {
		t.Errorf("the request says %+v", first.Spec)
	}
	var bundle []byte
	c.Eventually("the pod has printed its bundle", func() (bool, string) {
		bundle = []byte(c.Logs(pod, "c"))
		return strings.Contains(string(bundle), "END CERTIFICATE"), string(bundle)
	})
	private, rest := pem.Decode(bundle)
	leaf, _ := pem.Decode(rest)
	own, err := x509.ParsePKCS8PrivateKey(private.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(leaf.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !own.(ed25519.PrivateKey).Public().(ed25519.PublicKey).Equal(certificate.PublicKey) {
		t.Error("the bundle's key is not the certificate's")
	}
	c.Node.Renew()
	if second := sign(t, c, namespace, key, 2); second.Spec.PodUID != pod.UID {
		t.Errorf("the second request says %+v", second.Spec)
	}
}

// sign waits for the nth request of a namespace and signs it.
func sign(t *testing.T, c *cluster.Cluster, namespace string, authority ed25519.PrivateKey,
	n int) *certificatesv1.PodCertificateRequest {
	t.Helper()
	requests := c.Client.CertificatesV1().PodCertificateRequests(namespace)
	var request *certificatesv1.PodCertificateRequest
	c.Eventually("a certificate is requested", func() (bool, string) {
		list, err := requests.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err.Error()
		}
		for i := range list.Items {
			if len(list.Items[i].Status.Conditions) == 0 {
				request = &list.Items[i]
			}
		}
		return len(list.Items) == n && request != nil, fmt.Sprintf("%d requests", len(list.Items))
	})
	stub, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now().Truncate(time.Second)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(int64(n)), Subject: pkix.Name{CommonName: request.Spec.PodName},
		NotBefore: from, NotAfter: from.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, &x509.Certificate{Subject: pkix.Name{CommonName: "toy"}},
		stub.PublicKey, authority)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: from.Add(d)} }
	request.Status = certificatesv1.PodCertificateRequestStatus{
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        at(0), BeginRefreshAt: at(40 * time.Minute), NotAfter: at(time.Hour),
		Conditions: []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue, Reason: "Issued",
			LastTransitionTime: metav1.Now(),
		}},
	}
	if _, err := requests.UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return request
}

// testFiles sees a changed ConfigMap and a trust bundle in a running pod, through the downward API beside them.
func testFiles(t *testing.T, c *cluster.Cluster, namespace string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "toy"}, IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	_, err = c.Client.CertificatesV1().ClusterTrustBundles().Create(t.Context(), &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "test.example:pod:1"},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: "test.example/pod", TrustBundle: string(bundle)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	settings := "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {color: %s}}"
	c.Apply(namespace, fmt.Sprintf(settings, "red"))
	c.Apply(namespace, `
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {kind: "x"}}
spec:
  securityContext: {runAsUser: 1000, fsGroup: 1000}
  volumes:
    - name: files
      projected:
        defaultMode: 0440
        sources:
          - configMap: {name: settings}
          - configMap: {name: absent, optional: true}
          - downwardAPI: {items: [{path: pod/kind, fieldRef: {fieldPath: "metadata.labels['kind']"}}]}
          - clusterTrustBundle: {signerName: test.example/pod, path: ca.pem}
  containers: [{name: c, image: registry.test/tools:1, volumeMounts: [{name: files, mountPath: /files}],
    command: [sh, -c, "cd /files; cat pod/kind ca.pem; echo; until grep blue color; do sleep 0.2; done; sleep 1000"]}]
  terminationGracePeriodSeconds: 1
`)
	c.WaitReady(namespace, "pod/reader")
	c.Apply(namespace, fmt.Sprintf(settings, "blue"))
	pod := c.Pods(namespace, "")[0]
	want := "x" + string(bundle) + "\nblue"
	c.Eventually("the pod reads the new file", func() (bool, string) {
		got := c.Logs(pod, "c")
		return strings.TrimSpace(got) == want, got
	})
}

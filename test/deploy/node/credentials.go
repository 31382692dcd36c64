package node

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// heldToken is a service account's token, bound to the pod.
type heldToken struct {
	token   string
	renewAt time.Time
}

// token asks the API server for a token, and for another one after 80 % of its life.
func (r *podRunner) token(ctx context.Context, key string, s *corev1.ServiceAccountTokenProjection) (string, error) {
	if held, ok := r.tokens[key]; ok && time.Now().Before(held.renewAt) {
		return held.token, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: s.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: r.pod.Name,
			UID: r.pod.UID},
	}}
	if s.Audience != "" {
		request.Spec.Audiences = []string{s.Audience}
	}
	asked := time.Now()
	got, err := r.node.client.CoreV1().ServiceAccounts(r.pod.Namespace).CreateToken(ctx, r.pod.Spec.ServiceAccountName,
		request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("fetch the service account's token: %w", err)
	}
	life := got.Status.ExpirationTimestamp.Sub(asked)
	r.tokens[key] = heldToken{got.Status.Token, asked.Add(life * 8 / 10)}
	return got.Status.Token, nil
}

// heldCertificate is what the pod has of one podCertificate source: a certificate in use, a request under way, or both.
type heldCertificate struct {
	key, chain     []byte // PEM; empty before the first certificate
	beginRefreshAt time.Time

	request    string // the name of the PodCertificateRequest under way, or empty
	requestKey []byte
	refused    error // final: a kubelet asks no more for this pod
}

// addCertificate takes the next step towards a certificate, and adds the files once there is one.
func (r *podRunner) addCertificate(ctx context.Context, files map[string]file, s *corev1.PodCertificateProjection,
	key string, mode *int32) error {
	held := r.certificates[key]
	if held == nil {
		held = &heldCertificate{}
		r.certificates[key] = held
	}
	if err := r.stepCertificate(ctx, s, held); err != nil {
		return err
	}
	if len(held.chain) == 0 {
		return fmt.Errorf("PodCertificateRequest %s of signer %s is not yet decided", held.request, s.SignerName)
	}
	if s.CredentialBundlePath != "" {
		bundle := append(bytes.Clone(held.key), held.chain...)
		files[s.CredentialBundlePath] = r.credential(bundle, mode)
	}
	if s.KeyPath != "" {
		files[s.KeyPath] = r.credential(held.key, mode)
	}
	if s.CertificateChainPath != "" {
		files[s.CertificateChainPath] = r.credential(held.chain, mode)
	}
	return nil
}

func (r *podRunner) stepCertificate(ctx context.Context, s *corev1.PodCertificateProjection,
	held *heldCertificate) error {
	if held.refused != nil {
		return held.refused
	}
	if held.request == "" {
		if len(held.chain) > 0 && time.Now().Before(held.beginRefreshAt) {
			return nil
		}
		return r.requestCertificate(ctx, s, held)
	}
	request, err := r.node.certificateRequests.PodCertificateRequests(r.pod.Namespace).Get(held.request)
	if err != nil {
		return nil // the informer has not seen it yet
	}
	for _, c := range request.Status.Conditions {
		switch c.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed:
			held.refused = fmt.Errorf("PodCertificateRequest %s: %s: %s: %s", request.Name, c.Type, c.Reason, c.Message)
			r.event(corev1.EventTypeWarning, c.Type, held.refused.Error())
			return held.refused
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			held.key, held.chain = held.requestKey, []byte(request.Status.CertificateChain)
			held.beginRefreshAt = request.Status.BeginRefreshAt.Time
			held.request, held.requestKey = "", nil
		}
	}
	return nil
}

// requestCertificate makes a key and asks the signer to certify it for this pod.
func (r *podRunner) requestCertificate(ctx context.Context, s *corev1.PodCertificateProjection,
	held *heldCertificate) error {
	key, err := newKey(s.KeyType)
	if err != nil {
		return err
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	account, err := r.node.client.CoreV1().ServiceAccounts(r.pod.Namespace).Get(ctx, r.pod.Spec.ServiceAccountName,
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	request, err := r.node.client.CertificatesV1().PodCertificateRequests(r.pod.Namespace).Create(ctx,
		&certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				GenerateName:    "req-",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: r.pod.Name, UID: r.pod.UID}},
			},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: s.SignerName, PodName: r.pod.Name, PodUID: r.pod.UID,
				ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
				NodeName: Name, NodeUID: r.node.uid,
				MaxExpirationSeconds: s.MaxExpirationSeconds, StubPKCS10Request: stub, UnverifiedUserAnnotations: s.UserAnnotations,
			},
		}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask signer %s for a certificate: %w", s.SignerName, err)
	}
	held.request, held.requestKey = request.Name, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return nil
}

func newKey(kind string) (crypto.Signer, error) {
	switch kind {
	case "ED25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case "ECDSAP256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "RSA3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	}
	return nil, fmt.Errorf("keys of type %s are not carried out", kind)
}

// Renew has each pod's certificates and tokens renewed now, as a kubelet does when their time comes. The API server
// allows no certificate that is to be renewed within five minutes, which is too long for a test.
func (n *Node) Renew() {
	for _, r := range n.pods() {
		r.volumesMu.Lock()
		for _, held := range r.certificates {
			held.beginRefreshAt = time.Time{}
		}
		clear(r.tokens)
		r.volumesMu.Unlock()
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
}

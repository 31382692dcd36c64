package registrar

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/registrar"
	"golang.org/x/sync/errgroup"
)

// certifyItself makes the certificate by which other processes know the registrar of a cluster, and its key. Both are
// only in memory.
func (p *process) certifyItself(ctx context.Context) error {
	if err := p.authority.Open(ctx); err != nil {
		return fmt.Errorf("the CA: %w", err)
	}
	private, key, err := identity.NewKey()
	if err != nil {
		return err
	}
	_, certificate, err := p.authority.Issue(ctx, registrar.Leaf{Path: "service/mediator/registrar",
		DNSNames: p.config.Kubernetes.DNSNames, Public: private.Public(), Lifetime: config.RegistrarLifetime})
	if err != nil {
		return err
	}
	if p.own != nil {
		return p.own.Renew(certificate, key, string(p.authority.PEM()))
	}
	p.own, err = identity.New(certificate, key, string(p.authority.PEM()))
	return err
}

func (c *cluster) take(r kube.CertificateRequest) {
	if len(r.Status.Conditions) > 0 || r.Spec.SignerName != c.signer {
		c.drop(r)
		return
	}
	c.mu.Lock()
	c.requests[r.Meta.UID] = r
	c.mu.Unlock()
	every.Signal(c.more)
}

func (c *cluster) drop(r kube.CertificateRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.requests, r.Meta.UID)
}

// answerAll answers requests as they come. One that could not be answered is tried again.
func (c *cluster) answerAll(ctx context.Context) {
	var at errgroup.Group
	at.SetLimit(workers)
	for {
		select {
		case <-ctx.Done():
			_ = at.Wait()
			return
		case <-c.more:
		}
		c.mu.Lock()
		all := slices.Collect(maps.Values(c.requests))
		clear(c.requests)
		c.mu.Unlock()
		for _, r := range all {
			at.Go(func() error {
				if !c.answer(ctx, r) {
					c.again(r)
				}
				return nil
			})
		}
	}
}

// again keeps a request for another answer, unless a newer form of it waits.
func (c *cluster) again(r kube.CertificateRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, newer := c.requests[r.Meta.UID]; !newer {
		c.requests[r.Meta.UID] = r
	}
	time.AfterFunc(retry, func() { every.Signal(c.more) })
}

// answer issues a certificate, or denies it for good. It reports whether the request needs no other answer.
func (c *cluster) answer(ctx context.Context, r kube.CertificateRequest) bool {
	pod := registrar.Pod{Namespace: r.Meta.Namespace, Name: r.Spec.PodName, UID: r.Spec.PodUID}
	a, err := c.decide(ctx, r, &pod)
	var refused *registrar.Refusal
	if errors.As(err, &refused) && refused.Reason != "rules" { // others may come
		a = kube.Answer{Conditions: []kube.Condition{{Type: kube.Denied, Reason: reasonOf(refused.Reason),
			Message: err.Error()}}}
		c.p.refuse(registrar.Caller{ID: registrar.PodID(pod), Pods: []registrar.Pod{pod}}, err)
	} else if err != nil {
		c.p.failed("the request "+r.Meta.Namespace+"/"+r.Meta.Name+" is not answered yet", err)
		return false
	}
	a.Conditions[0].Status, a.Conditions[0].LastTransitionTime = "True", time.Now().UTC().Truncate(time.Second)
	err = c.api.Answer(ctx, r, a)
	var status *kube.StatusError
	switch {
	case err == nil && refused == nil:
		c.p.made.WithLabelValues("tls").Inc()
	case err == nil: // denied
	case errors.As(err, &status) && (status.Code == http.StatusConflict || status.Code == http.StatusNotFound):
		// if it changed meanwhile, it comes again
	default:
		c.p.failed("the answer to "+r.Meta.Namespace+"/"+r.Meta.Name+" is not written", err)
		return false
	}
	return true
}

// reasonOf returns a reason as Kubernetes writes it.
func reasonOf(reason string) string {
	if reason == "key_type" {
		return "UnsupportedKeyType" // the kubelet knows it
	}
	var b strings.Builder
	for word := range strings.SplitSeq(reason, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// decide returns the certificate for a request that the rules allow. It completes pod.
func (c *cluster) decide(ctx context.Context, r kube.CertificateRequest, pod *registrar.Pod) (a kube.Answer,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	for key := range r.Spec.Annotations {
		return a, registrar.Refuse("annotation",
			"the pod %s/%s asks with the annotation %.100q, which this signer does not know",
			pod.Namespace, pod.Name, key)
	}
	if at := r.Meta.CreationTimestamp; at == nil || time.Since(*at) > maxAge {
		return a, registrar.Refuse("stale", "the request %s/%s is older than %s", r.Meta.Namespace, r.Meta.Name, maxAge)
	}
	seen, err := c.living(ctx, pod)
	if err != nil {
		return a, err
	}
	if seen.Spec.ServiceAccountName != r.Spec.ServiceAccountName || seen.Spec.NodeName != r.Spec.NodeName {
		return a, registrar.Refuse("service_account",
			"the request %s/%s names another service account or node than its pod", r.Meta.Namespace, r.Meta.Name)
	}
	asked := time.Duration(r.Spec.MaxExpirationSeconds) * time.Second
	leaf, chain, err := c.issue(ctx, *pod, r.Spec.StubPKCS10Request, asked)
	if err != nil {
		return a, err
	}
	from, to := leaf.NotBefore, leaf.NotAfter
	refresh := from.Add(to.Sub(from) / 2).Truncate(time.Second)
	return kube.Answer{Conditions: []kube.Condition{{Type: kube.Issued, Reason: "RuleMatched",
		Message: "a rule of the registrar allows " + leaf.URIs[0].String()}}, CertificateChain: chain, NotBefore: &from,
		BeginRefreshAt: &refresh, NotAfter: &to}, nil
}

// living reads a pod, and completes it. It refuses one that has ended.
func (c *cluster) living(ctx context.Context, pod *registrar.Pod) (seen kube.Pod, err error) {
	seen, err = c.api.Pod(ctx, pod.Namespace, pod.Name)
	var status *kube.StatusError
	switch {
	case errors.As(err, &status) && status.Code == http.StatusNotFound, err == nil && seen.Meta.UID != pod.UID,
		err == nil && seen.Ended():
		return seen, registrar.Refuse("gone", "the pod %s/%s with the UID %s has ended", pod.Namespace, pod.Name,
			pod.UID)
	case err == nil:
		*pod = c.podOf(seen)
	}
	return seen, err
}

// issue makes the certificate of a pod that the rules allow, for the key that signed a PKCS #10 request.
func (c *cluster) issue(ctx context.Context, pod registrar.Pod, request []byte, asked time.Duration) (
	*x509.Certificate, string, error) {
	rules, err := c.p.NewestRules(ctx) // the API server may have taken long to answer
	if err != nil {
		return nil, "", err
	}
	rule, err := rules.ForPod(pod)
	if err != nil {
		return nil, "", err
	}
	csr, err := x509.ParseCertificateRequest(request)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return nil, "", registrar.Refuse("possession",
			"the request of the pod %s/%s does not prove that its key is held: %v", pod.Namespace, pod.Name, err)
	}
	return c.p.authority.Issue(ctx, registrar.Leaf{Path: registrar.IDPath(rule, pod), DNSNames: rule.DNSNames,
		Public: csr.PublicKey, Lifetime: min(asked, c.p.config.Kubernetes.Lifetime.Or(config.RegistrarLifetime))})
}

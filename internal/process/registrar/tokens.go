package registrar

import (
	"context"
	"net"
	"net/http"
	"strings"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/registrar"
	"github.com/actionproof/mediator/internal/wire"
)

// certificates gives a pod its TLS certificate for its service account token, on clusters without
// PodCertificateRequests. The caller has no certificate yet.
func (p *process) certificates(w http.ResponseWriter, r *http.Request) {
	var q struct {
		CSR []byte `json:"csr"` // DER
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err == nil {
		err = p.mayRegister(from)
	}
	if err == nil {
		err = read(w, r, maxCSR, &q)
	}
	if err != nil {
		problem.Write(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), registerTimeout)
	defer cancel()
	var pod registrar.Pod
	chain, err := p.cluster.exchange(ctx, token, from, q.CSR, &pod)
	if err != nil {
		p.refuse(registrar.Caller{ID: registrar.PodID(pod), Pods: []registrar.Pod{pod}}, err)
	} else {
		p.made.WithLabelValues("tls").Inc()
	}
	wire.Write(w, struct {
		Certificate string `json:"certificate"`
		Authorities string `json:"authorities"`
	}{chain, string(p.authority.PEM())}, err)
}

// exchange returns the certificate for a token, which only its own pod can use: a token that was stolen comes from
// another address. It completes pod.
func (c *cluster) exchange(ctx context.Context, token, from string, csr []byte, pod *registrar.Pod) (string, error) {
	user, ok, err := c.api.ReviewToken(ctx, token, c.audience)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", registrar.Refuse("token", "the token from %s is no pod's token for %s", from, c.audience)
	}
	*pod = registrar.Pod{Namespace: user.Namespace, Name: user.Pod, UID: user.PodUID}
	seen, err := c.living(ctx, pod)
	if err != nil {
		return "", err
	}
	own := false
	for _, at := range seen.Status.PodIPs {
		own = own || net.ParseIP(at.IP).Equal(net.ParseIP(from))
	}
	switch {
	case pod.ServiceAccount != user.ServiceAccount:
		return "", registrar.Refuse("service_account",
			"the token of the pod %s/%s is for another service account than its pod's", pod.Namespace, pod.Name)
	case seen.Spec.HostNetwork:
		return "", registrar.Refuse("address", "the pod %s/%s has no address of its own", pod.Namespace, pod.Name)
	case len(seen.Status.PodIPs) == 0 || len(pod.Running) == 0:
		return "", refusal.New("process_unavailable", "the kubelet has not reported the pod %s/%s yet: ask again",
			pod.Namespace, pod.Name)
	case !own:
		return "", registrar.Refuse("address",
			"the token of the pod %s/%s comes from %s, which is no address of that pod: it "+
				"may be stolen", pod.Namespace, pod.Name, from)
	}
	_, chain, err := c.issue(ctx, *pod, csr, config.RegistrarLifetime)
	return chain, err
}

package registrar

import (
	"cmp"
	"slices"
	"strings"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/refusal"
)

// Refusal is a request that the registrar refuses. Reason is one word for metrics.
type Refusal struct {
	*refusal.Refusal
	Reason string
}

func refuse(reason, code, format string, args ...any) error {
	return &Refusal{refusal.New(code, format, args...), reason}
}

// Unwrap returns the refusal without the reason.
func (r *Refusal) Unwrap() error { return r.Refusal }

// Refuse refuses a request that the rules do not allow.
func Refuse(reason, format string, args ...any) error {
	return refuse(reason, "registrar_refused", format, args...)
}

// Caller is a process that asks for certificates.
type Caller struct {
	ID string // SPIFFE id, from its TLS certificate
	// Pods are the live pods that may have the id. They are nil off Kubernetes.
	Pods []Pod
}

// Refused returns the pods that a refusal of the caller is about: those that may be the caller, or the one that it was,
// of which only namespace and UID are known.
func (c Caller) Refused() []Pod {
	of := strings.Split(identity.ID(c.ID).Path(), "/")
	if c.Pods != nil && len(c.Pods) == 0 && len(of) == 3 && of[0] != "service" {
		return []Pod{{Namespace: of[1], UID: of[2]}}
	}
	return c.Pods
}

// Pod is what the API server says of a pod.
type Pod struct {
	Namespace, Name, UID, ServiceAccount string
	// Images are the images of the containers that hold the pod's certificate, as its specification writes them.
	Images []string
	// Running are the images of those that have started, as the kubelet reports them.
	Running []string
}

// PodID and ServiceID return the paths of the ids of a sidecar's pod and of a service account's pods.
func PodID(p Pod) string     { return "pod/" + p.Namespace + "/" + p.UID }
func ServiceID(p Pod) string { return "service/" + p.Namespace + "/" + p.ServiceAccount }

// AgentID returns the path of the id of an agent's pod, whose sidecar is in another pod.
func AgentID(p Pod) string { return "agent/" + p.Namespace + "/" + p.UID }

// ForPod returns the rule for a pod. It refuses a pod that no rule allows, and says which of its properties differs
// from all rules.
func (r *Rules) ForPod(p Pod) (evidence.RegistrarRule, error) {
	why := Refuse("namespace", "no rule is for the namespace %s of the pod %s", p.Namespace, p.Name)
	account := false // whether a rule is for the service account, too
	for _, rule := range r.Rules {
		switch {
		case rule.Namespace != p.Namespace:
		case rule.ServiceAccount == p.ServiceAccount:
			image := r.foreign(rule, p)
			if image == "" {
				return rule, nil
			}
			account, why = true, Refuse("digest",
				"no rule allows the image %.200q, which holds the certificate of the pod %s/%s", image, p.Namespace,
				p.Name)
		case !account:
			why = Refuse("service_account", "no rule is for the service account %s of the pod %s/%s", p.ServiceAccount,
				p.Namespace, p.Name)
		}
	}
	return evidence.RegistrarRule{}, why
}

// foreign returns an image that the rule does not allow, or nothing.
func (r *Rules) foreign(rule evidence.RegistrarRule, p Pod) string {
	if r.Trial && len(rule.ImageDigests) == 0 {
		return ""
	}
	if len(p.Images) == 0 {
		return "none"
	}
	for _, image := range slices.Concat(p.Images, p.Running) {
		_, digest, _ := strings.Cut(image, "@")
		if !slices.Contains(rule.ImageDigests, digest) {
			return cmp.Or(image, "none")
		}
	}
	return ""
}

// For returns the rule for a caller.
func (r *Rules) For(c Caller) (evidence.RegistrarRule, error) {
	for _, rule := range r.Rules {
		if rule.ID != "" && identity.ID(c.ID).Matches(rule.ID) {
			return rule, nil
		}
	}
	why := Refuse("id", "no rule is for %.200q", c.ID)
	if c.Pods != nil && len(c.Pods) == 0 {
		why = Refuse("gone", "no live pod has the id %.200q", c.ID)
	}
	for _, p := range c.Pods {
		rule, err := r.ForPod(p)
		if err == nil && IDPath(rule, p) == identity.ID(c.ID).Path() {
			return rule, nil
		}
		if err != nil {
			why = err
		}
	}
	return evidence.RegistrarRule{}, why
}

// IDPath returns the path of the SPIFFE id of a pod under a rule.
func IDPath(rule evidence.RegistrarRule, p Pod) string {
	switch rule.Role {
	case evidence.RoleSidecar:
		return PodID(p)
	case evidence.RoleAgent:
		return AgentID(p)
	}
	return ServiceID(p)
}

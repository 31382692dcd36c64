package kube

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Meta is the metadata of an object.
type Meta struct {
	Name              string     `json:"name,omitempty"`
	GenerateName      string     `json:"generateName,omitempty"`
	Namespace         string     `json:"namespace,omitempty"`
	UID               string     `json:"uid,omitempty"`
	ResourceVersion   string     `json:"resourceVersion,omitempty"`
	CreationTimestamp *time.Time `json:"creationTimestamp,omitempty"`
}

// Pod has the fields of a pod that identify it and its images.
type Pod struct {
	Meta Meta `json:"metadata"`
	Spec struct {
		ServiceAccountName  string      `json:"serviceAccountName"`
		NodeName            string      `json:"nodeName"`
		HostNetwork         bool        `json:"hostNetwork"`
		InitContainers      []Container `json:"initContainers"`
		Containers          []Container `json:"containers"`
		EphemeralContainers []Container `json:"ephemeralContainers"`
		Volumes             []struct {
			Name      string `json:"name"`
			Projected *struct {
				Sources []struct {
					PodCertificate *struct {
						SignerName string `json:"signerName"`
					} `json:"podCertificate"`
					Token *struct {
						Audience string `json:"audience"`
					} `json:"serviceAccountToken"`
				} `json:"sources"`
			} `json:"projected"`
		} `json:"volumes"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		PodIPs []struct {
			IP string `json:"ip"`
		} `json:"podIPs"`
		InitContainerStatuses      []ContainerStatus `json:"initContainerStatuses"`
		ContainerStatuses          []ContainerStatus `json:"containerStatuses"`
		EphemeralContainerStatuses []ContainerStatus `json:"ephemeralContainerStatuses"`
	} `json:"status"`
}

func (p Pod) Metadata() Meta { return p.Meta }

// Container is a container of a pod.
type Container struct {
	Name         string  `json:"name"`
	Image        string  `json:"image"`
	VolumeMounts []Mount `json:"volumeMounts"`
}

// Mount is the use of a volume, by its name.
type Mount struct {
	Name string `json:"name"`
}

// ContainerStatus says which image a container runs. ImageID is empty until it has started.
type ContainerStatus struct {
	Name    string `json:"name"`
	ImageID string `json:"imageID"`
}

// Ended reports whether all containers of the pod have ended.
func (p Pod) Ended() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// Holders returns the images of the containers that mount a certificate of the signer or, unless audience is empty, a
// token for it: as the specification names them, and as those that have started run them.
func (p Pod) Holders(signer, audience string) (images, running []string) {
	var volumes []string
	for _, v := range p.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.PodCertificate != nil && s.PodCertificate.SignerName == signer ||
				s.Token != nil && audience != "" && s.Token.Audience == audience {
				volumes = append(volumes, v.Name)
			}
		}
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers, p.Spec.EphemeralContainers) {
		if !slices.ContainsFunc(c.VolumeMounts, func(m Mount) bool { return slices.Contains(volumes, m.Name) }) {
			continue
		}
		images = append(images, c.Image)
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
			p.Status.EphemeralContainerStatuses) {
			if s.Name == c.Name && s.ImageID != "" {
				running = append(running, s.ImageID)
			}
		}
	}
	return images, running
}

// PodsPath returns the path of the pods of a namespace.
func PodsPath(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// Pod reads a pod. It fails with a [StatusError] of the code 404 if there is none.
func (c *Client) Pod(ctx context.Context, namespace, name string) (p Pod, err error) {
	return p, c.do(ctx, http.MethodGet, PodsPath(namespace)+"/"+name, nil, "", nil, &p)
}

// TokenUser is the holder of a pod's token, as the API server says.
type TokenUser struct{ Namespace, ServiceAccount, Pod, PodUID string }

// ReviewToken returns the pod whose token for an audience this is. ok is false if the API server does not know the
// token any more, or it is another's.
func (c *Client) ReviewToken(ctx context.Context, token, audience string) (u TokenUser, ok bool, err error) {
	var review struct {
		Status struct {
			Authenticated bool     `json:"authenticated"`
			Audiences     []string `json:"audiences"`
			User          struct {
				Username string              `json:"username"`
				Extra    map[string][]string `json:"extra"`
			} `json:"user"`
		} `json:"status"`
	}
	err = c.do(ctx, http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", nil, jsonType, map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
		"spec": map[string]any{"token": token, "audiences": []string{audience}},
	}, &review)
	s := review.Status
	name, isAccount := strings.CutPrefix(s.User.Username, "system:serviceaccount:")
	extra := func(key string) string { return strings.Join(s.User.Extra["authentication.kubernetes.io/"+key], " ") }
	u.Pod, u.PodUID = extra("pod-name"), extra("pod-uid")
	u.Namespace, u.ServiceAccount, _ = strings.Cut(name, ":")
	return u, err == nil && s.Authenticated && slices.Contains(s.Audiences, audience) && isAccount && u.Pod != "" &&
		u.PodUID != "", err
}

// CertificateRequest is a PodCertificateRequest of certificates.k8s.io/v1.
type CertificateRequest struct {
	Meta Meta `json:"metadata"`
	Spec struct {
		SignerName           string            `json:"signerName"`
		PodName              string            `json:"podName"`
		PodUID               string            `json:"podUID"`
		ServiceAccountName   string            `json:"serviceAccountName"`
		NodeName             string            `json:"nodeName"`
		MaxExpirationSeconds int64             `json:"maxExpirationSeconds"`
		StubPKCS10Request    []byte            `json:"stubPKCS10Request"`
		Annotations          map[string]string `json:"unverifiedUserAnnotations"`
	} `json:"spec"`
	Status struct {
		Conditions []Condition `json:"conditions"`
	} `json:"status"`
}

func (r CertificateRequest) Metadata() Meta { return r.Meta }

// Condition is a condition of a status.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
	LastTransitionTime time.Time `json:"lastTransitionTime"`
}

// Conditions of a [CertificateRequest], each of which is final.
const (
	Issued = "Issued"
	Denied = "Denied"
)

// RequestsPath is the path of all PodCertificateRequests.
const RequestsPath = certificates + "/podcertificaterequests"

const certificates = "/apis/certificates.k8s.io/v1"

// Answer is the status that a signer gives a [CertificateRequest]: of one that it denies, only the condition.
type Answer struct {
	Conditions       []Condition `json:"conditions"`
	CertificateChain string      `json:"certificateChain,omitempty"`
	NotBefore        *time.Time  `json:"notBefore,omitempty"`
	BeginRefreshAt   *time.Time  `json:"beginRefreshAt,omitempty"`
	NotAfter         *time.Time  `json:"notAfter,omitempty"`
}

// Answer writes the status of a request. It fails if the request has changed meanwhile.
func (c *Client) Answer(ctx context.Context, r CertificateRequest, a Answer) error {
	path := certificates + "/namespaces/" + r.Meta.Namespace + "/podcertificaterequests/" + r.Meta.Name + "/status"
	return c.do(ctx, http.MethodPatch, path, nil, mergeType, map[string]any{
		"metadata": Meta{UID: r.Meta.UID, ResourceVersion: r.Meta.ResourceVersion}, "status": a,
	}, nil)
}

// ApplyTrustBundle publishes the certificates of a signer's CA. name is a name of a ClusterTrustBundle of the signer.
func (c *Client) ApplyTrustBundle(ctx context.Context, name, signer, pem string) error {
	return c.apply(ctx, certificates+"/clustertrustbundles/"+name, map[string]any{
		"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": Meta{Name: name},
		"spec": map[string]string{"signerName": signer, "trustBundle": pem},
	})
}

// ApplyConfigMap makes or changes a ConfigMap.
func (c *Client) ApplyConfigMap(ctx context.Context, namespace, name string, data map[string]string) error {
	return c.apply(ctx, "/api/v1/namespaces/"+namespace+"/configmaps/"+name, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": Meta{Name: name, Namespace: namespace}, "data": data,
	})
}

// Warn makes an Event about a pod, whose name may be unknown. reason is one word.
func (c *Client) Warn(ctx context.Context, pod Meta, reason, message string, at time.Time) error {
	at = at.UTC().Truncate(time.Second)
	name := cmp.Or(pod.Name, "pod")
	return c.do(ctx, http.MethodPost, "/api/v1/namespaces/"+pod.Namespace+"/events", nil, jsonType, map[string]any{
		"apiVersion": "v1", "kind": "Event",
		"metadata": Meta{GenerateName: strings.TrimRight(name[:min(len(name), 50)], "-.") + ".",
			Namespace: pod.Namespace},
		"involvedObject": map[string]string{"apiVersion": "v1", "kind": "Pod", "namespace": pod.Namespace,
			"name": pod.Name, "uid": pod.UID},
		"type": "Warning", "reason": reason, "message": message[:min(len(message), 1000)], "count": 1,
		"firstTimestamp": at, "lastTimestamp": at, "source": map[string]string{"component": manager},
	}, nil)
}

package registrar

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/lru"
	"github.com/actionproof/mediator/internal/registrar"
)

// cluster follows the pods of the namespaces that the rules name, and signs their PodCertificateRequests.
type cluster struct {
	p      *process
	api    *kube.Client
	signer string
	// audience is in pods' tokens for certificates; empty if they get none for tokens.
	audience string

	mu       sync.Mutex // guards all below
	pods     map[string]registrar.Pod
	listed   map[string]bool                    // namespaces whose pods are all known
	requests map[string]kube.CertificateRequest // that wait for an answer, by UID
	more     chan struct{}                      // has room for one: there are requests
	warned   *lru.Cache[[2]string, bool]        // Events that were made, by pod and reason
	watches  map[string]context.CancelFunc      // by namespace; only followPods uses it
	ruled    chan struct{}                      // has room for one: there are other rules
}

const (
	warnings  = 4096
	maxWarned = 16               // pods that one refusal is about
	workers   = 8                // requests that are answered at once
	retry     = 2 * time.Second  // of requests that could not be answered
	maxAge    = 10 * time.Minute // of a request: the kubelet makes another
)

func newCluster(p *process) (*cluster, error) {
	k := p.config.Kubernetes
	api, err := kube.New(apiServer(k))
	if err != nil {
		return nil, err
	}
	audience := ""
	if k.Tokens {
		audience = evidence.AudienceRegistrar
	}
	return &cluster{p: p, api: api, signer: k.Signer, audience: audience, pods: make(map[string]registrar.Pod),
		listed:   make(map[string]bool),
		requests: make(map[string]kube.CertificateRequest), more: make(chan struct{}, 1),
		warned: lru.New[[2]string, bool](warnings), watches: make(map[string]context.CancelFunc),
		ruled: make(chan struct{}, 1)}, nil
}

// followPods watches the pods of each namespace that the rules name, until ctx ends.
func (c *cluster) followPods(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		if rules, err := c.p.Rules(); err == nil {
			wanted := rules.Namespaces()
			for namespace, stop := range c.watches {
				if !slices.Contains(wanted, namespace) {
					stop()
					delete(c.watches, namespace)
				}
			}
			for _, namespace := range wanted {
				if c.watches[namespace] == nil {
					within, stop := context.WithCancel(ctx)
					c.watches[namespace] = stop
					all.Go(func() { c.watchPods(within, namespace) })
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-c.ruled:
		}
	}
}

func (c *cluster) watchPods(ctx context.Context, namespace string) {
	kube.Watch(ctx, c.api, kube.PodsPath(namespace), "", kube.Observer[kube.Pod]{
		Listed: func(all []kube.Pod) {
			c.forget(namespace)
			for _, p := range all {
				c.see(p)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.listed[namespace] = true
		},
		Changed: c.see,
		Deleted: func(p kube.Pod) {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.pods, p.Meta.UID)
		},
		Failed: func(err error) { c.p.failed("the pods of "+namespace+" cannot be watched", err) },
	})
	c.forget(namespace)
}

func (c *cluster) forget(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed[namespace] = false
	for uid, p := range c.pods {
		if p.Namespace == namespace {
			delete(c.pods, uid)
		}
	}
}

// see keeps a pod that holds a certificate of this signer, unless it has ended.
func (c *cluster) see(p kube.Pod) {
	of := c.podOf(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.Ended() || len(of.Images) == 0 {
		delete(c.pods, of.UID)
		return
	}
	c.pods[of.UID] = of
}

func (c *cluster) podOf(p kube.Pod) registrar.Pod {
	of := registrar.Pod{Namespace: p.Meta.Namespace, Name: p.Meta.Name, UID: p.Meta.UID,
		ServiceAccount: p.Spec.ServiceAccountName}
	of.Images, of.Running = p.Holders(c.signer, c.audience)
	return of
}

// podsOf returns the live pods that may have an id, never nil.
func (c *cluster) podsOf(id identity.ID) []registrar.Pod {
	all := []registrar.Pod{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.HasPrefix(string(id), "spiffe://"+c.p.config.Kubernetes.TrustDomain+"/") {
		return all
	}
	path := id.Path()
	for _, p := range c.pods {
		if registrar.PodID(p) == path || registrar.ServiceID(p) == path {
			all = append(all, p)
		}
	}
	return all
}

// listTimeout bounds a list of pods while the trust bundle is locked: well below the ten seconds of a transaction.
const listTimeout = 5 * time.Second

// gone returns the test whether no pod has a UID, or a service account: the last segment of its id. The watch can be
// behind that of the replica at which a pod has registered: without it no pod is gone that a new list has.
func (c *cluster) gone(ctx context.Context) func(own string) bool {
	list := sync.OnceValues(func() (map[string]bool, error) {
		live, err := c.alive(ctx)
		c.p.failed("the pods cannot be listed, so no certificate ends early", err)
		return live, err
	})
	return func(own string) bool {
		if !c.unseen(own) {
			return false
		}
		live, err := list()
		return err == nil && !live[own]
	}
}

// alive lists the UIDs and service accounts of the pods that have not ended.
func (c *cluster) alive(ctx context.Context) (map[string]bool, error) {
	rules, err := c.p.Rules()
	if err != nil {
		return nil, err
	}
	live := make(map[string]bool)
	for _, namespace := range rules.Namespaces() {
		all, _, err := kube.List[kube.Pod](ctx, c.api, kube.PodsPath(namespace), "")
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			if !p.Ended() {
				live[p.Meta.UID], live[p.Spec.ServiceAccountName] = true, true
			}
		}
	}
	return live, nil
}

// unseen reports whether the watch knows no pod with this UID or service account. Until it knows the pods of all
// namespaces, it reports false.
func (c *cluster) unseen(own string) bool {
	rules, err := c.p.Rules()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil || slices.ContainsFunc(rules.Namespaces(),
		func(namespace string) bool { return !c.listed[namespace] }) {
		return false
	}
	for uid, p := range c.pods {
		if uid == own || p.ServiceAccount == own {
			return false
		}
	}
	return true
}

// lead signs requests and publishes the CA, until ctx ends. The replica that led before may have made the CA another
// certificate.
func (c *cluster) lead(ctx context.Context) {
	open := func() error { return c.p.authority.Open(ctx) }
	if await.Success(ctx, c.p.Log, retry, "the CA is not read", open) != nil {
		return
	}
	var work sync.WaitGroup
	if c.audience == "" { // else the cluster may have no such requests
		work.Go(func() {
			of := "spec.signerName=" + c.signer
			kube.Watch(ctx, c.api, kube.RequestsPath, of, kube.Observer[kube.CertificateRequest]{
				Listed: func(all []kube.CertificateRequest) {
					for _, r := range all {
						c.take(r)
					}
				},
				Changed: c.take,
				Deleted: c.drop,
				Failed:  func(err error) { c.p.failed("PodCertificateRequests cannot be watched", err) },
			})
		})
	}
	work.Go(func() { c.answerAll(ctx) })
	for published := ""; ctx.Err() == nil; _ = every.Sleep(ctx, ownRenewal/60) {
		published = c.publishCA(ctx, published)
	}
	work.Wait()
}

// publishCA publishes the CA's certificates as a ClusterTrustBundle, or for pods with tokens in the ConfigMap, if they
// differ from those published. It returns what is published.
func (c *cluster) publishCA(ctx context.Context, published string) string {
	pem := string(c.p.authority.PEM())
	var err error
	switch {
	case pem == published:
	case c.audience == "":
		name := strings.ReplaceAll(c.signer, "/", ":") + ":ca"
		if err = c.api.ApplyTrustBundle(ctx, name, c.signer, pem); err == nil {
			c.p.Log.Info("CA published", zap.String("clusterTrustBundle", name))
		}
	case !c.p.config.Trial && c.p.config.Kubernetes.ConfigMap != "": // in a trial it has more: see trialRules
		err = c.publish(map[string]string{"ca.pem": pem})
	}
	if err != nil {
		c.p.failed("the CA is not published", err)
		return published
	}
	return pem
}

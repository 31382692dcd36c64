// Package node is a Kubernetes node for tests. It does what a kubelet, a container runtime, a network plugin,
// kube-proxy and a DNS server do together, for the fields of a pod that fields.go lists, and refuses pods with others.
// Containers are processes of this machine in namespaces of their own; images are folders of this machine. It needs
// root.
package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netns"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// Name is the node's name.
const Name = "node"

// Options are all required.
type Options struct {
	// Client has the rights of the node: user system:node:node, group system:nodes. Cluster is for what watches all
	// namespaces: Services, endpoints and NetworkPolicies.
	Client, Cluster kubernetes.Interface

	// APIServer is the address on the machine's loopback to which the Service kubernetes leads.
	APIServer string

	// Dir is an empty folder for volumes and logs. Enter is the built command node/sandbox/enter.
	Dir, Enter string

	// Problem is called, by any goroutine, with what a test must not overlook: a pod with a field that is not carried out.
	Problem func(message string)
}

// Node is a node that runs.
type Node struct {
	options Options
	client  kubernetes.Interface
	uid     types.UID
	network *network
	images  images
	objects objects

	firewall            *firewall
	names               *names
	services            corelisters.ServiceLister
	certificateRequests certificateslisters.PodCertificateRequestLister
	trustBundles        certificateslisters.ClusterTrustBundleLister

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu      sync.Mutex // guards runners
	runners map[types.UID]*podRunner
}

// Start registers the node and runs the pods that are bound to it until Close.
func Start(ctx context.Context, options Options) (*Node, error) {
	network, err := newNetwork()
	if err != nil {
		return nil, err
	}
	n := &Node{
		options: options, client: options.Client, network: network,
		objects: objects{client: options.Client, known: map[string]object{}},
		runners: map[types.UID]*podRunner{},
	}
	n.ctx, n.cancel = context.WithCancel(ctx)
	if err := n.start(); err != nil {
		n.Close()
		return nil, fmt.Errorf("node: %w", err)
	}
	return n, nil
}

func (n *Node) start() error {
	if err := os.MkdirAll(n.options.Dir, 0o755); err != nil {
		return err
	}
	if err := n.forwardAPIServer(); err != nil {
		return err
	}
	cluster := informers.NewSharedInformerFactory(n.options.Cluster, 0)
	n.services = cluster.Core().V1().Services().Lister()
	n.firewall = newFirewall(n, cluster)
	var err error
	if n.names, err = newNames(n); err != nil {
		return err
	}
	if err := n.register(); err != nil {
		return err
	}
	cluster.Start(n.ctx.Done())
	cluster.WaitForCacheSync(n.ctx.Done())
	n.group.Go(func() { n.firewall.run(n.ctx) })
	n.group.Go(func() { n.renewLease(n.ctx) })
	return n.watch()
}

// Close ends all pods by force and the node's network with them.
func (n *Node) Close() {
	n.cancel()
	n.mu.Lock()
	runners := slices.Collect(mapsValues(n.runners))
	n.mu.Unlock()
	for _, r := range runners {
		r.stop(0, "")
	}
	if n.names != nil {
		n.names.close()
	}
	n.group.Wait()
	n.network.close()
}

func mapsValues[K comparable, V any](m map[K]V) func(yield func(V) bool) {
	return func(yield func(V) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// AddImage makes an image known to the node, and returns it with its digest.
func (n *Node) AddImage(image Image) (Image, error) { return n.images.add(image) }

// Listen opens a listener outside the cluster, at an address such as 203.0.113.7:443 that pods reach unless a
// NetworkPolicy forbids it. hosts are names that the cluster's DNS gives the address for.
func (n *Node) Listen(address string, hosts ...string) (net.Listener, error) {
	ip, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if err := n.network.addAddress(ip); err != nil && !os.IsExist(err) {
		return nil, err
	}
	n.names.add(ip, hosts)
	return n.network.Listen("tcp", address)
}

// Dial connects from the node's network to a pod, a Service by its name ("trigger.mediator.svc:8443") or another
// address.
func (n *Node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return n.dial(ctx, n.network.namespace, network, address)
}

// DialFrom is Dial from the network of a pod that runs.
func (n *Node) DialFrom(pod corev1.Pod) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		for _, r := range n.pods() {
			if r.pod.UID == pod.UID {
				return n.dial(ctx, r.network.namespace, network, address)
			}
		}
		return nil, fmt.Errorf("dial from the pod %s: it does not run", pod.Name)
	}
}

func (n *Node) dial(ctx context.Context, from netns.NsHandle, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		found, ok := n.names.lookUp(host + ".")
		if !ok || len(found) == 0 {
			return nil, fmt.Errorf("dial from the node: no address of %s", host)
		}
		host = found[0]
	}
	return dialFrom(ctx, from, network, net.JoinHostPort(host, port))
}

// Logs is what the container of a pod printed in its last run, and before it in the earlier ones.
func (n *Node) Logs(pod types.UID, container string) string {
	n.mu.Lock()
	r := n.runners[pod]
	n.mu.Unlock()
	if r == nil {
		return ""
	}
	var all []byte
	for i := int32(0); ; i++ {
		raw, err := os.ReadFile(r.logPath(container, i))
		if err != nil {
			return string(all)
		}
		all = append(all, raw...)
	}
}

// Volume returns the folder of a pod's volume.
func (n *Node) Volume(pod corev1.Pod, name string) string {
	n.mu.Lock()
	r := n.runners[pod.UID]
	n.mu.Unlock()
	if r == nil {
		return ""
	}
	r.volumesMu.Lock()
	defer r.volumesMu.Unlock()
	return r.volumePaths[name]
}

// register makes the Node object, ready and with room for all pods of a test.
func (n *Node) register() error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1000Gi"),
		corev1.ResourcePods: resource.MustParse("5000"), corev1.ResourceEphemeralStorage: resource.MustParse("1000Gi"),
	}
	nodes := n.client.CoreV1().Nodes()
	made, err := nodes.Create(n.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   Name,
		Labels: map[string]string{corev1.LabelHostname: Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register: %w", err)
	}
	n.uid = made.UID
	now := metav1.Now()
	made.Status = corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now,
			LastTransitionTime: now,
		}},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: Address},
			{Type: corev1.NodeHostName, Address: Name}},
		NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64"},
	}
	if _, err := nodes.UpdateStatus(n.ctx, made, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return nil
}

// renewLease tells the node controller that the node lives.
func (n *Node) renewLease(ctx context.Context) {
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	holder, seconds := Name, int32(40)
	for {
		now := metav1.NowMicro()
		spec := coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now}
		lease, err := leases.Get(ctx, Name, metav1.GetOptions{})
		switch {
		case err == nil:
			lease.Spec = spec
			_, _ = leases.Update(ctx, lease, metav1.UpdateOptions{})
		case apierrors.IsNotFound(err):
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: Name}, Spec: spec}
			_, _ = leases.Create(ctx, lease, metav1.CreateOptions{})
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(5 * time.Second):
		}
	}
}

// watch follows the pods of the node and the certificates that it asked for.
func (n *Node) watch() error {
	mine := func(field string) informers.SharedInformerOption {
		return informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(field, Name).String()
		})
	}
	pods := informers.NewSharedInformerFactoryWithOptions(n.client, 0, mine("spec.nodeName"))
	_, err := pods.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.see(o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) { n.see(o.(*corev1.Pod)) },
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			n.gone(o.(*corev1.Pod))
		},
	})
	if err != nil {
		return err
	}
	requests := informers.NewSharedInformerFactoryWithOptions(n.client, 0, mine("spec.nodeName"))
	n.certificateRequests = requests.Certificates().V1().PodCertificateRequests().Lister()
	wake := func(o any) { n.wake(o) }
	_, err = requests.Certificates().V1().PodCertificateRequests().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{
			AddFunc: wake, UpdateFunc: func(_, o any) { wake(o) },
		})
	if err != nil {
		return err
	}
	bundles := informers.NewSharedInformerFactory(n.client, 0)
	n.trustBundles = bundles.Certificates().V1().ClusterTrustBundles().Lister()
	for _, factory := range []informers.SharedInformerFactory{bundles, requests, pods} {
		factory.Start(n.ctx.Done())
		factory.WaitForCacheSync(n.ctx.Done())
	}
	return n.ctx.Err()
}

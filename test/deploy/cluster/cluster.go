// Package cluster starts a Kubernetes cluster for a test: the real etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, built from their modules, and one node of package node that runs pods as processes.
//
//	c := cluster.Start(t)
//	c.RegisterImage(node.Image{Name: "registry.test/mediator", Dir: dir, Entrypoint: []string{"/mediator"}})
//	c.Apply("default", manifests)
//	c.WaitReady("default", "deployment/trigger")
//
// It needs root. Nothing of it is reached from outside this machine: the control plane listens on loopback. Pods,
// Services and the "outside" of a test have their addresses in network namespaces of the test.
package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/actionproof/mediator/test/deploy/node"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// patience is how long anything may take on a busy machine. Nothing waits that long for what works.
const patience = 3 * time.Minute

// Cluster is a cluster that runs until the end of its test. A method that fails ends the test, with what the pods said;
// in a subtest use what For returns.
type Cluster struct {
	// Config and Kubeconfig (a path, for helm and the like) have the rights of an administrator; so has Client.
	Config     *rest.Config
	Kubeconfig string
	Client     kubernetes.Interface

	// Node runs the pods.
	Node *node.Node

	t       testing.TB
	plane   *controlPlane
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

// For is the same cluster for a subtest: what fails ends that one.
func (c *Cluster) For(t testing.TB) *Cluster {
	own := *c
	own.t = t
	return &own
}

// Start starts a cluster, which ends with the test. It needs root.
func Start(t testing.TB) *Cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("the node makes network namespaces and mounts, which needs root: run sudo make test-deploy")
	}
	binaries, err := Build()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, plane: &controlPlane{binaries: binaries, dir: t.TempDir()}}
	var mu sync.Mutex // guards ended: a pod may report a problem when the test is over
	ended := false
	problem := func(message string) {
		mu.Lock()
		defer mu.Unlock()
		if !ended {
			t.Error(message)
		}
	}
	t.Cleanup(func() {
		mu.Lock()
		ended = true
		mu.Unlock()
		c.stop()
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.start(ctx, problem); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Cluster) start(ctx context.Context, problem func(string)) error {
	if err := c.plane.start(ctx); err != nil {
		return err
	}
	c.Config, c.Kubeconfig = c.plane.config("admin"), c.plane.kubeconfig("admin")
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	if err := c.addSystemServices(ctx); err != nil {
		return err
	}
	kubelet, err := kubernetes.NewForConfig(c.plane.config("node"))
	if err != nil {
		return err
	}
	c.Node, err = node.Start(context.WithoutCancel(ctx), node.Options{
		Client: kubelet, Cluster: c.Client, APIServer: "127.0.0.1:" + c.plane.port,
		Dir: c.plane.path("node"), Enter: c.plane.binaries.Enter, Problem: problem,
	})
	if err != nil {
		return err
	}
	// Pods can be made once their service account is there.
	return c.poll(func() (bool, string) {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// addSystemServices tells where the API server and the DNS are.
func (c *Cluster) addSystemServices(ctx context.Context) error {
	_, err := c.Client.CoreV1().Services(metav1.NamespaceSystem).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-dns"},
		Spec: corev1.ServiceSpec{ClusterIP: node.DNSService, Ports: []corev1.ServicePort{
			{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP, TargetPort: intstr.FromInt32(53)},
			{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(53)},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	name, port := "https", int32(node.APIPort)
	_, err = c.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{node.Address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}, metav1.CreateOptions{})
	return err
}

func (c *Cluster) stop() {
	if c.t.Failed() {
		c.t.Log(c.describe())
	}
	if c.Node != nil {
		c.Node.Close()
	}
	c.plane.stop()
}

// RegisterImage makes a folder of this machine known as an image, and returns it with its digest.
func (c *Cluster) RegisterImage(image node.Image) node.Image {
	c.t.Helper()
	registered, err := c.Node.AddImage(image)
	if err != nil {
		c.t.Fatal(err)
	}
	return registered
}

// DebianImage registers this machine's own programs as an image: /usr with its links and a copy of /etc. Binds are more
// folders of the machine, for example of an agent's packages, at the paths that are the keys. User is "uid:gid".
func (c *Cluster) DebianImage(name, user string, binds map[string]string) node.Image {
	c.t.Helper()
	dir := c.t.TempDir()
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(dir, link)); err != nil {
			c.t.Fatal(err)
		}
	}
	if output, err := exec.Command("cp", "-a", "/etc", dir).CombinedOutput(); err != nil {
		c.t.Fatalf("copy /etc: %v: %s", err, output)
	}
	for path, mode := range map[string]os.FileMode{"usr": 0o755, "run": 0o755, "tmp": 0o777 | os.ModeSticky} {
		if err := os.Mkdir(filepath.Join(dir, path), mode); err != nil {
			c.t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			c.t.Fatal(err)
		}
	}
	all := map[string]string{"/usr": "/usr"}
	for target, source := range binds {
		all[target] = source
	}
	return c.RegisterImage(
		node.Image{Name: name, Dir: dir, Binds: all, User: user, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}})
}

// StopAPIServer ends the API server by force; StartAPIServer starts it again over the same data.
func (c *Cluster) StopAPIServer() { stop(c.plane.apiServer) }

// StartAPIServer starts the API server that StopAPIServer stopped, and returns when it is ready.
func (c *Cluster) StartAPIServer() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.plane.startAPIServer(ctx); err != nil {
		c.t.Fatal(err)
	}
}

// Listen opens a listener outside the cluster, closed with the test: at an address such as 203.0.113.7:443, which pods
// reach, also by the names that hosts are, unless a NetworkPolicy forbids it.
func (c *Cluster) Listen(address string, hosts ...string) net.Listener {
	c.t.Helper()
	l, err := c.Node.Listen(address, hosts...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	return l
}

// HTTPClient asks pods and Services from the node, by their addresses or names ("http://web.default.svc"). trust may be
// nil.
func (c *Cluster) HTTPClient(trust *tls.Config) *http.Client {
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: c.Node.Dial, TLSClientConfig: trust, DisableKeepAlives: true},
	}
}

// Pods are the pods that a label selector names; empty selects all.
func (c *Cluster) Pods(namespace, selector string) []corev1.Pod {
	c.t.Helper()
	list, err := c.Client.CoreV1().Pods(namespace).List(c.t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		c.t.Fatal(err)
	}
	return list.Items
}

// Logs is what a container of a pod printed, in all its runs.
func (c *Cluster) Logs(pod corev1.Pod, container string) string {
	return c.Node.Logs(pod.UID, container)
}

// describe tells what is known of all pods, for a test that failed.
func (c *Cluster) describe() string {
	var out bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if c.Node == nil {
		return "the cluster did not start"
	}
	pods, err := c.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for _, pod := range pods.Items {
		fmt.Fprintf(&out, "pod %s/%s: %s %s %s\n", pod.Namespace, pod.Name, pod.Status.Phase, pod.Status.Reason,
			pod.Status.Message)
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			fmt.Fprintf(&out, "  container %s: ready %t, restarts %d, %s\n", s.Name, s.Ready, s.RestartCount,
				strings.Join(strings.Fields(s.State.String()), " "))
			for line := range strings.Lines(string(tail([]byte(c.Logs(pod, s.Name))))) {
				fmt.Fprintf(&out, "    %s\n", strings.TrimSuffix(line, "\n"))
			}
		}
	}
	events, err := c.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "type=Warning"})
	if err != nil {
		return out.String() + err.Error()
	}
	for _, e := range events.Items {
		fmt.Fprintf(&out, "event %s/%s: %s: %s\n", e.Namespace, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return out.String()
}

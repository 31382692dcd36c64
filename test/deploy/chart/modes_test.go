package chart_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	"github.com/actionproof/mediator/test/tlstest"
)

const (
	outside = "203.0.113.66" // an address that no rule allows
	proxyIP = "10.96.0.20"
)

// TestModes lets an attacker with the rights of an agent's container try every way out, and counts what arrives.
func TestModes(t *testing.T) {
	for _, mode := range []string{"guard", "pod"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			testMode(t, mode)
		})
	}
}

func testMode(t *testing.T, mode string) {
	c := cluster.Start(t)
	authority := tlstest.New(t)
	posts := api(t, c, authority, "api.example.com")
	for _, port := range []string{"53", "443"} {
		l := c.Listen(outside + ":" + port)
		go func() {
			for {
				if c, err := l.Accept(); err == nil {
					c.Close()
				} else {
					return
				}
			}
		}()
	}
	image, attacker := mediatorImage(t, c, authority), programImage(t, c, "attacker", "../attacker")
	agent := c.DebianImage("registry.test/agent", "", nil)
	enforce := ""
	if mode == "pod" {
		enforce = `, pod-security.kubernetes.io/enforce: restricted`
	}
	c.Apply("", `{apiVersion: v1, kind: Namespace, metadata: {name: mediator, labels: {
		pod-security.kubernetes.io/enforce: restricted}}}`)
	c.Apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: free}}")
	c.Apply("", `{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {
		actionproof.github.io/inject: enabled`+enforce+`}}}`)
	install(t, c, image, "--set", "sidecar.enforcement="+mode, "--set", "sidecar.outside={"+outside+"}",
		"--set", "proxy.address="+proxyIP, "--set-json", "sidecar.resolvers=[]")
	awaitPolicies(t, c)
	c.Apply("agents", fmt.Sprintf(agentDeployment, agent.Name, agent.Digest))
	c.WaitReady("mediator", "deployment/mediator-registrar", "deployment/mediator-trigger", "deployment/mediator-control")
	c.WaitReady("agents", "deployment/agent")
	c.Eventually("a post arrives", func() (bool, string) { return len(posts) > 0, "none came" })

	// Where nothing keeps it in, the attacker reaches every kind of target.
	targets := []string{outside, node.Address}
	allowed := []string{}
	for _, pod := range c.Pods("mediator", "") {
		targets = append(targets, pod.Status.PodIP)
		if mode == "pod" && pod.Labels["app.kubernetes.io/component"] == "proxy" {
			allowed = append(allowed, pod.Status.PodIP+" . tcp . 8444") // mutual TLS
		} else if mode == "guard" { // where the sidecar in the same pod sends
			allowed = append(allowed, pod.Status.PodIP+" . tcp . 8443", node.DNSService+" . udp . 53")
		}
	}
	free := attack(t, c, attacker, "free", targets)
	all := strings.Join(received(t, c, free), "\n")
	for _, kind := range []string{" . tcp . 443", " . udp . 53", " . icmp . ", " . udplite . ", `"pod`} {
		if !strings.Contains(all, kind) {
			t.Errorf("nothing like %s arrives of the attacker even where it may send:\n%s", kind, all)
		}
	}
	held := attack(t, c, attacker, "agents", append(targets, free.Status.PodIP))
	if all := received(t, c, held, allowed...); len(all) > 0 {
		t.Errorf("the attacker reached %q\n%s", all, c.Logs(held, "agent"))
	}
	if said := c.Logs(held, "agent"); strings.Contains(said, "raw") || strings.Contains(said, "OPEN unix") ||
		strings.Contains(said, outside) {
		t.Errorf("the attacker says:\n%s", said)
	}
	restricted(t, c)
	breakMode(t, c, mode)
	c.Apply("agents", pod("late", attacker))
	// Without kernel rules the sidecar itself is never ready, so that neither the validator nor the agent starts.
	container, reason := "mediator", "the kernel rules of mediator guard do not refuse"
	if mode == "pod" {
		container, reason = "mediator-validate", "could go around the mediator: "
	}
	c.Eventually("a pod that could go around is refused", func() (bool, string) {
		said := c.Logs(c.Pods("agents", "app=late")[0], container)
		return strings.Contains(said, reason), said
	})
	if said := c.Logs(c.Pods("agents", "app=late")[0], "agent"); said != "" {
		t.Errorf("the agent of that pod started: %s", said)
	}
}

// programImage builds an image with one program.
func programImage(t *testing.T, c *cluster.Cluster, name, source string) node.Image {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, name), source)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return c.RegisterImage(node.Image{Name: "registry.test/" + name, Dir: dir, Entrypoint: []string{"/" + name}})
}

// pod is a pod with one container as the chart asks for it.
func pod(name string, image node.Image, args ...string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {app: %[1]s}}, spec: {
		restartPolicy: Never, containers: [{name: agent, image: "%s@%s", args: ["%s"], securityContext: {runAsUser: 2000,
		allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`, name, image.Name, image.Digest,
		strings.Join(args, `", "`))
}

// attack runs the attacker as a pod's agent until it has tried everything.
func attack(t *testing.T, c *cluster.Cluster, image node.Image, namespace string, targets []string) corev1.Pod {
	t.Helper()
	count(t, c)
	c.Apply(namespace, pod("attacker", image, targets...))
	var attacker corev1.Pod
	c.Eventually("the attack in "+namespace+" ends", func() (bool, string) {
		attacker = c.Pods(namespace, "app=attacker")[0]
		said := c.Logs(attacker, "agent")
		return strings.Contains(said, "the attack is over"), said
	})
	return attacker
}

// count counts, by destination, the packets of pods that the node's own addresses or other pods receive, past all
// policies.
func count(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	_, err := c.Node.Nft(`table inet watch
delete table inet watch
table inet watch {
	set seen { type ipv4_addr . ipv4_addr . inet_proto . inet_service; flags dynamic; size 65535; }
	set six { type ifname; flags dynamic; size 65535; }
	chain in { type filter hook input priority 300; jump received; }
	chain on { type filter hook forward priority 300; jump received; }
	chain received {
		ip saddr `+node.PodRange+` ct state != established update @seen \
			{ ip saddr . ip daddr . meta l4proto . th dport counter }
		meta nfproto ipv6 meta l4proto != ipv6-icmp update @six { iifname counter }
	}
}`, "-f", "-")
	check.Must(t, err)
}

// received returns what arrived from a pod: destinations with their counters. Over IPv6, a pod is not told from others.
func received(t *testing.T, c *cluster.Cluster, from corev1.Pod, allowed ...string) (all []string) {
	t.Helper()
	list, err := c.Node.Nft("", "list", "table", "inet", "watch")
	check.Must(t, err)
	for _, one := range regexp.MustCompile(`("?[\w.]+"?(?: \. [\w.-]+)*) counter packets [1-9]\d* bytes \d+`).
		FindAllStringSubmatch(list, -1) {
		to, own := strings.CutPrefix(one[1], from.Status.PodIP+" . ")
		if (own || strings.HasPrefix(one[1], `"pod`)) && !slices.Contains(allowed, to) {
			all = append(all, one[1])
		}
	}
	return all
}

// restricted evaluates Pod Security for all pods: only the container that installs the kernel rules asks for more.
func restricted(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check.Must(t, err)
	for _, pod := range append(c.Pods("mediator", ""), c.Pods("agents", "")...) {
		pod.Spec.InitContainers = slices.DeleteFunc(pod.Spec.InitContainers, func(one corev1.Container) bool {
			return one.Name == "mediator-guard"
		})
		results := evaluator.EvaluatePod(
			podsecurity.LevelVersion{Level: podsecurity.LevelRestricted, Version: podsecurity.LatestVersion()},
			&pod.ObjectMeta, &pod.Spec)
		if r := policy.AggregateCheckResults(results); !r.Allowed {
			t.Errorf("%s/%s: %s: %s", pod.Namespace, pod.Name, r.ForbiddenReason(), r.ForbiddenDetail())
		}
	}
}

// breakMode takes away what the mode enforces, for later pods.
func breakMode(t *testing.T, c *cluster.Cluster, mode string) {
	t.Helper()
	if mode == "pod" {
		c.Delete("agents", "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: mediator-agents}}")
		return
	}
	policies := c.Client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	p, err := policies.Get(t.Context(), "mediator-inject", metav1.GetOptions{})
	check.Must(t, err)
	first := &p.Spec.Variables[0].Expression
	*first = strings.Replace(*first, `dyn("guard"), dyn("--config"), dyn("/etc/mediator/mediator.yaml")`,
		`dyn("explain"), dyn("event_closed")`, 1)
	_, err = policies.Update(t.Context(), p, metav1.UpdateOptions{})
	check.Must(t, err)
	tries := 0
	c.Eventually("the policy is broken", func() (bool, string) {
		tries++
		name := fmt.Sprint("broken-", tries)
		c.Apply("agents", strings.ReplaceAll(agentPod, "NAME", name))
		made := c.Pods("agents", "app="+name)[0]
		return made.Spec.InitContainers[0].Args[0] == "explain", fmt.Sprint(made.Spec.InitContainers[0].Args)
	})
}

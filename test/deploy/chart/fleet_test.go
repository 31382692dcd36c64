package chart_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
)

var size = flag.Int("pods", 10, "the agents' pods of TestFleet; 50 need an idle machine")

const agents = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: agent}
spec:
  replicas: %d
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 5}}
  progressDeadlineSeconds: 3600
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      serviceAccountName: worker
      containers:
        - name: agent
          image: %s@%s
          securityContext: {runAsUser: 2000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// fleet is an installation with many agents.
type fleet struct {
	*production
	new  node.Image // of the mediator; image is the old one
	pods map[types.UID]corev1.Pod
}

// TestFleet starts the pods at once, rotates all keys in Vault and renews the TLS certificates twice, changes the
// manifest, and upgrades everything to another program and back, all while they post: no post is lost, doubled or
// refused.
func TestFleet(t *testing.T) {
	t.Parallel()
	f := &fleet{pods: make(map[types.UID]corev1.Pod)}
	f.production = prepare(t, func(values map[string]any) {
		values["trigger"] = map[string]any{"config": map[string]any{"budget": 100000, "maxAge": "24h", "sources": []any{
			map[string]any{"name": "every-second", "schedule": map[string]any{"cron": "@every 1s"}}}}}
	})
	f.new = mediatorImage(t, f.Cluster, f.authority, []byte("another")...)
	agent := programImage(t, f.Cluster, "agent", "./agent")
	f.servicesReady()
	began := time.Now()
	f.Apply("agents", fmt.Sprintf(agents, *size, agent.Name, agent.Digest))
	f.await("all are certified", func(p corev1.Pod) bool { return p.Status.PodIP != "" && f.certified(p) })
	t.Logf("%d sidecars are certified %s after their Deployment is made", *size, time.Since(began).Round(time.Second))
	f.await("all are ready", cluster.PodReady)
	t.Logf("all agents post after %s", time.Since(began).Round(time.Second))
	f.more()

	f.follow("vault token create")
	f.rotated(2)
	f.Node.Renew()
	f.more()
	for _, name := range append([]string{"interaction-receipt-key", "appraiser-key"}, postKeys...) {
		f.vault.Write(t, "transit/keys/"+name+"/rotate", nil)
	}
	f.rotated(3)
	f.Node.Renew()
	f.more()

	f.allow()
	f.roll(f.new, func() { f.kill(f.leader()) })
	f.more()
	f.roll(f.image, func() {})
	f.more()

	f.check()
}

// postKeys are the keys whose signatures each post needs.
var postKeys = []string{"origin-proof-key", "trigger-receipt-key", "policy-decision-key", "action-grant-key",
	"runtime-key", "session-key", "request-proof-key"}

// rotated waits until posts have signatures by this version alone, and so sign the receipts' key and the node's.
func (f *fleet) rotated(version int) {
	f.t.Helper()
	began := time.Now()
	others := fmt.Sprintf(`mediator_signing_version\{key="(interaction-receipt|appraiser)-key".* %d$`, version)
	f.wait(fmt.Sprint("all sign with version ", version), func() (bool, string) {
		used := f.used("--since", "5s")
		for kid := range used {
			if kid != "auditor:v1" && !strings.HasSuffix(kid, fmt.Sprint(":v", version)) {
				return false, fmt.Sprint(used)
			}
		}
		for _, pod := range append(f.live(), f.Pods("mediator", "app.kubernetes.io/component=node")...) {
			if !f.metric(pod, others) {
				return false, pod.Name + " signs with an older key"
			}
		}
		return len(used) > 0, fmt.Sprint(used)
	})
	f.t.Logf("all sign with version %d after %s", version, time.Since(began).Round(time.Second))
}

// used counts the posts of each key version.
func (f *fleet) used(args ...string) map[string]int {
	f.t.Helper()
	var posts []struct{ Keys []string }
	said := f.enter("mediator posts list --keys --json --ledger local-dsn " + strings.Join(args, " "))
	check.Must(f.t, json.Unmarshal([]byte(said), &posts))
	used := make(map[string]int)
	for _, post := range posts {
		for _, kid := range post.Keys {
			used[kid]++
		}
	}
	return used
}

// allow has rules and manifest allow the new program too.
func (f *fleet) allow() {
	f.t.Helper()
	files, err := f.Client.CoreV1().ConfigMaps("mediator").Get(f.t.Context(), "mediator-files", metav1.GetOptions{})
	check.Must(f.t, err)
	f.write("mediator.yaml", []byte(files.Data["mediator.yaml"]))
	hash := f.enter(filepath.Join(f.new.Dir, "mediator") + " deployment hash mediator.yaml")
	f.values["rules"].(map[string]any)["serial"] = 2
	f.setImage(f.image)
	f.again("helm template", "rules.json", "rules.json --also "+strings.TrimSpace(hash))
	f.again("helm install", "install", "upgrade")
	f.await("all use the new manifest", func(p corev1.Pod) bool {
		return strings.Contains(f.Logs(p, "mediator"), `"msg":"reloaded"`)
	})
}

// setImage changes the image in values.yaml. Both stay allowed.
func (f *fleet) setImage(image node.Image) {
	f.values["image"] = map[string]any{"digest": image.Digest, "alsoDigests": []string{f.image.Digest, f.new.Digest}}
	f.writeValues()
}

// roll replaces the services' pods, and then the agents' a few at a time, by ones with an image. It calls during when
// the first agent is replaced.
func (f *fleet) roll(to node.Image, during func()) {
	f.t.Helper()
	began := time.Now()
	f.setImage(to)
	f.again("helm install", "install", "upgrade")
	f.servicesReady()
	runs := func(p corev1.Pod) bool { return p.Spec.InitContainers[0].Image == to.Name+"@"+to.Digest }
	var sample corev1.Pod
	check.Must(f.t, yaml.Unmarshal([]byte(strings.ReplaceAll(agentPod, "NAME", "sample")), &sample))
	f.wait("new pods get the image", func() (bool, string) { // the API server takes policies over a little later
		pod, err := f.Client.CoreV1().Pods("agents").Create(f.t.Context(), &sample,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && runs(*pod), fmt.Sprint(err)
	})
	f.patch(fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"sidecar":%q}}}}}`, to.Digest))
	f.wait("the first pod is replaced", func() (bool, string) {
		return len(filter(f.live(), func(p corev1.Pod) bool { return runs(p) && cluster.PodReady(p) })) > 0, ""
	})
	during()
	f.await("all pods are replaced", func(p corev1.Pod) bool { return runs(p) && cluster.PodReady(p) })
	f.t.Logf("services and %d sidecars are replaced in %s", *size, time.Since(began).Round(time.Second))
}

// kill ends a service's process by force.
func (f *fleet) kill(pod corev1.Pod) {
	f.t.Helper()
	var pid int
	_, err := fmt.Sscanf(pod.Status.ContainerStatuses[0].ContainerID, "process://%d", &pid)
	check.Must(f.t, err)
	check.Must(f.t, syscall.Kill(pid, syscall.SIGKILL))
}

func (f *fleet) patch(deployment string) {
	f.t.Helper()
	_, err := f.Client.AppsV1().Deployments("agents").Patch(f.t.Context(), "agent", types.StrategicMergePatchType,
		[]byte(deployment), metav1.PatchOptions{})
	check.Must(f.t, err)
}

// more waits until each pod has posted three times more.
func (f *fleet) more() {
	f.t.Helper()
	goal := f.take() + 3**size
	f.wait("posts go on", func() (bool, string) { n := f.take(); return n >= goal, fmt.Sprintf("%d of %d", n, goal) })
}

var said = regexp.MustCompile(`(?m)^(posted|refused|failed) (.*)$`)

// check ends the agents, compares what they say with what the API got, and verifies the records.
func (f *fleet) check() {
	f.t.Helper()
	f.patch(`{"spec":{"replicas":0}}`)
	f.wait("all pods are gone", func() (bool, string) { n := len(f.live()); return n == 0, fmt.Sprint(n, " live") })
	got, posted, drained, slow, waits := f.take(), 0, 0, 0, 0
	for _, pod := range f.pods {
		for _, m := range said.FindAllStringSubmatch(f.Logs(pod, "agent"), -1) {
			var comment struct{ Body string }
			switch {
			case m[1] == "posted":
				check.Must(f.t, json.Unmarshal([]byte(m[2]), &comment))
				if posted++; f.seen[comment.Body] != 1 {
					f.t.Errorf("%s came %d times", m[2], f.seen[comment.Body])
				}
			case m[1] == "refused" && strings.HasPrefix(m[2], "503") && strings.Contains(m[2], "not_ready"):
				drained++
			case m[1] == "refused" && strings.Contains(m[2], "custody_unavailable"):
				slow++
			case m[1] == "refused" && strings.Contains(m[2], "process_unavailable"):
				waits++ // for the next event; the ledger, read below, tells of refused posts
			case strings.Contains(m[2], "event_none"): // it waits for its first one
			default:
				f.t.Errorf("%s: %s", pod.Name, m[0])
			}
		}
	}
	if got != posted {
		f.t.Errorf("the API got %d posts, and the agents know of %d", got, posted)
	}
	f.t.Logf("%d pods made %d posts; for another try, drained sidecars refused %d, those for which Vault was slow %d; "+
		"%d waits for an event broke off", len(f.pods), posted, drained, slow, waits)
	var refused []struct{ ID, Reason string }
	list := f.enter("mediator posts list --state refused --flow post --json --ledger local-dsn")
	check.Must(f.t, json.Unmarshal([]byte(list), &refused))
	for _, r := range refused { // a busy machine is no fault
		if !strings.Contains(r.Reason, "Vault does not answer in time") {
			f.t.Errorf("%s was refused: %s", r.ID, r.Reason)
		}
	}
	if out := f.follow("mediator verify"); !strings.Contains(out, fmt.Sprintf("%d verified", posted)) {
		f.t.Errorf("of %d posts: %s", posted, out[max(0, len(out)-2000):])
	}
	used := f.used()
	for _, key := range postKeys {
		for version := 1; version <= 3; version++ {
			if kid := fmt.Sprint(key, ":v", version); used[kid] == 0 {
				f.t.Errorf("no post has a signature by %s: %v", kid, used)
			}
		}
	}
}

// certified reports whether the registrar has certified a sidecar's keys.
func (f *fleet) certified(p corev1.Pod) bool {
	return strings.Contains(f.Logs(p, "mediator"), `"msg":"registered"`)
}

// live returns the agents' pods, and notes them.
func (f *fleet) live() []corev1.Pod {
	all := f.Pods("agents", "app=agent")
	for _, p := range all {
		f.pods[p.UID] = p
	}
	return all
}

// await waits until exactly the wanted number of pods are there, and so.
func (f *fleet) await(what string, so func(corev1.Pod) bool) {
	f.t.Helper()
	f.wait(what, func() (bool, string) {
		all := f.live()
		n := len(filter(all, so))
		return n == *size && len(all) == n, fmt.Sprintf("%d of %d pods", n, len(all))
	})
}

// wait is Eventually with the patience that many pods need. It goes on taking posts.
func (f *fleet) wait(what string, done func() (bool, string)) {
	f.t.Helper()
	end := time.Now().Add(15 * time.Minute)
	for {
		f.take()
		ok, state := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("%s: not within 15 minutes: %s", what, state)
		}
		select {
		case <-f.t.Context().Done():
			f.t.Fatal(what, f.t.Context().Err())
		case <-time.After(time.Second):
		}
	}
}

func filter(all []corev1.Pod, keep func(corev1.Pod) bool) (kept []corev1.Pod) {
	for _, p := range all {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

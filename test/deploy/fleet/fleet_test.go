package fleet_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
)

var size = flag.Int("pods", 10, "the agents' pods; 50 need an idle machine")

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
      containers:
        - name: agent
          image: %s@%s
          securityContext: {runAsUser: 2000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`

// fleet is a trial's installation with many agents.
type fleet struct {
	*cluster.Cluster
	t        *testing.T
	api      *api
	dir      string
	old, new node.Image
	args     []string // of helm, for all installations
	pods     map[types.UID]corev1.Pod
}

// TestFleet starts the pods at once, renews their certificates twice, upgrades their sidecars one after the other to
// another program, and back, all while they post: no post is lost, doubled or refused.
func TestFleet(t *testing.T) {
	f := &fleet{Cluster: cluster.Start(t), t: t, dir: t.TempDir(), pods: make(map[types.UID]corev1.Pod)}
	f.install()
	agent := f.image("agent", "registry.test/agent", "./agent")
	began := time.Now()
	f.Apply("agents", fmt.Sprintf(agents, *size, agent.Name, agent.Digest))
	f.await("all are certified", func(p corev1.Pod) bool { return p.Status.PodIP != "" && f.certified(p) })
	t.Logf("%d sidecars are certified %s after their Deployment is made", *size, time.Since(began).Round(time.Second))
	f.await("all are ready", ready)
	t.Logf("all agents post after %s", time.Since(began).Round(time.Second))
	f.more()

	for range 2 {
		f.Node.Renew()
		f.more()
	}

	f.allow()
	f.roll(f.new, func() { f.kill("registrar") })
	f.more()
	f.roll(f.old, func() {})
	f.more()

	check.Must(t, f.scale(0))
	f.check()
}

// roll has new pods get sidecars of an image, and replaces the agents' pods a few at a time. It calls during when the
// first are replaced.
func (f *fleet) roll(to node.Image, during func()) {
	f.t.Helper()
	began := time.Now()
	f.Apply("", f.helm("template", append(f.args, "--set", "image.digest="+to.Digest, "--show-only",
		"templates/inject.yaml", "--show-only", "templates/refuse.yaml")...))
	user, no := int64(2000), false
	sample := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "sample"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "agent", Image: to.Name + "@" + to.Digest,
			SecurityContext: &corev1.SecurityContext{RunAsUser: &user, AllowPrivilegeEscalation: &no,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}}
	runs := func(p corev1.Pod) bool { return p.Spec.InitContainers[0].Image == to.Name+"@"+to.Digest }
	f.wait("new pods get the image", func() (bool, string) { // the API server takes policies over a little later
		pod, err := f.Client.CoreV1().Pods("agents").Create(f.t.Context(), sample,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && runs(*pod), fmt.Sprint(err)
	})
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"sidecar":%q}}}}}`, to.Digest)
	_, err := f.Client.AppsV1().Deployments("agents").Patch(f.t.Context(), "agent", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	check.Must(f.t, err)
	f.wait("the first pod is replaced", func() (bool, string) {
		return len(filter(f.live(), func(p corev1.Pod) bool { return runs(p) && ready(p) })) > 0, ""
	})
	during()
	f.await("all pods are replaced", func(p corev1.Pod) bool { return runs(p) && ready(p) })
	f.t.Logf("%d sidecars are replaced in %s", *size, time.Since(began).Round(time.Second))
}

// allow has the manifest list the new program's environment too.
func (f *fleet) allow() {
	f.t.Helper()
	files, err := f.Client.CoreV1().ConfigMaps("mediator").Get(f.t.Context(), "mediator-files", metav1.GetOptions{})
	check.Must(f.t, err)
	f.write("mediator.yaml", files.Data["mediator.yaml"])
	hash := f.run(filepath.Join(f.new.Dir, "mediator"), "deployment", "hash", filepath.Join(f.dir, "mediator.yaml"))
	manifest := strings.Replace(files.Data["manifest.yaml"], "runtimePolicy:\n",
		"runtimePolicy:\n  alsoEnvironmentHashes: ["+strings.TrimSpace(hash)+"]\n", 1)
	path := f.write("manifest.yaml", manifest)
	f.args = append(f.args, "--set", "rules.serial=2", "--set-file", "files.manifest="+path)
	f.helm("upgrade", append(f.args, "--set", "image.digest="+f.old.Digest)...)
	f.await("all use the new manifest", func(p corev1.Pod) bool {
		return strings.Contains(f.Logs(p, "mediator"), `"msg":"reloaded"`)
	})
}

// kill ends a service's process by force.
func (f *fleet) kill(component string) {
	f.t.Helper()
	pod := f.Pods("mediator", "app.kubernetes.io/component="+component)[0]
	var pid int
	_, err := fmt.Sscanf(pod.Status.ContainerStatuses[0].ContainerID, "process://%d", &pid)
	check.Must(f.t, err)
	check.Must(f.t, syscall.Kill(pid, syscall.SIGKILL))
}

func (f *fleet) scale(to int) error {
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, to)
	_, err := f.Client.AppsV1().Deployments("agents").Patch(f.t.Context(), "agent", types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}

// more waits until each pod has posted three times more.
func (f *fleet) more() {
	f.t.Helper()
	goal := f.api.total() + 3**size
	f.wait("posts go on", func() (bool, string) { n := f.api.total(); return n >= goal, fmt.Sprintf("%d of %d", n, goal) })
}

var said = regexp.MustCompile(`(?m)^(posted|refused|failed) (.*)$`)

// check compares what the agents say with what the API got, and verifies the records after all pods are gone.
func (f *fleet) check() {
	f.t.Helper()
	f.wait("all pods are gone", func() (bool, string) { n := len(f.live()); return n == 0, fmt.Sprint(n, " live") })
	posted, drained := 0, 0
	for _, pod := range f.pods {
		for _, m := range said.FindAllStringSubmatch(f.Logs(pod, "agent"), -1) {
			switch {
			case m[1] == "posted":
				posted++
				if n := f.api.times(m[2]); n != 1 {
					f.t.Errorf("%s came %d times", m[2], n)
				}
			case m[1] == "refused" && strings.HasPrefix(m[2], "503") && strings.Contains(m[2], "not_ready"):
				drained++
			case strings.Contains(m[2], "no_event"): // it waits for its first one
			default:
				f.t.Errorf("%s: %s", pod.Name, m[0])
			}
		}
	}
	if got := f.api.total(); got != posted {
		f.t.Errorf("the API got %d posts, and the agents know of %d", got, posted)
	}
	f.t.Logf("%d pods made %d posts; drained sidecars refused %d for another try", len(f.pods), posted, drained)
	f.wait("no pod that is gone has a certificate", func() (bool, string) {
		n := strings.Count(f.registrar("bundle"), "runtime-key/")
		return n == 0, fmt.Sprint(n, " are left")
	})
	bundle := f.write("trust.json", f.registrar("bundle"))
	for n := 1; ; n++ {
		segment := f.registrar(fmt.Sprint("history/", n))
		if segment == "" {
			break
		}
		name := "trust-history.json"
		if n > 1 {
			name = fmt.Sprintf("trust-history-%d.json", n)
		}
		f.write(name, segment)
	}
	roots, err := f.Client.CoreV1().ConfigMaps("mediator").Get(f.t.Context(), "mediator-roots", metav1.GetOptions{})
	check.Must(f.t, err)
	out := f.run("../../../bin/mediator", "verify", "--ledger", f.write("dsn", f.api.local), "--bundle", bundle,
		"--manifest", f.write("manifest.yaml", roots.Data["manifest.yaml"]),
		"--registry", f.write("registry.jwk", roots.Data["registry.jwk"]),
		"--auditor", f.write("auditor.jwk", roots.Data["auditor.jwk"]))
	if !strings.Contains(out, fmt.Sprintf("%d verified", posted)) {
		f.t.Errorf("of %d posts: %s", posted, out[max(0, len(out)-2000):])
	}
}

// registrar returns what the registrar answers operators, or nothing.
func (f *fleet) registrar(path string) string {
	f.t.Helper()
	pod := f.Pods("mediator", "app.kubernetes.io/component=registrar")[0]
	short, err := os.MkdirTemp("", "r") // a socket's path has at most 107 bytes
	check.Must(f.t, err)
	defer os.RemoveAll(short)
	check.Must(f.t, os.Symlink(f.Node.Volume(pod, "run"), filepath.Join(short, "run")))
	socket := filepath.Join(short, "run", "registrar.sock")
	client := http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://registrar/v1/" + path)
	check.Must(f.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return ""
	}
	var raw json.RawMessage
	check.Must(f.t, json.NewDecoder(answer.Body).Decode(&raw))
	return string(raw)
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

// wait is Eventually with the patience that many pods need.
func (f *fleet) wait(what string, done func() (bool, string)) {
	f.t.Helper()
	end := time.Now().Add(15 * time.Minute)
	for {
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

func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func filter(all []corev1.Pod, keep func(corev1.Pod) bool) (kept []corev1.Pod) {
	for _, p := range all {
		if keep(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func (f *fleet) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	check.Must(f.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func (f *fleet) run(name string, args ...string) string {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), name, args...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
	return string(out)
}

// helm runs Helm with the trial's values.
func (f *fleet) helm(command string, args ...string) string {
	f.t.Helper()
	chart, err := filepath.Abs("../../../deploy/helm/mediator")
	check.Must(f.t, err)
	return f.run("go",
		append([]string{"tool", "-modfile", "../tools/go.mod", "helm", "--kubeconfig", f.Kubeconfig, command,
			"mediator", chart, "--namespace", "mediator", "--values", filepath.Join(chart, "ci/trial.yaml")}, args...)...)
}

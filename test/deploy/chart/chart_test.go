package chart_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/reputation/autonomy"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/deploy/chart"
	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/tlstest"
)

const folder = "../../../deploy/helm/mediator"

var update = flag.Bool("update", false, "write values.schema.json")

// TestSchema compares the chart's schema with what the configuration's types say now.
func TestSchema(t *testing.T) {
	want, err := chart.Schema()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "values.schema.json")
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Error("values.schema.json is not what the source says: go test ./chart -run TestSchema -update")
	}
}

var (
	toolsMu sync.Mutex                // guards tools
	tools   = make(map[string]string) // by name
)

// tool is a program of test/deploy/tools, which is built on first use.
func tool(t *testing.T, name string) string {
	t.Helper()
	toolsMu.Lock()
	defer toolsMu.Unlock()
	if tools[name] == "" {
		cmd := exec.CommandContext(t.Context(), "go", "tool", "-n", name)
		cmd.Dir = "../tools"
		path, err := cmd.Output()
		check.Must(t, err)
		tools[name] = strings.TrimSpace(string(path))
	}
	return tools[name]
}

// render runs the real Helm.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	args = append([]string{"template", "mediator", folder, "--namespace", "mediator"}, args...)
	cmd := exec.CommandContext(t.Context(), tool(t, "helm"), args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = errors.New(said.String())
	}
	return string(out), err
}

func ciFile(t *testing.T, name string) string {
	t.Helper()
	for _, file := range ciFiles(t) {
		if filepath.Base(file) == name+".yaml" {
			return file
		}
	}
	t.Fatal("there is no file for", name)
	return ""
}

func ciFiles(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "ci", "*.yaml"))
	if err != nil || len(found) == 0 {
		t.Fatal("there are no files in ci", err)
	}
	for i := range found {
		if found[i], err = filepath.Abs(found[i]); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// documents returns the objects of a rendered chart.
func documents(t *testing.T, rendered string) (all []map[string]any) {
	t.Helper()
	for _, text := range strings.Split(rendered, "\n---\n") {
		var one map[string]any
		if err := yaml.UnmarshalStrict([]byte(text), &one); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if one != nil {
			all = append(all, one)
		}
	}
	return all
}

// TestFiles checks that each process takes the configuration that the chart writes for it.
func TestFiles(t *testing.T) {
	const logKey = "log.example/a+909b00fa+AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	more := filepath.Join(t.TempDir(), "values.yaml")
	check.Must(t, os.WriteFile(more, fmt.Appendf(nil, `
files: {logPolicy: "log %s\nquorum none\n"}
sidecar: {config: {transparencyLog: {origin: log.example/a, key: log-key, policy: log-policy.txt}}}
tracing: {endpoint: "https://collector.example:4318", ca: &ca %q, secret: traces-login}
auditExport: {endpoint: "https://siem.example:9443/otlp", ca: *ca, secret: records-login, format: ocsf}
`, logKey, tlstest.New(t).PEM()), 0o600))
	for _, values := range ciFiles(t) {
		t.Run(filepath.Base(values), func(t *testing.T) {
			rendered, err := render(t, "--values", values, "--values", more)
			if err != nil {
				t.Fatal(err)
			}
			checkCollectors(t, documents(t, rendered))
			dir := t.TempDir()
			for _, d := range documents(t, rendered) {
				if d["kind"] != "ConfigMap" || d["metadata"].(map[string]any)["name"] != "mediator-files" {
					continue
				}
				for name, text := range d["data"].(map[string]any) {
					if err := os.WriteFile(filepath.Join(dir, name), []byte(text.(string)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			if strings.Contains(rendered, "\n    autonomyPolicy:") && !strings.Contains(rendered, autonomy.ScoringHash) {
				t.Error("the manifest's scoringHash is not", autonomy.ScoringHash)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
			if err != nil || len(files) < 6 {
				t.Fatal("the chart writes too few files:", files, err)
			}
			for _, file := range files {
				if filepath.Base(file) == "rules.yaml" { // for mediator registrar sign
					continue
				}
				c, err := config.CheckFile(file, false)
				if err != nil {
					t.Error(err)
				}
				if c.Sidecar != nil && (c.Sidecar.Tracing.Sample != 0.01 || c.Sidecar.AuditExport.Format != "ocsf") {
					t.Errorf("the sidecar has %+v and %+v", c.Sidecar.Tracing, c.Sidecar.AuditExport)
				}
			}
		})
	}
}

// checkCollectors checks who gets the headers for the collectors: each process those for traces, the sidecar alone
// those for the export, and no agent any.
func checkCollectors(t *testing.T, all []map[string]any) {
	t.Helper()
	for _, d := range all {
		text := fmt.Sprint(d)
		traces, records := strings.Contains(text, "traces-login"), strings.Contains(text, "records-login")
		switch name := d["metadata"].(map[string]any)["name"]; {
		case d["kind"] == "Deployment" && (traces != (name != "mediator-registrar") || records != (name == "mediator-proxy")):
			t.Errorf("of the Secrets of traces and of records %s has %t, %t", name, traces, records)
		case name == "mediator-refuse" && d["kind"] == "ValidatingAdmissionPolicy" && !(traces && records):
			t.Error("an agent may mount the Secrets of the collectors")
		}
	}
}

// apply applies the objects of a render, but for those of an operator that is not there. No pod of them starts.
func apply(t *testing.T, c *cluster.Cluster, rendered string) {
	t.Helper()
	for _, d := range documents(t, rendered) {
		if d["apiVersion"] == "monitoring.coreos.com/v1" {
			continue
		}
		if d["kind"] == "Deployment" {
			d["spec"].(map[string]any)["replicas"] = 0
		}
		text, err := yaml.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.TryApply("mediator", string(text)); err != nil {
			t.Error(err)
		}
	}
}

const agentPod = `{apiVersion: v1, kind: Pod, metadata: {name: NAME, labels: {app: NAME}}, spec: {
  nodeSelector: {no: node}, containers: [{name: agent,
   image: "agent@sha256:1111111111111111111111111111111111111111111111111111111111111111",
   env: [{name: HTTPS_PROXY, value: "http://other"}], securityContext: {
   runAsUser: 2000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]}}`

// TestAdmission lets a real API server judge every object of each render, and agents' pods by the chart's policies.
func TestAdmission(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: mediator}}")
	c.Apply("",
		"{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {actionproof.github.io/inject: enabled}}}")
	fractional := filepath.Join(t.TempDir(), "values.yaml")
	check.Must(t, os.WriteFile(fractional, []byte("sidecar: {resources: &r {limits: {cpu: 1.5, memory: 536870912}}}\n"+
		"trigger: {resources: *r}"), 0o600))
	rendered, err := render(t, "--values", ciFile(t, "trial"), "--values", fractional)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, rendered)
	c.Apply("mediator",
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: mediator-roots}, data: {registry.jwk: "{}", auditor.jwk: "{}"}}`)
	awaitPolicies(t, c)
	c.Apply("agents", strings.ReplaceAll(agentPod, "NAME", "good"))
	good := c.Pods("agents", "app=good")[0]
	checkInjected(t, good)
	trigger, err := c.Client.AppsV1().Deployments("mediator").Get(t.Context(), "mediator-trigger", metav1.GetOptions{})
	check.Must(t, err)
	for _, one := range []corev1.Container{good.Spec.InitContainers[1], trigger.Spec.Template.Spec.Containers[0]} {
		if l := one.Resources.Limits; l.Cpu().String() != "1500m" || l.Memory().Value() != 512<<20 {
			t.Errorf("the limits of %s are %v", one.Name, l)
		}
	}
	c.Apply("agents", sandboxPod(t))
	checkInjected(t, c.Pods("agents", "app=agent")[0])
	for change, want := range map[string]string{
		`nodeSelector|hostNetwork: true, nodeSelector`:                         "hostNetwork",
		`nodeSelector|hostPID: true, nodeSelector`:                             "hostPID",
		`nodeSelector|shareProcessNamespace: true, nodeSelector`:               "shareProcessNamespace",
		`runAsUser: 2000|runAsUser: 0`:                                         "runAsUser",
		`runAsUser: 2000|runAsUser: 10001`:                                     "runAsUser",
		`runAsUser: 2000|privileged: true`:                                     "",
		`drop: [ALL]|drop: [ALL], add: [NET_ADMIN]`:                            "capabilities",
		`drop: [ALL]|drop: [KILL]`:                                             "capabilities",
		`env: [|envFrom: [{secretRef: {name: x}}], env: [`:                     "envFrom",
		`env: [|volumeMounts: [{name: mediator-run, mountPath: /x}], env: [`:   "mediator's volumes",
		`env: [|volumeMounts: [{name: mediator-files, mountPath: /x}], env: [`: "mediator's volumes",
		`containers|initContainers: [{name: mediator, image: x}], containers`:  "",
	} {
		from, to, _ := strings.Cut(change, "|")
		pod := strings.Replace(strings.ReplaceAll(agentPod, "NAME", "bad"), from, to, 1)
		if err := c.TryApply("agents", pod); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", to, err, want)
		}
	}
	for _, values := range ciFiles(t) {
		rendered, err := render(t, "--values", values)
		if err != nil {
			t.Fatal(err)
		}
		apply(t, c, rendered)
	}
}

// awaitPolicies waits until the API server applies the policies, which it does soon after it has stored them.
func awaitPolicies(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	var probe corev1.Pod
	check.Must(t,
		yaml.Unmarshal([]byte(strings.NewReplacer("NAME", "probe", "@sha256:1", ":1").Replace(agentPod)), &probe))
	c.Eventually("the policies are in force", func() (bool, string) {
		_, err := c.Client.CoreV1().Pods("agents").Create(t.Context(), &probe,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}) // a pod from before would stay
		return err != nil && strings.Contains(err.Error(), "without its digest"), fmt.Sprint(err)
	})
}

// checkInjected checks what the policy has made of a pod.
func checkInjected(t *testing.T, pod corev1.Pod) {
	t.Helper()
	var first []string
	for _, one := range pod.Spec.InitContainers {
		first = append(first, one.Name)
	}
	if !slices.Equal(first, []string{"mediator-guard", "mediator", "mediator-validate"}) {
		t.Errorf("the init containers are %q", first)
	}
	agent := pod.Spec.Containers[0]
	for _, v := range agent.Env {
		if v.Name == "HTTPS_PROXY" && v.Value != "http://127.0.0.1:8181" {
			t.Errorf("the agent's proxy is %s", v.Value)
		}
	}
	if len(agent.VolumeMounts) != 1 || agent.VolumeMounts[0].Name != "mediator-ca" {
		t.Errorf("the agent mounts %v", agent.VolumeMounts)
	}
}

// TestBadValues checks that wrong values are refused by a sentence with the key and what is allowed.
func TestBadValues(t *testing.T) {
	for set, want := range map[string]string{
		"image.digest=latest":                         "/image/digest",
		"image.digest=":                               "/image/digest",
		"image.pullPolicy=Sometimes":                  "/image/pullPolicy",
		"image.tag=1":                                 "'tag' not allowed",
		"trial=maybe":                                 "/trial",
		"trustDomain=Über":                            "/trustDomain",
		"rules.agents=null":                           "missing property 'agents'",
		"rules.agents[0].namespace=Agents":            "/rules/agents/0/namespace",
		"rules.agents[0].deployment=x":                "'deployment' not allowed",
		"custody.type=file":                           "/custody/type",
		"custody.type=vault":                          "give custody.vault.address",
		"custody.vault.address=vault.example:8200":    "/custody/vault/address",
		"trial=false":                                 "memory is for a trial",
		"storage.type=disk":                           "/storage/type",
		"storage.volume.size=large":                   "/storage/volume/size",
		"control.replicas=0":                          "/control/replicas",
		"control.replicas=2":                          "control.replicas: with custody.type memory",
		"trigger.replicas=two":                        "/trigger/replicas",
		"sidecar.enforcement=strict":                  "/sidecar/enforcement",
		"sidecar.enforcement=pod":                     "proxy.address: is required",
		"sidecar.outside[0]=example.com":              "/sidecar/outside/0",
		"sidecar.resolvers[0]=kube-dns":               "/sidecar/resolvers/0",
		"sidecar.config.runtime=x":                    "'runtime' not allowed",
		"sidecar.config.actions[0].query=maybe":       "/sidecar/config/actions/0",
		"sidecar.config.websocketRefusal=drop":        "/sidecar/config/websocketRefusal",
		"trigger.config.sources[0].schedule.every=1m": "'every' not allowed",
		"trigger.config.internal.unix=/run/x":         "'internal' not allowed",
		"node.config.audience=x":                      "'audience' not allowed",
		"monitoring.rules=on-call":                    "/monitoring/rules",
		"tracing.endpoint=http://collector:4318":      "/tracing/endpoint",
		"tracing.sample=2":                            "/tracing/sample",
		"auditExport.format=cef":                      "/auditExport/format",
	} {
		if _, err := render(t, "--values", ciFile(t, "trial"), "--set", set); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: got %v, want %q", set, err, want)
		}
	}
	_, err := render(t, "--values", ciFile(t, "volume"), "--set", "sidecar.enforcement=guard")
	if err == nil || !strings.Contains(err.Error(), "needs sidecar.enforcement: pod") {
		t.Errorf("agents' pods that lose their evidence: got %v", err)
	}
}

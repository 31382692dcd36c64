package cluster_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/deploy/cluster"
	"github.com/actionproof/mediator/test/deploy/node"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCluster shows that the node does what a kubelet does, as the real control plane and the pods see it.
func TestCluster(t *testing.T) {
	c := cluster.Start(t)
	c.DebianImage("registry.test/tools:1", "", nil)
	for name, test := range map[string]func(*testing.T, *cluster.Cluster, string){
		"rollout":     testRollout,
		"job":         testJob,
		"rights":      testRights,
		"token":       testToken,
		"certificate": testCertificate,
		"probe":       testProbe,
		"files":       testFiles,
		"policy":      testPolicy,
		"guard":       testGuard,
		"claim":       testClaim,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c.For(t)
			c.Apply("", fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {test: yes-%s}}}", name,
				name))
			c.Eventually("the namespace has a service account", func() (bool, string) {
				_, err := c.Client.CoreV1().ServiceAccounts(name).Get(t.Context(), "default", metav1.GetOptions{})
				return err == nil, fmt.Sprint(err)
			})
			test(t, c, name)
		})
	}
}

// web is a Deployment that serves the file /version of its image.
const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: IMAGE
          command: [python3, -m, http.server, "8080", --directory, /served]
          ports: [{name: http, containerPort: 8080}]
          readinessProbe: {httpGet: {path: /version, port: http}, periodSeconds: 1}
          lifecycle: {preStop: {sleep: {seconds: 2}}}
          securityContext: {runAsUser: 1000}
      terminationGracePeriodSeconds: 3
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
`

// testRollout changes a Deployment's image to another digest, while a client asks through the Service.
func testRollout(t *testing.T, c *cluster.Cluster, namespace string) {
	var images []node.Image
	for _, version := range []string{"one", "two"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "version"), []byte(version), 0o644); err != nil {
			t.Fatal(err)
		}
		image := c.DebianImage("registry.test/web", "", map[string]string{"/served": dir})
		image.Digest = "sha256:" + strings.Repeat(fmt.Sprint(len(images)+1), 64)
		images = append(images, c.RegisterImage(image))
	}
	apply := func(i int) {
		c.Apply(namespace, strings.Replace(web, "IMAGE", "registry.test/web@"+images[i].Digest, 1))
	}
	ask := func() string {
		response, err := c.HTTPClient(nil).Get("http://web." + namespace + ".svc/version")
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		return string(body)
	}
	apply(0)
	c.WaitReady(namespace, "deployment/web")
	if got := ask(); got != "one" {
		t.Fatalf("the Service answers %q", got)
	}
	apply(1)
	answers := map[string]int{}
	for answers["two"] < 20 && t.Context().Err() == nil {
		answers[ask()]++
	}
	c.WaitReady(namespace, "deployment/web")
	c.Eventually("only new pods are left", func() (bool, string) {
		pods := c.Pods(namespace, "app=web")
		return len(pods) == 2, fmt.Sprint(len(pods))
	})
	if last := ask(); len(answers) > 2 || last != "two" {
		t.Errorf("answers during the rollout: %v, afterwards %q", answers, last)
	}
	for _, pod := range c.Pods(namespace, "app=web") {
		if got, want := pod.Status.ContainerStatuses[0].ImageID, "registry.test/web@"+images[1].Digest; got != want {
			t.Errorf("imageID %s, want %s", got, want)
		}
	}
}

// testJob runs a Job whose native sidecar starts before the container, stays, and ends after it.
func testJob(t *testing.T, c *cluster.Cluster, namespace string) {
	c.Apply(namespace, `
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      volumes: [{name: shared, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
      initContainers:
        - name: sidecar
          image: registry.test/tools:1
          restartPolicy: Always
          command: [sh, -c]
          args: ["trap 'echo ended > /dev/termination-log; exit 0' TERM; echo > /shared/sidecar here; sleep 99 & wait"]
          startupProbe: {exec: {command: [test, -s, /shared/sidecar]}, periodSeconds: 1}
          volumeMounts: [{name: shared, mountPath: /shared}]
        - name: before
          image: registry.test/tools:1
          command: [sh, -c, "cat /shared/sidecar > /shared/before"]
          volumeMounts: [{name: shared, mountPath: /shared}]
      containers:
        - name: work
          image: registry.test/tools:1
          command: [sh, -c, "cat /shared/before; hostname"]
          volumeMounts: [{name: shared, mountPath: /shared, readOnly: true}]
`)
	c.WaitReady(namespace, "job/work")
	pod := c.Pods(namespace, "job-name=work")[0]
	if got, want := c.Logs(pod, "work"), "here\n"+pod.Name+"\n"; got != want {
		t.Errorf("the container printed %q, want %q", got, want)
	}
	if s := pod.Status.InitContainerStatuses[0].State.Terminated; s == nil || s.ExitCode != 0 || s.Message != "ended\n" {
		t.Errorf("the sidecar ended as %v", s)
	}
}

// testRights looks at what a container of the profile restricted may do.
func testRights(t *testing.T, c *cluster.Cluster, namespace string) {
	c.Apply(namespace, `
apiVersion: batch/v1
kind: Job
metadata: {name: restricted}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext:
        {runAsUser: 1001, runAsGroup: 1002, fsGroup: 1003, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      volumes: [{name: own, emptyDir: {}}]
      containers:
        - name: c
          image: registry.test/tools:1
          env:
            - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
            - {name: GREETING, value: "in $(POD)"}
          command: [bash, -c]
          args:
            - |
              id -u; id -g; id -G; echo $GREETING
              (: > /file) 2>&1 | grep -o 'Read-only file system'
              : > /own/file && stat -c %g /own/file
              grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t'
              unshare -U true 2>&1 | grep -o 'Operation not permitted'
              ls /proc | grep -c '^[0-9]'; ls /work 2>&1 | grep -o 'No such file'
          volumeMounts: [{name: own, mountPath: /own}]
          securityContext:
            readOnlyRootFilesystem: true
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
`)
	c.WaitReady(namespace, "job/restricted")
	want := "1001\n1002\n1002 1003\nin " + namespace + "\nRead-only file system\n1003\n" +
		"CapBnd:0000000000000400\nNoNewPrivs:1\nSeccomp:2\nOperation not permitted\n"
	if got := c.Logs(c.Pods(namespace, "")[0], "c"); !strings.HasPrefix(got, want) ||
		!strings.HasSuffix(got, "No such file\n") {
		t.Errorf("the container printed %q, want %q", got, want)
	}
}

// testProbe has a liveness probe fail, and sees the container end and start again.
func testProbe(t *testing.T, c *cluster.Cluster, namespace string) {
	c.Apply(namespace, `
apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  volumes: [{name: memory, emptyDir: {}}]
  containers: [{name: c, image: registry.test/tools:1,
    command: [sh, -c, "test -e /memory/healed && touch /tmp/well; touch /memory/healed; exec sleep 1000"],
    volumeMounts: [{name: memory, mountPath: /memory}],
    livenessProbe: {exec: {command: [test, -e, /tmp/well]}, periodSeconds: 1, failureThreshold: 2,
      terminationGracePeriodSeconds: 1},
    readinessProbe: {exec: {command: [test, -e, /tmp/well]}, periodSeconds: 1}}]
  terminationGracePeriodSeconds: 1
`)
	c.WaitReady(namespace, "pod/sick")
	s := c.Pods(namespace, "")[0].Status.ContainerStatuses[0]
	if s.RestartCount != 1 || s.LastTerminationState.Terminated == nil ||
		s.LastTerminationState.Terminated.ExitCode != 137 {
		t.Errorf("restarts %d, last state %v", s.RestartCount, s.LastTerminationState)
	}
}

// testPolicy asks a Service and a server outside the cluster from a pod that may reach both, from one that the
// Service's policy does not let in, and from one that its own does not let out.
func testPolicy(t *testing.T, c *cluster.Cluster, namespace string) {
	outside := c.Listen("203.0.113.9:80", "outside.test")
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "outside")
	})}
	go server.Serve(outside)
	t.Cleanup(func() { server.Shutdown(context.Background()) })
	client := `
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {client: NAME}}
spec:
  containers: [{name: c, image: registry.test/tools:1,
    command: [sh, -c,
    "for host in web outside.test; do curl -s -m 5 -o /dev/null -w '%{http_code} ' http://$host/version; done"]}]
  restartPolicy: Never
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "version"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.DebianImage("registry.test/served", "65532:65532", map[string]string{"/served": dir})
	c.Apply(namespace, strings.Replace(web, "IMAGE", "registry.test/served", 1)+`
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: to-web}
spec:
  podSelector: {matchLabels: {app: web}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {matchLabels: {client: friend}}}, {podSelector: {matchLabels: {client: caged}}}]
      ports: [{port: http}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: caged}
spec:
  podSelector: {matchLabels: {client: caged}}
  policyTypes: [Egress]
  egress:
    - to: [{podSelector: {matchLabels: {app: web}}}]
    - to:
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
          podSelector: {matchLabels: {k8s-app: kube-dns}}
`)
	c.WaitReady(namespace, "deployment/web")
	clients := map[string]string{"friend": "200 200 ", "stranger": "000 200 ", "caged": "200 000 "}
	for name := range clients {
		c.Apply(namespace, strings.ReplaceAll(client, "NAME", name))
	}
	for name, want := range clients {
		var got corev1.Pod
		c.Eventually(name+" has asked", func() (bool, string) {
			got = c.Pods(namespace, "client="+name)[0]
			return got.Status.Phase == corev1.PodSucceeded || got.Status.Phase == corev1.PodFailed, string(got.Status.Phase)
		})
		if printed := c.Logs(got, "c"); printed != want {
			t.Errorf("%s got %q, want %q", name, printed, want)
		}
	}
}

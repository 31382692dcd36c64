package cluster_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/actionproof/mediator/test/deploy/cluster"
)

// testGuard has an init container with NET_ADMIN close the pod's network, which the agent's container cannot open
// again.
func testGuard(t *testing.T, c *cluster.Cluster, namespace string) {
	c.Apply(namespace, `
apiVersion: batch/v1
kind: Job
metadata: {name: guarded}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      initContainers:
        - name: guard
          image: registry.test/tools:1
          command: [/usr/sbin/nft]
          args: ["add table ip t; add chain ip t c { type filter hook output priority 0; policy drop; }"]
          securityContext:
            runAsUser: 0
            allowPrivilegeEscalation: false
            capabilities: {drop: [ALL], add: [NET_ADMIN]}
      containers:
        - name: agent
          image: registry.test/tools:1
          command: [bash, -c]
          args:
            - |
              (echo > /dev/udp/10.96.0.10/53) 2>&1 | grep -o 'not permitted'
              /usr/sbin/nft flush ruleset 2>&1 | grep -o 'not permitted'
`)
	c.WaitReady(namespace, "job/guarded")
	if got := c.Logs(c.Pods(namespace, "")[0], "agent"); got != "not permitted\nnot permitted\n" {
		t.Errorf("the agent printed %q", got)
	}
}

// testClaim writes to a PersistentVolume, a folder of the machine, as the user of the pod.
func testClaim(t *testing.T, c *cluster.Cluster, namespace string) {
	dir := t.TempDir()
	c.Apply(namespace, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: folder}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: `+dir+`}
  claimRef: {name: state, namespace: `+namespace+`}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: state}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: writer}
spec:
  template:
    spec:
      restartPolicy: Never
      securityContext: {runAsUser: 1001, fsGroup: 1001}
      volumes: [{name: state, persistentVolumeClaim: {claimName: state}}]
      containers: [{name: c, image: registry.test/tools:1, command: [sh, -c, "echo kept > /state/file"],
        volumeMounts: [{name: state, mountPath: /state}]}]
`)
	c.WaitReady(namespace, "job/writer")
	if raw, err := os.ReadFile(filepath.Join(dir, "file")); string(raw) != "kept\n" {
		t.Errorf("the folder holds %q (%v)", raw, err)
	}
}

// TestCrowd starts fifty pods at once, and rolls them over while the API server is away for a while.
func TestCrowd(t *testing.T) {
	c := cluster.Start(t)
	c.DebianImage("registry.test/tools:1", "", nil)
	crowd := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: crowd}
spec:
  replicas: 50
  selector: {matchLabels: {app: crowd}}
  strategy: {rollingUpdate: {maxSurge: 50}}
  template:
    metadata: {labels: {app: crowd}, annotations: {round: "ROUND"}}
    spec:
      containers: [{name: c, image: registry.test/tools:1, command: [sh, -c, "trap 'exit 0' TERM; sleep 1000 & wait"],
        readinessProbe: {exec: {command: ["true"]}, periodSeconds: 5}}]
      terminationGracePeriodSeconds: 5
`
	c.Apply("default", strings.Replace(crowd, "ROUND", "1", 1))
	c.WaitReady("default", "deployment/crowd")
	c.Apply("default", strings.Replace(crowd, "ROUND", "2", 1))
	c.StopAPIServer()
	c.StartAPIServer()
	c.WaitReady("default", "deployment/crowd")
	c.Eventually("the first pods are gone", func() (bool, string) {
		pods := c.Pods("default", "app=crowd")
		return len(pods) == 50, fmt.Sprintf("%d pods", len(pods))
	})
	for _, pod := range c.Pods("default", "app=crowd") {
		if pod.Annotations["round"] != "2" || !cluster.PodReady(pod) || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s: %+v", pod.Name, pod.Status)
		}
	}
}

package chart_test

import (
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/actionproof/mediator/test/deploy/cluster"
)

// TestPast tries ways past the sidecar, and to its secrets, of someone who may write the agents' namespace.
func TestPast(t *testing.T) {
	c := cluster.Start(t)
	c.Apply("", "{apiVersion: v1, kind: Namespace, metadata: {name: mediator}}")
	c.Apply("",
		"{apiVersion: v1, kind: Namespace, metadata: {name: agents, labels: {actionproof.github.io/inject: enabled}}}")
	c.Apply("agents", strings.Replace(agentPod, "{name: NAME,", "{name: early, finalizers: [example.com/job],", 1))
	rendered, err := render(t, "--values", ciFile(t, "production"))
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, rendered)
	awaitPolicies(t, c)
	for volume, want := range map[string]string{
		`secret: {secretName: mediator-credentials}`:                                "a volume",
		`secret: {secretName: mediator-database}`:                                   "a volume",
		`projected: {sources: [{secret: {name: mediator-database}}]}`:               "a volume",
		`projected: {sources: [{serviceAccountToken: {audience: vault, path: t}}]}`: "a volume",
		`csi: {driver: secrets-store.csi.k8s.io}`:                                   "a volume",
		`nfs: {server: 203.0.113.9, path: /}`:                                       "a volume",
		`hostPath: {path: /}`:                                                       "a volume",
		`secret: {secretName: own}`:                                                 "",
		`projected: {sources: [{secret: {name: own}}, {downwardAPI: {items: []}}]}`: "",
		`emptyDir: {}`: "",
		`projected: {sources: [{podCertificate: {keyType: ED25519, credentialBundlePath: x,` +
			` signerName: actionproof.github.io/mediator}}]}`: "a volume",
	} {
		pod := strings.Replace(agentPod, "containers: [{", "volumes: [{name: v, "+volume+
			"}], containers: [{volumeMounts: [{name: v, mountPath: /v}], ", 1)
		pod = strings.ReplaceAll(pod, "NAME", "v")
		err := c.TryApply("agents", pod)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", volume, err, want)
		}
		if err == nil {
			c.Delete("agents", pod)
		}
	}
	for _, from := range []string{"secretKeyRef: {name: mediator-credentials, key: github-token}",
		"fileKeyRef: {volumeName: mediator-state, path: x, key: X}"} {
		wantRefused(t, from, "a variable comes from", c.TryApply("agents", strings.NewReplacer("NAME", "env", "env: [",
			"env: [{name: X, valueFrom: {"+from+"}}, ").Replace(agentPod)))
	}

	good := strings.ReplaceAll(agentPod, "NAME", "good")
	c.Apply("agents", good)
	pods := c.Client.CoreV1().Pods("agents")
	patch := func(name, text string, subresource ...string) error {
		_, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{},
			subresource...)
		return err
	}
	for _, file := range []string{"mediator.yaml", "registry.jwk", "auditor.jwk", "vault-ca.pem"} {
		for _, value := range []string{`"x"`, "null"} {
			text := `{"metadata":{"annotations":{"actionproof.github.io/` + file + `":` + value + `}}}`
			wantRefused(t, file, "annotations", patch("good", text))
			wantRefused(t, file, "annotations", patch("good", text, "status"))
		}
	}
	wantRefused(t, "an image without digest", "without its digest",
		patch("good", `{"spec":{"containers":[{"name":"agent","image":"agent:1"}]}}`))
	if err := patch("good", `{"metadata":{"annotations":{"example.com/x":"y"}}}`); err != nil {
		t.Error(err)
	}
	for _, way := range []string{"exec", "attach", "portforward"} {
		wantRefused(t, way, "a forwarded port", c.Client.CoreV1().RESTClient().Post().Namespace("agents").Resource("pods").
			Name("good").SubResource(way).Param("command", "sh").Param("stdin", "true").Do(t.Context()).Error())
	}
	for audience, want := range map[string]string{"vault": "only kubelets", "elsewhere": "", "": ""} {
		ask := authenticationv1.TokenRequest{}
		if audience != "" {
			ask.Spec.Audiences = []string{"elsewhere", audience}
		}
		_, err := c.Client.CoreV1().ServiceAccounts("agents").CreateToken(t.Context(), "default", &ask,
			metav1.CreateOptions{})
		if want != "" {
			wantRefused(t, "a token for "+audience, want, err)
		} else if err != nil {
			t.Error(err)
		}
	}

	// A scheduler's right: what a binding has as annotations, the pod has afterwards.
	binding := func(file string) *corev1.Binding {
		return &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
			ObjectMeta: metav1.ObjectMeta{Name: "good", Annotations: map[string]string{file: "x"}}}
	}
	bad, only := binding("actionproof.github.io/mediator.yaml"), metav1.CreateOptions{}
	wantRefused(t, "a pod's binding", "scheduler's", pods.Bind(t.Context(), bad, only))
	wantRefused(t, "a binding", "scheduler's", c.Client.CoreV1().RESTClient().Post().Namespace("agents").
		Resource("bindings").Body(bad).Do(t.Context()).Error())
	if err := pods.Bind(t.Context(), binding("example.com/x"), only); err != nil {
		t.Error(err)
	}

	// A Job ends when its controller has removed a finalizer of each of its pods, also of one that no policy has judged.
	wantRefused(t, "an image of a pod from before", "not the first container",
		patch("early", `{"spec":{"containers":[{"name":"agent","image":"agent:1"}]}}`))
	if err := patch("early", `{"metadata":{"finalizers":null}}`); err != nil {
		t.Error("the finalizer stays:", err)
	}
}

func wantRefused(t *testing.T, what, want string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v, want %q", what, err, want)
	}
}

// TestRights checks that a registrar that is taken over cannot replace the root keys by which pods know the auditor.
func TestRights(t *testing.T) {
	rendered, err := render(t, "--values", ciFile(t, "production"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t, rendered) {
		for _, rule := range anyList(d["rules"]) {
			if text := fmt.Sprint(rule); strings.Contains(text, "configmaps") {
				t.Errorf("%v allows %s", d["kind"], text)
			}
		}
	}
}

func anyList(v any) []any { list, _ := v.([]any); return list }

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// Apply applies YAML documents by server-side apply; an object that names no namespace goes into the given one. What
// the API server refuses fails the test; TryApply returns it.
func (c *Cluster) Apply(namespace, documents string) {
	c.t.Helper()
	if err := c.TryApply(namespace, documents); err != nil {
		c.t.Fatal(err)
	}
}

// TryApply is Apply for objects that the API server may refuse.
func (c *Cluster) TryApply(namespace, documents string) error {
	return c.each(namespace, documents, func(resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		raw, err := json.Marshal(object)
		if err != nil {
			return err
		}
		force := true
		_, err = resource.Patch(c.t.Context(), object.GetName(), types.ApplyPatchType, raw,
			metav1.PatchOptions{FieldManager: "test", Force: &force, FieldValidation: metav1.FieldValidationStrict})
		return err
	})
}

// Delete deletes the objects of YAML documents, and waits until they are gone.
func (c *Cluster) Delete(namespace, documents string) {
	c.t.Helper()
	err := c.each(namespace, documents, func(resource dynamic.ResourceInterface, object *unstructured.Unstructured) error {
		foreground := metav1.DeletePropagationForeground
		err := resource.Delete(c.t.Context(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: &foreground})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return c.poll(func() (bool, string) {
			_, err := resource.Get(c.t.Context(), object.GetName(), metav1.GetOptions{})
			return apierrors.IsNotFound(err), "it is still there"
		})
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// each calls f for each object of the documents, with the way to objects of its kind.
func (c *Cluster) each(namespace, documents string,
	f func(dynamic.ResourceInterface, *unstructured.Unstructured) error) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(documents), 4<<10)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the documents: %w", err)
		}
		if len(object.Object) == 0 {
			continue
		}
		kind := object.GroupVersionKind()
		mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) { // it may have been defined since
			c.mapper.Reset()
			mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		}
		if err != nil {
			return err
		}
		var resource dynamic.ResourceInterface = c.dynamic.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			resource = c.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		if err := f(resource, object); err != nil {
			return fmt.Errorf("%s %s: %w", kind.Kind, object.GetName(), err)
		}
	}
}

// WaitReady waits until each object is as its spec says: a deployment is rolled out, a job complete, a pod ready. They
// are named as "deployment/web".
func (c *Cluster) WaitReady(namespace string, objects ...string) {
	c.t.Helper()
	for _, object := range objects {
		kind, name, _ := strings.Cut(object, "/")
		ready := map[string]func(ctx context.Context, namespace, name string) (bool, string){
			"deployment": c.deploymentReady, "job": c.jobReady, "pod": c.podReady,
		}[kind]
		if ready == nil {
			c.t.Fatalf("WaitReady knows no %s", kind)
		}
		c.Eventually(object+" is ready", func() (bool, string) { return ready(c.t.Context(), namespace, name) })
	}
}

func (c *Cluster) deploymentReady(ctx context.Context, namespace, name string) (bool, string) {
	d, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	s, wanted := d.Status, *d.Spec.Replicas
	for _, condition := range s.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return false, condition.Message
		}
	}
	rolledOut := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == wanted && s.Replicas == wanted &&
		s.AvailableReplicas == wanted
	return rolledOut,
		fmt.Sprintf("%d replicas, %d updated, %d available of %d", s.Replicas, s.UpdatedReplicas, s.AvailableReplicas, wanted)
}

func (c *Cluster) jobReady(ctx context.Context, namespace, name string) (bool, string) {
	job, err := c.Client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	for _, condition := range job.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && condition.Type == batchv1.JobComplete {
			return true, ""
		}
	}
	return false, fmt.Sprintf("%d active, %d failed", job.Status.Active, job.Status.Failed)
}

func (c *Cluster) podReady(ctx context.Context, namespace, name string) (bool, string) {
	pod, err := c.Client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, err.Error()
	}
	return PodReady(*pod), string(pod.Status.Phase)
}

// PodReady reports whether the pod has the condition Ready.
func PodReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Eventually waits until check reports true; what it says besides explains a failure.
func (c *Cluster) Eventually(what string, check func() (ok bool, state string)) {
	c.t.Helper()
	if err := c.poll(check); err != nil {
		c.t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

func (c *Cluster) poll(check func() (bool, string)) error {
	end := time.Now().Add(patience)
	for {
		ok, state := check()
		switch {
		case ok:
			return nil
		case time.Now().After(end):
			return errors.New(state)
		case c.t.Context().Err() != nil:
			return c.t.Context().Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reportPause collects changes for one report. A kubelet does the same: it looks at its containers once a second.
const reportPause = time.Second

// reportChanges tells the API server the pod's status, now and after each change, until ctx ends.
func (r *podRunner) reportChanges(ctx context.Context) {
	var told string
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		wait := time.Hour
		if status := r.status(); status != told {
			if err := r.report(ctx, status); err != nil {
				wait = 500 * time.Millisecond
			} else {
				told = status
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
			select {
			case <-ctx.Done():
				return
			case <-time.After(reportPause):
			}
		case <-time.After(wait):
		}
	}
}

// reportEnd tells the last status and, if the pod is being deleted, that it is gone. It is repeated while the API
// server does not answer.
func (r *podRunner) reportEnd() {
	ctx := r.node.ctx
	for ctx.Err() == nil {
		err := r.report(ctx, r.status())
		r.mu.Lock()
		deleted := r.deleted
		r.mu.Unlock()
		if err == nil && deleted {
			err = r.node.deletePod(ctx, r.pod)
		}
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// report sends a status as a patch, so that conditions of others stay.
func (r *podRunner) report(ctx context.Context, status string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":%s}`, r.pod.UID, status)
	_, err := r.node.client.CoreV1().Pods(r.pod.Namespace).Patch(ctx, r.pod.Name, types.StrategicMergePatchType,
		[]byte(patch), metav1.PatchOptions{}, "status")
	return err
}

// status is the pod's status as a kubelet composes it, in JSON.
func (r *podRunner) status() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := corev1.PodStatus{
		Phase: r.phase, Reason: r.reason, Message: r.message,
		HostIP: Address, HostIPs: []corev1.HostIP{{IP: Address}}, StartTime: &r.startTime,
		QOSClass: r.pod.Status.QOSClass, ObservedGeneration: r.latest.Generation,
	}
	if r.network != nil {
		s.PodIP, s.PodIPs = r.network.address, []corev1.PodIP{{IP: r.network.address}}
	}
	for _, c := range r.init {
		s.InitContainerStatuses = append(s.InitContainerStatuses, c.status())
	}
	for _, c := range r.mains {
		s.ContainerStatuses = append(s.ContainerStatuses, c.status())
	}
	if s.Phase == "" {
		s.Phase = corev1.PodRunning
		for _, c := range r.mains {
			if c.state.Waiting != nil && c.last.Terminated == nil {
				s.Phase = corev1.PodPending
			}
		}
	}
	ended := s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	ready := !ended && r.initialised && all(r.mains, func(c *container) bool { return c.ready }) &&
		all(r.init, func(c *container) bool { return !c.sidecar || c.ready })
	reason := "ContainersNotReady"
	if s.Phase == corev1.PodSucceeded {
		reason = "PodCompleted"
	}
	s.Conditions = []corev1.PodCondition{
		r.condition(corev1.PodReadyToStartContainers, r.network != nil && !ended, ""),
		r.condition(corev1.PodInitialized, r.initialised, "ContainersNotInitialized"),
		r.condition(corev1.ContainersReady, ready, reason),
		r.condition(corev1.PodReady, ready, reason),
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a status can be written
	}
	return string(raw)
}

// condition remembers since when a condition holds.
func (r *podRunner) condition(kind corev1.PodConditionType, holds bool, reason string) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason,
		ObservedGeneration: r.latest.Generation}
	if holds {
		c.Status, c.Reason = corev1.ConditionTrue, ""
	}
	if known := r.conditions[kind]; known.Status == c.Status {
		c.LastTransitionTime = known.LastTransitionTime
	} else {
		c.LastTransitionTime = metav1.Now()
	}
	r.conditions[kind] = c
	return c
}

func (c *container) status() corev1.ContainerStatus {
	started := c.started
	s := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, State: c.state, LastTerminationState: c.last, Ready: c.ready,
		RestartCount: c.restarts, Started: &started,
	}
	if c.init && !c.sidecar {
		s.Ready = c.succeeded()
	}
	if c.image.Name != "" {
		s.ImageID = c.image.id()
	}
	if c.process != nil {
		s.ContainerID = containerID(c.process)
	} else if c.state.Terminated != nil {
		s.ContainerID = c.state.Terminated.ContainerID
	}
	return s
}

// event tells in the API what happened to the pod, in the background: an event may be lost.
func (r *podRunner) event(kind, reason, message string) {
	now := metav1.Now()
	if len(message) > 1000 {
		message = message[:1000]
	}
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: r.pod.Name + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: r.pod.Namespace, Name: r.pod.Name, UID: r.pod.UID,
		},
		Type: kind, Reason: reason, Message: message, Source: corev1.EventSource{Component: "kubelet", Host: Name},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	go func() {
		ctx, cancel := context.WithTimeout(r.node.ctx, 10*time.Second)
		defer cancel()
		_, _ = r.node.client.CoreV1().Events(r.pod.Namespace).Create(ctx, event, metav1.CreateOptions{})
	}()
}

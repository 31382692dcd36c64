package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// restartAfter is how long a container that ended waits for its restart. A kubelet begins with ten seconds; one second
// is the least that its crashLoopBackOff.maxContainerRestartPeriod allows.
const restartAfter = time.Second

// container is one container of a pod. The pod's mutex guards all but spec, sidecar, init, stop and finished.
type container struct {
	spec          corev1.Container
	init, sidecar bool

	stop     chan struct{} // closed by end: no more restarts
	finished chan struct{} // closed when it will not run again

	supervised bool
	stopped    bool
	process    *process
	image      Image
	state      corev1.ContainerState
	last       corev1.ContainerState
	restarts   int32
	started    bool // it runs, and its startup probe succeeded
	ready      bool
}

func newContainer(spec corev1.Container, init bool) *container {
	return &container{
		spec: spec, init: init, sidecar: init && spec.RestartPolicy != nil,
		stop: make(chan struct{}), finished: make(chan struct{}),
		state: waiting("PodInitializing", ""),
	}
}

// over reports whether it will not run again.
func (c *container) over() bool {
	select {
	case <-c.finished:
		return true
	default:
		return false
	}
}

func (c *container) succeeded() bool {
	return c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
}

// restarted reports whether the pod's policy asks for another run after this exit code.
func (r *podRunner) restarted(c *container, code int) bool {
	switch policy := r.pod.Spec.RestartPolicy; {
	case c.sidecar:
		return true
	case c.init:
		return code != 0 && policy != corev1.RestartPolicyNever
	default:
		return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
	}
}

// supervise runs a container, again and again as the policy says, until it will not run again.
func (r *podRunner) supervise(ctx context.Context, c *container) {
	r.change(func() { c.supervised = true })
	defer r.change(func() { close(c.finished) })
	for {
		p, reason, err := r.startContainer(ctx, c)
		var code int
		switch {
		case p != nil:
			code = r.watch(ctx, c, p)
		case reason == "StartError": // the command cannot be run
			code = 128
			now := metav1.Now()
			r.change(func() {
				c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
					ExitCode: 128, Reason: reason, Message: err.Error(), StartedAt: now, FinishedAt: now,
				}}
			})
			r.event(corev1.EventTypeWarning, "Failed", err.Error())
		default:
			r.change(func() { c.state = waiting(reason, err.Error()) })
			r.event(corev1.EventTypeWarning, "Failed", err.Error())
			code = -1
		}
		if code >= 0 && !r.restarted(c, code) {
			return
		}
		select {
		case <-c.stop:
			return
		default:
		}
		if code >= 0 {
			r.change(func() {
				c.last, c.restarts = c.state, c.restarts+1
				c.state = waiting("CrashLoopBackOff", "restarts after "+restartAfter.String())
			})
		}
		select {
		case <-c.stop:
			if code >= 0 { // it stays what it was
				r.change(func() { c.state, c.last, c.restarts = c.last, corev1.ContainerState{}, c.restarts-1 })
			}
			return
		case <-time.After(restartAfter):
		}
	}
}

// startContainer starts the process. reason is the one that a kubelet gives for the error.
func (r *podRunner) startContainer(ctx context.Context, c *container) (p *process, reason string, err error) {
	image, err := r.node.images.find(c.spec.Image)
	if err != nil {
		return nil, "ErrImagePull", err
	}
	spec, reason, err := r.sandbox(ctx, image, c)
	if err != nil {
		return nil, reason, err
	}
	dir := filepath.Join(r.dir, c.spec.Name, fmt.Sprint(c.restarts))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, "CreateContainerError", err
	}
	log, err := os.OpenFile(r.logPath(c.spec.Name, c.restarts), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, "CreateContainerError", err
	}
	defer log.Close()
	p, err = r.node.startProcess(spec, r.network.namespace, dir, log)
	if err != nil {
		return nil, "StartError", fmt.Errorf("container %s: %w", c.spec.Name, err)
	}
	r.change(func() {
		c.process, c.image = p, image
		c.state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	})
	return p, "", nil
}

func (r *podRunner) logPath(container string, restart int32) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s.%d.log", container, restart))
}

// watch accompanies a process until it ends: its hook, its probes, its status.
func (r *podRunner) watch(ctx context.Context, c *container, p *process) int {
	go func() {
		if h := c.spec.Lifecycle; h != nil && h.PostStart != nil {
			if err := r.handle(ctx, c, p, h.PostStart, time.Minute); err != nil {
				r.event(corev1.EventTypeWarning, "FailedPostStartHook", err.Error())
				r.kill(ctx, c, p, time.Now().Add(r.grace()))
				return
			}
		}
		r.probe(ctx, c, p)
	}()
	<-p.done
	r.change(func() {
		started := metav1.Now()
		if c.state.Running != nil {
			started = c.state.Running.StartedAt
		}
		c.process, c.started, c.ready = nil, false, false
		c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(p.code), Reason: exitReason(p.code), Message: r.terminationMessage(c),
			StartedAt: started, FinishedAt: metav1.Now(), ContainerID: containerID(p),
		}}
	})
	return p.code
}

func exitReason(code int) string {
	if code == 0 {
		return "Completed"
	}
	return "Error"
}

// terminationMessage is what the container wrote to its terminationMessagePath or, if it may, the end of its log.
func (r *podRunner) terminationMessage(c *container) string {
	const most = 4 << 10
	raw, _ := os.ReadFile(r.terminationLog(c))
	if len(raw) == 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		raw, _ = os.ReadFile(r.logPath(c.spec.Name, c.restarts))
	}
	if len(raw) > most {
		raw = raw[len(raw)-most:]
	}
	return string(raw)
}

// end ends a container for good, with its preStop hook and, from deadline on, by force.
func (r *podRunner) end(ctx context.Context, c *container, deadline time.Time) {
	var p *process
	var supervised bool
	r.change(func() {
		if !c.stopped {
			c.stopped = true
			close(c.stop)
		}
		p, supervised = c.process, c.supervised
	})
	if !supervised {
		return
	}
	for {
		if p != nil {
			r.kill(ctx, c, p, deadline)
		}
		select {
		case <-c.finished:
			return
		case <-time.After(20 * time.Millisecond): // it was being started
			r.mu.Lock()
			p = c.process
			r.mu.Unlock()
		}
	}
}

// kill ends one run of a container: preStop hook, SIGTERM, and SIGKILL at the deadline.
func (r *podRunner) kill(ctx context.Context, c *container, p *process, deadline time.Time) {
	least := time.Now().Add(2 * time.Second) // what a kubelet grants when time is up
	deadline = later(deadline, least)
	if h := c.spec.Lifecycle; h != nil && h.PreStop != nil {
		if err := r.handle(ctx, c, p, h.PreStop, time.Until(deadline)); err != nil {
			r.event(corev1.EventTypeWarning, "FailedPreStopHook", err.Error())
		}
	}
	p.signal(syscall.SIGTERM)
	for {
		r.mu.Lock()
		if !r.deadline.IsZero() && r.deadline.Before(deadline) { // a deletion with less patience came later
			deadline = later(r.deadline, least)
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-p.done:
			return
		case <-changed:
		case <-time.After(time.Until(deadline)):
			p.signal(syscall.SIGKILL)
			<-p.done
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func containerID(p *process) string { return fmt.Sprintf("process://%d", p.cmd.Process.Pid) }

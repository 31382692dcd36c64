package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// refreshEvery is how often the files of a pod's volumes are compared with what they are made from.
const refreshEvery = 2 * time.Second

// podRunner runs one pod from its binding to the node until its end.
type podRunner struct {
	node    *Node
	pod     *corev1.Pod // as it was bound; the spec does not change
	dir     string
	network *podNetwork

	// networkFiles returns writeNetworkFiles of its first call: a process that reads a file while it is written again
	// would find no name server.
	networkFiles func() (map[string]string, error)

	volumesMu    sync.Mutex // guards what follows
	volumePaths  map[string]string
	written      map[string]map[string]file
	mounted      []string
	tokens       map[string]heldToken
	certificates map[string]*heldCertificate
	problem      string // why the volumes are not there yet, as reported last

	kick chan struct{} // look at the volumes now

	stopOnce sync.Once
	stopping chan struct{} // closed when the pod is to end before it ends by itself
	done     chan struct{} // closed when nothing of it runs any more

	mu          sync.Mutex // guards what follows
	changed     chan struct{}
	latest      *corev1.Pod
	deadline    time.Time // when its end is enforced; set with stopping
	deleted     bool      // the API server waits for the pod's end
	init, mains []*container
	initialised bool
	phase       corev1.PodPhase // final, or empty
	reason      string
	message     string
	conditions  map[corev1.PodConditionType]corev1.PodCondition
	startTime   metav1.Time
}

func newPodRunner(n *Node, pod *corev1.Pod) *podRunner {
	r := &podRunner{
		node: n, pod: pod, latest: pod,
		dir:         filepath.Join(n.options.Dir, fmt.Sprintf("%s_%s_%.8s", pod.Namespace, pod.Name, pod.UID)),
		volumePaths: map[string]string{}, written: map[string]map[string]file{},
		tokens: map[string]heldToken{}, certificates: map[string]*heldCertificate{},
		kick: make(chan struct{}, 1), stopping: make(chan struct{}), done: make(chan struct{}),
		changed: make(chan struct{}), conditions: map[corev1.PodConditionType]corev1.PodCondition{},
		startTime: metav1.Now(),
	}
	r.networkFiles = sync.OnceValues(r.writeNetworkFiles)
	for i := range pod.Spec.InitContainers {
		r.init = append(r.init, newContainer(pod.Spec.InitContainers[i], true))
	}
	for i := range pod.Spec.Containers {
		r.mains = append(r.mains, newContainer(pod.Spec.Containers[i], false))
	}
	return r
}

// run runs the pod until its end and tells the API server.
func (r *podRunner) run(ctx context.Context) {
	defer r.leave()
	reporting := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(reporting)
		r.reportChanges(ctx)
	}()
	phase, reason, message := r.live(ctx)
	cancel()
	<-reporting
	r.change(func() { r.phase, r.reason, r.message = phase, reason, message })
	r.reportEnd()
	if r.network != nil {
		r.node.network.removePod(r.network)
	}
	r.volumesMu.Lock()
	defer r.volumesMu.Unlock()
	r.removeVolumes()
}

// leave marks the pod's end. A deletion that came while the end was reported is answered now.
func (r *podRunner) leave() {
	close(r.done)
	r.node.firewall.changed()
	r.mu.Lock()
	deleted := r.deleted
	r.mu.Unlock()
	if deleted && r.node.ctx.Err() == nil {
		_ = r.node.deletePod(r.node.ctx, r.pod)
	}
}

// live is the pod's life: network, volumes, init containers, containers, and their end in the reverse order.
func (r *podRunner) live(ctx context.Context) (phase corev1.PodPhase, reason, message string) {
	if fields := fieldsNotCarriedOut(r.pod); len(fields) > 0 {
		message := "the test's node does not carry out: " + strings.Join(fields, ", ")
		r.node.options.Problem(fmt.Sprintf("pod %s/%s: %s", r.pod.Namespace, r.pod.Name, message))
		r.event(corev1.EventTypeWarning, "NotCarriedOut", message)
		return corev1.PodFailed, "NotCarriedOut", message
	}
	network, err := r.node.network.addPod()
	if err != nil {
		r.node.options.Problem(err.Error())
		return corev1.PodFailed, "NoNetwork", err.Error()
	}
	r.change(func() { r.network = network })
	if err := r.node.firewall.apply(); err != nil { // before anything of the pod runs
		r.node.options.Problem(err.Error())
		return corev1.PodFailed, "NoNetwork", err.Error()
	}
	if seconds := r.pod.Spec.ActiveDeadlineSeconds; seconds != nil {
		timer := time.AfterFunc(time.Duration(*seconds)*time.Second, func() { r.stop(r.grace(), "DeadlineExceeded") })
		defer timer.Stop()
	}
	if !r.waitForVolumes(ctx) {
		return corev1.PodFailed, r.stopReason(), "stopped before its volumes were there"
	}
	go r.refreshVolumes(ctx)

	ok := r.initialise(ctx)
	if ok {
		r.change(func() { r.initialised = true })
		for _, c := range r.mains {
			go r.supervise(ctx, c)
		}
		r.until(func() bool { return all(r.mains, (*container).over) })
	}
	r.terminate(ctx)
	phase = corev1.PodSucceeded
	if !ok || r.stopReason() != "" || !all(r.mains, (*container).succeeded) {
		phase = corev1.PodFailed
	}
	return phase, r.stopReason(), ""
}

// initialise runs the init containers one after the other; a sidecar stays when the next one starts.
func (r *podRunner) initialise(ctx context.Context) bool {
	for _, c := range r.init {
		go r.supervise(ctx, c)
		var ok bool
		if c.sidecar {
			ok = r.until(func() bool { return c.started })
		} else {
			ok = r.until(c.over) && c.succeeded()
		}
		if !ok {
			return false
		}
	}
	return true
}

// terminate ends what still runs: the containers together, then the sidecars, the last one first.
func (r *podRunner) terminate(ctx context.Context) {
	r.mu.Lock()
	deadline := r.deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(r.grace())
	}
	r.mu.Unlock()
	var group sync.WaitGroup
	end := func(c *container) { r.end(ctx, c, deadline) }
	for _, c := range r.mains {
		group.Go(func() { end(c) })
	}
	for _, c := range r.init {
		if !c.sidecar {
			group.Go(func() { end(c) })
		}
	}
	group.Wait()
	for i := len(r.init) - 1; i >= 0; i-- {
		end(r.init[i])
	}
}

// stop begins the pod's end. reason is empty for a deletion.
func (r *podRunner) stop(grace time.Duration, reason string) {
	r.change(func() {
		if deadline := time.Now().Add(grace); r.deadline.IsZero() || deadline.Before(r.deadline) {
			r.deadline = deadline
		}
		if reason != "" {
			r.reason = reason
		}
	})
	r.stopOnce.Do(func() { close(r.stopping) })
}

func (r *podRunner) stopReason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reason
}

func (r *podRunner) grace() time.Duration {
	if s := r.pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// waitForVolumes repeats until all volumes are there, and reports whether they are.
func (r *podRunner) waitForVolumes(ctx context.Context) bool {
	for {
		r.volumesMu.Lock()
		err := r.setUpVolumes(ctx)
		r.volumesMu.Unlock()
		if err == nil {
			return true
		}
		r.reportVolumes(err)
		select {
		case <-r.stopping:
			return false
		case <-r.kick:
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (r *podRunner) refreshVolumes(ctx context.Context) {
	for {
		select {
		case <-r.done:
			return
		case <-ctx.Done():
			return
		case <-r.kick:
		case <-time.After(refreshEvery):
		}
		r.volumesMu.Lock()
		err := r.setUpVolumes(ctx)
		r.volumesMu.Unlock()
		if err != nil && ctx.Err() == nil {
			r.reportVolumes(err)
		}
	}
}

// reportVolumes says once what is missing.
func (r *podRunner) reportVolumes(err error) {
	if r.problem != err.Error() {
		r.problem = err.Error()
		r.event(corev1.EventTypeWarning, "FailedMount", err.Error())
	}
}

// change changes the pod's state and wakes those that wait for a change.
func (r *podRunner) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// until waits for a state, and reports whether it came before the pod was to end.
func (r *podRunner) until(reached func() bool) bool {
	for {
		r.mu.Lock()
		ok, changed := reached(), r.changed
		r.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-changed:
		case <-r.stopping:
			return false
		}
	}
}

// current is the pod as the API server said it last.
func (r *podRunner) current() *corev1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latest
}

func (r *podRunner) hostname() string {
	if r.pod.Spec.Hostname != "" {
		return r.pod.Spec.Hostname
	}
	return r.pod.Name
}

// writeNetworkFiles writes the files by which a container finds names, and returns their paths.
func (r *podRunner) writeNetworkFiles() (map[string]string, error) {
	hosts := fmt.Sprintf("127.0.0.1 localhost\n::1 localhost\n%s %s\n", r.network.address, r.hostname())
	for _, alias := range r.pod.Spec.HostAliases {
		hosts += alias.IP + " " + strings.Join(alias.Hostnames, " ") + "\n"
	}
	contents := map[string]string{
		"/etc/hosts":    hosts,
		"/etc/hostname": r.hostname() + "\n",
		"/etc/resolv.conf": fmt.Sprintf(
			"search %s.svc.cluster.local svc.cluster.local cluster.local\nnameserver %s\noptions ndots:5\n",
			r.pod.Namespace, DNSService),
	}
	paths := map[string]string{}
	for target, content := range contents {
		path := filepath.Join(r.dir, filepath.Base(target))
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return nil, err
		}
		paths[target] = path
	}
	return paths, nil
}

func all(containers []*container, is func(*container) bool) bool {
	for _, c := range containers {
		if !is(c) {
			return false
		}
	}
	return true
}

package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe runs the probes of one run of a container until it ends.
func (r *podRunner) probe(ctx context.Context, c *container, p *process) {
	if probe := c.spec.StartupProbe; probe != nil && !r.repeat(ctx, c, p, probe, "Startup", func(bool) bool {
		return true
	}) {
		return
	}
	r.change(func() { c.started, c.ready = c.process == p, c.process == p && c.spec.ReadinessProbe == nil })
	if probe := c.spec.LivenessProbe; probe != nil {
		go r.repeat(ctx, c, p, probe, "Liveness", func(bool) bool { return false })
	}
	if probe := c.spec.ReadinessProbe; probe != nil {
		r.repeat(ctx, c, p, probe, "Readiness", func(ok bool) bool {
			r.change(func() { c.ready = ok && c.process == p })
			return false
		})
	}
}

// repeat runs a probe until the process ends, or until tell, which is called at each change of its result, says that it
// is enough: then it returns true. A startup or liveness probe that fails kills the process.
func (r *podRunner) repeat(ctx context.Context, c *container, p *process, probe *corev1.Probe, kind string,
	tell func(ok bool) bool) bool {
	wait := time.Duration(probe.InitialDelaySeconds) * time.Second
	var successes, failures int32
	for {
		select {
		case <-p.done:
			return false
		case <-time.After(wait):
		}
		wait = time.Duration(probe.PeriodSeconds) * time.Second
		err := r.handle(ctx, c, p, handlerOf(probe), time.Duration(probe.TimeoutSeconds)*time.Second)
		if err == nil {
			successes, failures = successes+1, 0
			if successes == probe.SuccessThreshold && tell(true) {
				return true
			}
			continue
		}
		select {
		case <-p.done:
			return false
		default:
		}
		successes, failures = 0, failures+1
		if kind == "Readiness" && failures == probe.FailureThreshold {
			tell(false)
		}
		r.event(corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %v", kind, err))
		if kind != "Readiness" && failures >= probe.FailureThreshold {
			grace := r.grace()
			if probe.TerminationGracePeriodSeconds != nil {
				grace = time.Duration(*probe.TerminationGracePeriodSeconds) * time.Second
			}
			r.kill(ctx, c, p, time.Now().Add(grace))
			return false
		}
	}
}

func handlerOf(p *corev1.Probe) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: p.Exec, HTTPGet: p.HTTPGet, TCPSocket: p.TCPSocket}
}

// handle carries out a probe or hook once.
func (r *podRunner) handle(ctx context.Context, c *container, p *process, h *corev1.LifecycleHandler,
	limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	switch {
	case h.Exec != nil:
		return r.exec(ctx, c, p, h.Exec.Command)
	case h.HTTPGet != nil:
		return r.get(ctx, c, h.HTTPGet)
	case h.TCPSocket != nil:
		address, err := r.address(c, h.TCPSocket.Host, h.TCPSocket.Port)
		if err != nil {
			return err
		}
		conn, err := r.node.network.Dial(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	case h.Sleep != nil:
		select {
		case <-ctx.Done():
		case <-p.done:
		case <-time.After(time.Duration(h.Sleep.Seconds) * time.Second):
		}
		return nil
	}
	return errors.New("this kind of probe or hook is not carried out")
}

// exec runs a command in the container.
func (r *podRunner) exec(ctx context.Context, c *container, p *process, command []string) error {
	r.mu.Lock()
	image := c.image
	r.mu.Unlock()
	spec, _, err := r.sandbox(ctx, image, c)
	if err != nil {
		return err
	}
	spec.Args = command
	f, err := os.CreateTemp(filepath.Join(r.dir, c.spec.Name), "exec")
	if err != nil {
		return err
	}
	f.Close()
	printed, err := r.node.runProcess(p, r.network.namespace, spec, f.Name(), ctx.Done())
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, printed)
	}
	return nil
}

// get asks a URL of the pod from the node.
func (r *podRunner) get(ctx context.Context, c *container, action *corev1.HTTPGetAction) error {
	address, err := r.address(c, action.Host, action.Port)
	if err != nil {
		return err
	}
	scheme := strings.ToLower(string(action.Scheme))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+action.Path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "kube-probe/1.37")
	for _, header := range action.HTTPHeaders {
		request.Header.Add(header.Name, header.Value)
		if strings.EqualFold(header.Name, "Host") {
			request.Host = header.Value
		}
	}
	client := http.Client{
		Transport: &http.Transport{
			DialContext:       r.node.network.Dial,
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // as a kubelet does: it knows no name of the pod
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("HTTP probe failed with statuscode: %d: %s", response.StatusCode, body)
	}
	return nil
}

// address is the pod's, or host's, with a port by number or by name.
func (r *podRunner) address(c *container, host string, port intstr.IntOrString) (string, error) {
	if host == "" {
		host = r.network.address
	}
	if port.Type == intstr.Int {
		return net.JoinHostPort(host, port.String()), nil
	}
	for _, p := range c.spec.Ports {
		if p.Name == port.StrVal {
			return net.JoinHostPort(host, fmt.Sprint(p.ContainerPort)), nil
		}
	}
	return "", fmt.Errorf("container %s has no port %s", c.spec.Name, port.StrVal)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// see takes what the API server says of a pod: a new one starts, one that is to be deleted ends.
func (n *Node) see(pod *corev1.Pod) {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	n.mu.Lock()
	r := n.runners[pod.UID]
	if r == nil && n.ctx.Err() == nil && !ended && pod.DeletionTimestamp == nil {
		r = newPodRunner(n, pod)
		n.runners[pod.UID] = r
		n.group.Go(func() { r.run(context.WithoutCancel(n.ctx)) })
	}
	n.mu.Unlock()
	if r == nil {
		if pod.DeletionTimestamp != nil {
			_ = n.deletePod(n.ctx, pod) // it never ran here
		}
		return
	}
	before := r.current().Labels
	r.change(func() { r.latest, r.deleted = pod, r.deleted || pod.DeletionTimestamp != nil })
	if pod.DeletionTimestamp == nil {
		if !maps.Equal(before, pod.Labels) {
			n.firewall.changed()
		}
		return
	}
	select {
	case <-r.done: // it had ended before
		_ = n.deletePod(n.ctx, pod)
	default:
		r.stop(time.Duration(*pod.DeletionGracePeriodSeconds)*time.Second, "")
	}
}

// gone ends a pod that was deleted by force.
func (n *Node) gone(pod *corev1.Pod) {
	n.mu.Lock()
	r := n.runners[pod.UID]
	n.mu.Unlock()
	if r != nil {
		r.stop(0, "")
	}
}

// deletePod tells the API server that nothing of a deleted pod runs any more.
func (n *Node) deletePod(ctx context.Context, pod *corev1.Pod) error {
	now := int64(0)
	return n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

// wake has the pod look at its volumes whose certificate request changed.
func (n *Node) wake(o any) {
	request, ok := o.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return
	}
	n.mu.Lock()
	r := n.runners[request.Spec.PodUID]
	n.mu.Unlock()
	if r == nil {
		return
	}
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// pods are those that have a network.
func (n *Node) pods() []*podRunner {
	n.mu.Lock()
	defer n.mu.Unlock()
	var running []*podRunner
	for _, r := range n.runners {
		r.mu.Lock()
		here := r.network != nil
		r.mu.Unlock()
		select {
		case <-r.done:
			here = false
		default:
		}
		if here {
			running = append(running, r)
		}
	}
	return running
}

// APIPort is where the API server is reached at the node's address.
const APIPort = 6443

// forwardAPIServer leads connections to the node's address, port APIPort, to the API server on the machine's loopback.
func (n *Node) forwardAPIServer() error {
	listener, err := n.network.Listen("tcp", fmt.Sprintf("%s:%d", Address, APIPort))
	if err != nil {
		return err
	}
	context.AfterFunc(n.ctx, func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go forward(n.ctx, conn, n.options.APIServer)
			}
		}
	}()
	return nil
}

func forward(ctx context.Context, from net.Conn, address string) {
	defer from.Close()
	to, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(from, to)
}

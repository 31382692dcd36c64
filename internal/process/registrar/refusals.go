package registrar

import (
	"context"
	"errors"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/registrar"
)

// refuse notes a refusal in log and metric, and in Events about the pods that may be the caller.
func (p *process) refuse(c registrar.Caller, err error) {
	reason := "unavailable"
	var refused *registrar.Refusal
	if errors.As(err, &refused) {
		reason = refused.Reason
	}
	p.refusals.WithLabelValues(reason).Inc()
	p.log.Warn("refused", zap.String("caller", c.ID), zap.String("reason", reason), zap.Error(err))
	if p.cluster == nil || refused == nil {
		return
	}
	pods := c.Refused()
	for _, pod := range pods[:min(len(pods), maxWarned)] {
		p.cluster.warn(pod, reason, err)
	}
}

// refuseRules notes that new rules are refused, or cannot be read, in log and metric. Refused ones also get an Event
// about this registrar's own pod.
func (p *process) refuseRules(err error) {
	p.refuse(registrar.Caller{}, err)
	var refused *registrar.Refusal
	if p.cluster == nil || !errors.As(err, &refused) {
		return
	}
	own, e := p.cluster.own()
	if e == nil {
		e = p.cluster.event(own, refused.Reason, err)
	}
	p.failed("no Event is made", e)
}

// warn makes one Event about a pod for each reason.
func (c *cluster) warn(pod registrar.Pod, reason string, err error) {
	c.mu.Lock()
	_, known := c.warned.Get([2]string{pod.UID, reason})
	c.warned.Put([2]string{pod.UID, reason}, true)
	c.mu.Unlock()
	if !known && pod.Namespace != "" {
		c.p.failed("no Event is made", c.event(pod, reason, err))
	}
}

func (c *cluster) event(pod registrar.Pod, reason string, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	return c.api.Warn(ctx, kube.Meta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		"Mediator"+reasonOf(reason), err.Error(), time.Now())
}

// own returns the pod that this registrar runs in. Its host name is its name.
func (c *cluster) own() (pod registrar.Pod, err error) {
	if pod.Namespace, err = ownNamespace(); err != nil {
		return pod, err
	}
	if pod.Name, err = os.Hostname(); err != nil {
		return pod, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	seen, err := c.api.Pod(ctx, pod.Namespace, pod.Name)
	pod.UID = seen.Meta.UID
	return pod, err
}

package config

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/actionproof/mediator/trigger"
)

func (c *Trigger) checkAll(f *findings) {
	c.Agent.keepFrom(f, "internal", c.Internal)
	if (c.EventSecretFile == "") != (c.Store.Postgres == nil) {
		f.Add("eventSecretFile", "must be set if store.postgres is set, and only then")
	}
	if (c.TLSCertificate == "") != (c.TLSKey == "") {
		f.Add("tlsCertificate", "goes together with tlsKey")
	}
	known := webhookSecrets{f, make(map[[2]string]string)}
	for i, s := range c.Sources {
		if s.Queue != nil && c.Agent.UID != nil && slices.Contains(s.Queue.Owners, *c.Agent.UID) {
			f.Add(fmt.Sprintf("sources[%d].queue.owners", i), "%d is agent.uid: the agent could cause its own posts",
				*c.Agent.UID)
		}
		source, err := s.open(known)
		if err != nil {
			f.Add(fmt.Sprintf("sources[%d]", i), "(%s) %v", s.Name, err)
			continue
		}
		c.SourceList = append(c.SourceList, source)
	}
}

func (s Source) open(known webhookSecrets) (trigger.Source, error) {
	switch {
	case s.GitHub != nil:
		return known.open(s.Name, "github", s.GitHub.SecretFiles,
			func(name string, secrets []string) (*trigger.Webhook, error) {
				return trigger.NewGitHub(name, secrets, s.GitHub.Events, s.GitHub.Human)
			})
	case s.StandardWebhooks != nil:
		return known.open(s.Name, "standard", s.StandardWebhooks.SecretFiles, trigger.NewStandard)
	case s.Engine != nil:
		return known.open(s.Name, "standard", s.Engine.SecretFiles, trigger.NewEngine)
	case s.Schedule != nil:
		return trigger.NewSchedule(s.Name, s.Schedule.Cron, s.Schedule.Payload)
	case s.Queue != nil:
		q := trigger.NewQueue(s.Name, s.Queue.Dir)
		q.Owners = s.Queue.Owners
		return q, nil
	}
	return nil, nil // its tags have said so
}

type webhookSecrets struct {
	*findings
	of map[[2]string]string // the source, by scheme and secret
}

// open reads the secrets of a source, and makes it. Two sources of one scheme must not share a secret: a delivery for
// one would count again for the other, where it may be worth more. In another scheme the delivery is malformed.
func (known webhookSecrets) open(source, scheme string, files []string,
	open func(name string, secrets []string) (*trigger.Webhook, error)) (trigger.Source, error) {
	var secrets []string
	for _, file := range files {
		s, err := known.Secret(file, 16)
		if err != nil {
			return nil, err
		}
		if of, taken := known.of[[2]string{scheme, s}]; taken && of != source {
			return nil, fmt.Errorf("the secret in %s is also that of the source %s: a sender of one could sign for "+
				"the other", file, of)
		}
		known.of[[2]string{scheme, s}] = source
		secrets = append(secrets, s)
	}
	return open(source, secrets)
}

// ReuseSources keeps the unchanged schedules and queues of the earlier configuration, so that they continue without a
// pause. Webhooks are always new: their secrets have been read again.
func (c *Trigger) ReuseSources(before *Trigger) {
	for i, s := range c.Sources {
		if s.Schedule == nil && s.Queue == nil {
			continue
		}
		same := func(old Source) bool { return reflect.DeepEqual(old, s) }
		if j := slices.IndexFunc(before.Sources, same); j >= 0 {
			c.SourceList[i] = before.SourceList[j]
		}
	}
}

package registrar

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/kube"
	"github.com/actionproof/mediator/internal/registrar"
)

// makeRoots makes the root keys of a trial in the state folder, unless they are there, and writes their public halves
// where the configuration pins them.
func (p *process) makeRoots() error {
	p.Log.Warn("THIS IS A TRIAL: the registrar holds both root keys and follows unsigned rules, so its certificates " +
		"prove nothing to anyone else")
	c := p.config
	for _, root := range []struct {
		name, public string
		key          *keyring.RootKey
	}{{"registry", c.Trust.Registry, &p.registry}, {"auditor", c.Trust.Auditor, &p.auditor}} {
		path := filepath.Join(c.State, root.name+".key.jwk")
		_, private, err := keyring.GenerateRoot(root.name, false)
		if err == nil {
			err = files.WriteAbsent(path, private)
		}
		if err != nil {
			return err
		}
		if *root.key, err = keyring.ReadRootKey(path); err != nil {
			return err
		}
		public, err := root.key.JWK()
		if err == nil {
			err = files.Replace(root.public, public, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// trialRules reads rules as they are written, and publishes what the processes of a trial pin.
func (p *process) trialRules() (*registrar.Rules, error) {
	claims, manifests, err := registrar.ReadSource(p.config.Rules, time.Now())
	if err != nil {
		return nil, err
	}
	rules, err := registrar.TrialRules(claims, manifests)
	if err != nil || p.cluster == nil || p.config.Kubernetes.ConfigMap == "" || len(manifests) == 0 {
		return rules, err
	}
	data := map[string]string{"ca.pem": string(p.authority.PEM())}
	for name, root := range map[string]keyring.RootKey{"registry.jwk": p.registry, "auditor.jwk": p.auditor} {
		public, err := root.JWK()
		if err != nil {
			return nil, err
		}
		data[name] = string(public)
	}
	if data["manifest.yaml"], err = manifests[0].Canonical(); err != nil {
		return nil, err
	}
	return rules, p.cluster.publish(data)
}

func (c *cluster) publish(data map[string]string) error {
	k := c.p.config.Kubernetes
	namespace := k.Namespace
	if namespace == "" {
		var err error
		if namespace, err = ownNamespace(); err != nil {
			return fmt.Errorf("kubernetes.namespace is not set: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), registerTimeout)
	defer cancel()
	err := c.api.ApplyConfigMap(ctx, namespace, k.ConfigMap, data)
	if err == nil {
		c.p.Log.Info("ConfigMap published", zap.String("configMap", namespace+"/"+k.ConfigMap))
	}
	return err
}

func ownNamespace() (string, error) {
	raw, err := files.Read(filepath.Join(filepath.Dir(kube.TokenFile), "namespace"))
	if err != nil {
		return "", fmt.Errorf("this pod's namespace: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

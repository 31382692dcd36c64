package config

import (
	"cmp"
	"path/filepath"
	"time"
)

// Registrar configures the registrar: mediator registrar.
type Registrar struct {
	File    `yaml:"-"`
	Process `yaml:",inline"`

	// Internal is the endpoint for operators, out of agents' reach.
	Internal Endpoint `yaml:"internal" need:"yes"`
	// Listen is the address for other processes, over mutual TLS. Callers must be in the signed rules.
	Listen string `yaml:"listen" is:"listen" need:"yes"`
	// State is the folder of the trust bundle, history and CA (a copy with `postgres`), for the registrar's user alone.
	State string `yaml:"state" is:"folder" need:"yes"`
	// Postgres keeps the state in a database that replicas share.
	Postgres *Postgres `yaml:"postgres"`
	// RegistryKey is a file: the key registry's private JWK, or YAML that names a key in Vault or a PKCS #11 token
	// (next section).
	RegistryKey string `yaml:"registryKey" is:"path"`
	// AuditorKey is the same for the auditor's key. With it the registrar renews deployment certificates, and an attacker
	// who takes over the registrar can sign rules too.
	AuditorKey string `yaml:"auditorKey" is:"path"`
	// Rules is the output of mediator registrar sign, reread when it changes.
	Rules string `yaml:"rules" is:"public" need:"yes"`
	// Lifetime is the validity of custody certificates. Default 24h.
	Lifetime Duration `yaml:"lifetime" from:"1h" to:"2160h"`
	// Kubernetes makes the registrar issue pods' TLS certificates. Default: processes bring their own.
	Kubernetes *Cluster `yaml:"kubernetes"`
	// Trial makes root keys in the state folder, and accepts unsigned rules.
	Trial bool `yaml:"trial"`
}

// Cluster configures what the registrar does in a Kubernetes cluster.
type Cluster struct {
	// TrustDomain is the host of the SPIFFE ids in pods' certificates.
	TrustDomain string `yaml:"trustDomain" need:"yes"`
	// Signer is the signer name of the pods' certificates. Default actionproof.github.io/mediator.
	Signer string `yaml:"signer"`
	// Key is the name, in `custody`, of the key that signs the pods' certificates. Default tls-authority-key.
	Key string `yaml:"key"`
	// Tokens exchanges pods' tokens for certificates. Default: pods use PodCertificateRequests.
	Tokens bool `yaml:"tokens"`
	// DNSNames are the DNS names of the registrar's Service.
	DNSNames []string `yaml:"dnsNames" need:"yes"`
	// Lifetime is the longest validity of pods' certificates. Default 24h.
	Lifetime Duration `yaml:"lifetime" from:"1h" to:"2184h"`
	// ConfigMap gets, with `tokens`, the CA (ca.pem) and, with `trial`, the public root keys and the manifest.
	ConfigMap string `yaml:"configMap"`
	// Namespace is the ConfigMap's namespace. Default: the registrar's own.
	Namespace string `yaml:"namespace"`
	// Server is https://host:port of the API server. Default: that of the pod's cluster.
	Server string `yaml:"server"`
	// CA is a PEM file of authorities for the API server's certificate. Default: the service account's.
	CA string `yaml:"ca" is:"path"`
	// TokenFile holds the token for the API server. Default: the service account's.
	TokenFile string `yaml:"tokenFile" is:"path"`
}

const (
	RegistrarSigner   = "actionproof.github.io/mediator"
	RegistrarCAKey    = "tls-authority-key"
	RegistrarLifetime = 24 * time.Hour
)

func (c *Registrar) checkAll(f *findings) {
	c.Agent.keepFrom(f, "internal", c.Internal)
	switch {
	case c.Trial && (c.RegistryKey != "" || c.AuditorKey != ""):
		f.Add("trial", "makes root keys itself: leave registryKey and auditorKey out")
	case !c.Trial && c.RegistryKey == "":
		f.Add("registryKey", "is required without trial")
	case c.Trial && c.Postgres != nil:
		f.Add("postgres", "has no meaning in a trial, which has one registrar")
	}
	switch {
	case c.Kubernetes == nil && c.TLS == nil:
		f.Add("tls", "is required without kubernetes: a certificate names this process")
	case c.Kubernetes != nil && c.Kubernetes.ConfigMap != "" && !c.Trial && !c.Kubernetes.Tokens:
		f.Add("kubernetes.configMap",
			"needs trial or kubernetes.tokens: otherwise deliver the reviewed root keys and manifest yourself")
	}
	if k := c.Kubernetes; k != nil {
		k.Signer, k.Key = cmp.Or(k.Signer, RegistrarSigner), cmp.Or(k.Key, RegistrarCAKey)
	}
	if c.Process.Registrar != nil {
		f.Add("registrar", "has no meaning here: this is the registrar")
	}
	if want := filepath.Join(c.State, "trust.json"); c.Trust.Bundle != want {
		f.Add("trust.bundle", "must be %s, which this process writes", want)
	}
}

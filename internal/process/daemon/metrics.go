package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/internal/keystore"
)

// stateCollector makes the metrics about trust, keys and Vault from the process's state, so a scrape leaves no line in
// a custody's audit log. Times are in Unix seconds.
type stateCollector struct{ p *Process }

var (
	certificateUntil = describe("mediator_custody_certificate_until_seconds",
		"When the custody certificate of a key version in the trust bundle ends.", "kid", "purpose")
	lastCertified = describe("mediator_last_certification_seconds",
		"When the key registry signed the newest custody certificate of the trust bundle.")
	revocationsUntil = describe("mediator_revocation_list_until_seconds",
		"When the revocation list ends, after which nothing is believed. Missing if there is no list.")
	deploymentUntil = describe("mediator_deployment_certificate_until_seconds",
		"When the current deployment certificate ends, after which every post is refused. Missing before there is one.")
	bundleInfo = describe("mediator_trust_bundle_info",
		"1 for the trust bundle by which this process now signs or verifies.", "use", "sha256")
	bundleFull = describe("mediator_trust_bundle_full_ratio",
		"How full the trust bundle is, from 0 to 1: by its certificates, bytes or revocation list. A full one takes "+
			"no more.")
	signingVersion = describe("mediator_signing_version", "The version of a key that signs now. Missing if none may.",
		"key", "purpose")
	signingMade = describe("mediator_signing_version_created_seconds",
		"When the custody made the version that signs now. Missing if it does not say.", "key", "purpose")
	keyVersions = describe("mediator_key_versions",
		"How many versions of a key its custody accepts: those not retired.", "key", "purpose")
	tlsUntil = describe("mediator_tls_certificate_until_seconds",
		"When the TLS certificate of this process ends, after which the others refuse it. Missing without tls.")
	vaultUntil = describe("mediator_vault_certificate_until_seconds",
		"When Vault's certificate ends, as a connection saw it in the last hours.")
	vaultReachable = describe("mediator_vault_reachable",
		"1 if Vault did the last time what this login asked of it; else 0.", "for")
	vaultTokenUntil = describe("mediator_vault_token_until_seconds",
		"When a login's token ends unless it is renewed. Missing if it does not end.", "for")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// Describe describes nothing, because most metrics are missing at the start.
func (stateCollector) Describe(chan<- *prometheus.Desc) {}

func (s stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	at := func(d *prometheus.Desc, t time.Time, labels ...string) {
		if !t.IsZero() {
			gauge(d, float64(t.Unix()), labels...)
		}
	}
	s.trust(gauge, at)
	if s.p.Identity != nil {
		at(tlsUntil, s.p.Identity.Until())
	}
	for _, r := range s.p.Roles {
		name := r.Key.Name()
		if versions, err := r.Key.Versions(context.Background()); err == nil {
			gauge(keyVersions, float64(len(versions)), name, r.Purpose)
		}
		if v, err := r.Key.Signs(context.Background()); err == nil {
			gauge(signingVersion, float64(evidence.KeyVersion(v.KeyID())), name, r.Purpose)
			at(signingMade, v.Made(), name, r.Purpose)
		}
	}
	if health, ok := keystore.Health(s.p.Keys); ok {
		at(vaultUntil, health.CertificateUntil)
		for _, l := range health.Logins {
			reachable := 0.0
			if l.Reachable {
				reachable = 1
			}
			gauge(vaultReachable, reachable, l.For)
			at(vaultTokenUntil, l.Until, l.For)
		}
	}
}

func (s stateCollector) trust(gauge func(*prometheus.Desc, float64, ...string),
	at func(*prometheus.Desc, time.Time, ...string)) {
	verifying := s.p.Trust.current()
	maxAge := time.Duration(0)
	if verifying != nil {
		gauge(deploymentUntil, float64(verifying.until.Load()))
		gauge(bundleInfo, 1, "verify", verifying.bundle.Load().hash)
		maxAge = verifying.Strict.Signers.MaxAge
	}
	signing := s.p.signing.Load()
	if signing == nil {
		return
	}
	gauge(bundleInfo, 1, "sign", signing.hash)
	gauge(bundleFull, signing.full)
	trust := signing.trust
	if verifying != nil {
		trust = verifying.Verifier.Trust()
	}
	var newest time.Time
	for _, c := range trust.Certified() {
		issued, until := time.Unix(c.Certificate.IssuedAt, 0), time.Unix(c.Certificate.Expires, 0)
		if maxAge > 0 && issued.Add(maxAge).Before(until) {
			until = issued.Add(maxAge)
		}
		if issued.After(newest) {
			newest = issued
		}
		at(certificateUntil, until, c.Certificate.SubjectKeyID, c.Certificate.Purposes[0])
	}
	at(lastCertified, newest)
	if until, ok := trust.RevocationsUntil(); ok {
		at(revocationsUntil, until)
	}
}

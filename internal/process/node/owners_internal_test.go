package node

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/actionproof/mediator/custody"
	"github.com/actionproof/mediator/evidence"
	"github.com/actionproof/mediator/evidence/interaction"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/keyring"
	"github.com/actionproof/mediator/internal/process/daemon"
	"github.com/actionproof/mediator/reputation"
	"github.com/actionproof/mediator/signer"
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/gatetest"
)

type deployment struct {
	*gatetest.Kit
	config.Owner
}

func newDeployment(t *testing.T, name string) deployment {
	t.Helper()
	k := gatetest.NewAt(t, time.Now().Add(-time.Hour).Truncate(time.Second))
	k.Observe(t)
	files, allowed, signers := k.Files(t, t.TempDir()), k.Manifest.InteractionReceiptPolicy,
		k.Manifest.SignerCertificatePolicy
	d := deployment{k, config.Owner{
		Name: name, Registry: files.Registry, Bundle: files.Bundle,
		Certificates: config.BelievedCertificates{Issuers: signers.AllowedIssuers, Audiences: signers.AllowedAudiences},
		Receipts: config.BelievedReceipts{Issuers: allowed.AllowedIssuers, Audiences: allowed.AllowedAudiences,
			Keys: allowed.AllowedKeyIDs},
	}}
	d.publish(t)
	return d
}

func (d deployment) publish(t *testing.T) {
	t.Helper()
	d.WriteBundle(t, d.Bundle, d.Certificates(t))
}

func (d deployment) Certificates(*testing.T) string {
	return d.Kit.Certificates[evidence.PurposeInteraction]
}

type node struct {
	*owners
	inForce []reputation.Owner
	puts    int
	log     *observer.ObservedLogs
}

func newNode(t *testing.T, of ...deployment) *node {
	t.Helper()
	core, log := observer.New(zapcore.InfoLevel)
	n := &node{log: log}
	n.owners = &owners{audience: "node", believe: func(b reputation.Believed) error {
		n.inForce, n.puts = b.Owners, n.puts+1
		return nil
	}, log: zap.New(core)}
	check.Must(t, n.take(configured(of...)))
	return n
}

func configured(of ...deployment) *config.Reputation {
	c := &config.Reputation{}
	for _, d := range of {
		c.Owners = append(c.Owners, d.Owner)
	}
	return c
}

func (n *node) believes(t *testing.T, d deployment, of int) error {
	t.Helper()
	s, o := d.Session(t, "ses_1"), n.inForce[of]
	token := s.Call(t, nil)
	_, err := interaction.NewChain(interaction.Past(o.Past, o.Receipts, time.Now()),
		interaction.Expected{Owner: o.ID}).Add(token)
	return err
}

func TestOwners(t *testing.T) {
	one, two := newDeployment(t, "one"), newDeployment(t, "two")
	n := newNode(t, one, two)
	for i, d := range []deployment{one, two} {
		if n.inForce[i].ID != d.Kit.Owner(t) || n.inForce[i].Name != d.Owner.Name {
			t.Errorf("the owner is %+v", n.inForce[i])
		}
		if err := n.believes(t, d, i); err != nil {
			t.Errorf("a receipt of %s: %v", d.Owner.Name, err)
		}
	}
	if err := n.believes(t, one, 1); err == nil {
		t.Error("a receipt of one owner is believed to be another's")
	}
	for _, narrow := range []func(*config.Owner){
		func(o *config.Owner) { o.Receipts.Issuers = []string{"other"} },
		func(o *config.Owner) { o.Receipts.Audiences = []string{"other"} },
		func(o *config.Owner) { o.Receipts.Keys = []string{"other"} },
	} {
		d := one
		narrow(&d.Owner)
		gatetest.WantCode(t, newNode(t, d).believes(t, d, 0), "not_allowed")
	}
	for _, narrow := range []func(*config.Owner){
		func(o *config.Owner) {
			o.Certificates.Issuers = []string{"other"}
		}, func(o *config.Owner) { o.Certificates.Audiences = []string{"other"} },
	} {
		d := one
		narrow(&d.Owner)
		if err := newNode(t, d).believes(t, d, 0); err == nil {
			t.Error("a certificate is believed that was meant for others")
		}
	}
	for audience, code := range map[string]string{"node": "", "another node": "not_allowed"} {
		now := time.Now().Unix()
		token, err := evidence.Sign(t.Context(), one.Key(t, evidence.PurposeInteraction), interaction.CallerKind,
			interaction.Caller{
				Registered: evidence.Registered{Audience: audience, Expires: now + 60, IssuedAt: now,
					Issuer: one.Issuer(evidence.PurposeInteraction), ID: "jti"},
				KeyClaims: evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator},
				Agent:     "agent:worker-1", Owner: n.inForce[0].ID, Session: "ses_1", EventID: "evt_1", Method: "POST",
				Path: "/v1/challenge/issue", BodyHash: evidence.HashBytes(nil),
			})
		check.Must(t, err)
		if _, err = evidence.Open(n.inForce[0].Live, interaction.CallerKind, token, n.inForce[0].Callers); code == "" &&
			err != nil {
			t.Error(err)
		} else if code != "" {
			gatetest.WantCode(t, err, code)
		}
	}
}

type certified struct {
	deployment
	root keyring.RootKey
}

func newCertified(t *testing.T, postQuantum bool) certified {
	t.Helper()
	d, dir := newDeployment(t, "one"), t.TempDir()
	root, _, err := keyring.GenerateRoot("registry", postQuantum)
	check.Must(t, err)
	jwk, err := root.JWK()
	d.Registry, d.Bundle = filepath.Join(dir, "registry.jwk"), filepath.Join(dir, "trust.json")
	if err == nil {
		err = os.WriteFile(d.Registry, jwk, 0o600)
	}
	check.Must(t, err)
	return certified{d, root}
}

func (c certified) certify(t *testing.T, key evidence.KeyClaims, say keyring.Declaration) {
	t.Helper()
	is := c.Owner.Certificates
	registry := keyring.NewRegistry(c.root,
		signer.Options{Issuer: is.Issuers[0], Audience: is.Audiences[0], Lifetime: time.Hour, Now: c.Clock.Now}, c.Bundle)
	_, err := registry.Certify(t.Context(),
		keyring.Published{Publication: keyring.Publication{Roles: []daemon.RoleDocument{{
			Purpose: evidence.PurposeInteraction, Issuer: c.Issuer(evidence.PurposeInteraction), KeyCustody: key.KeyCustody,
			KeyExportable: key.KeyExportable,
			Keys:          []jose.JSONWebKey{custody.JWK(c.Key(t, evidence.PurposeInteraction))},
		}}}}, say)
	check.Must(t, err)
}

func (c certified) believes(t *testing.T, n *node, key evidence.KeyClaims) error {
	t.Helper()
	receipt, err := evidence.UnverifiedClaims(interaction.Kind, c.Session(t, "ses_1").Call(t, nil))
	check.Must(t, err)
	receipt.KeyClaims = key
	token, err := evidence.Sign(t.Context(), c.Key(t, evidence.PurposeInteraction), interaction.Kind, receipt)
	check.Must(t, err)
	v, err := n.inForce[0].Past.At(c.Clock.Now(), time.Now())
	if err == nil {
		_, err = evidence.Open(v, interaction.Kind, token, n.inForce[0].Receipts)
	}
	return err
}

func TestKeysOfOwners(t *testing.T) {
	for name, tt := range map[string]struct {
		custody    string
		exportable bool
		say        keyring.Declaration
		code       string
	}{
		"in another process's hands": {evidence.CustodyExternalMediator, false, keyring.Declaration{}, ""},
		"in hardware":                {evidence.CustodyHardwareBacked, false, keyring.Declaration{}, ""},
		"in the agent's process":     {"agent_process", false, keyring.Declaration{}, "key_custody"},
		"that can be exported":       {evidence.CustodyExternalMediator, true, keyring.Declaration{}, "key_custody"},
		"that the agent can reach": {evidence.CustodyExternalMediator, false, keyring.Declaration{AccessibleToAgent: true},
			"key_custody"},
		"that users can reach": {evidence.CustodyExternalMediator, false, keyring.Declaration{AccessibleToUsers: true},
			"key_custody"},
	} {
		t.Run(name, func(t *testing.T) {
			c, key := newCertified(t, false), evidence.KeyClaims{KeyCustody: tt.custody, KeyExportable: tt.exportable}
			c.certify(t, key, tt.say)
			if err := c.believes(t, newNode(t, c.deployment), key); tt.code != "" {
				gatetest.WantCode(t, err, tt.code)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPostQuantumOwner(t *testing.T) {
	c, key := newCertified(t, true), evidence.KeyClaims{KeyCustody: evidence.CustodyExternalMediator}
	c.certify(t, key, keyring.Declaration{})
	n := newNode(t, c.deployment)
	if err := c.believes(t, n, key); err != nil {
		t.Errorf("a receipt by a key that is certified twice: %v", err)
	}
	b, raw, err := deployed.ReadBundle(c.Bundle)
	check.Must(t, err)
	first, _, _ := strings.Cut(b.Certificates[0], "~")
	check.Must(t, os.WriteFile(c.Bundle, []byte(strings.Replace(string(raw), b.Certificates[0], first, 1)), 0o600))
	if err := n.take(configured(c.deployment)); err == nil ||
		!strings.Contains(err.Error(), "needs a post-quantum signature too") {
		t.Errorf("a certificate that was signed once: %v", err)
	}
}

func TestNothingHalf(t *testing.T) {
	one, two := newDeployment(t, "one"), newDeployment(t, "two")
	n := newNode(t, one)
	n.skew = time.Hour
	if err := n.take(configured(one, two)); err == nil {
		t.Error("an hour's difference of clocks is tolerated")
	}
	n.skew, n.believe = 0, func(reputation.Believed) error { return errors.New("not believed") }
	if err := n.take(configured(one, two)); err == nil || err.Error() != "not believed" || len(n.owners.inForce) != 1 {
		t.Errorf("%v, and %d owners are in force", err, len(n.owners.inForce))
	}
	one.Revoke(t)
	one.publish(t)
	n.follow()
	if got := n.log.FilterMessage("the new trust bundles of owners are not taken over").Len(); got != 1 {
		t.Errorf("the log says %d times that a bundle is not taken over", got)
	}
}

func TestOwnersThatAreRefused(t *testing.T) {
	one, two := newDeployment(t, "one"), newDeployment(t, "two")
	for name, tt := range map[string]struct {
		change func(o *config.Owner)
		want   string
	}{
		"no bundle":                 {func(o *config.Owner) { o.Bundle += ".absent" }, "no such file or directory"},
		"no registry":               {func(o *config.Owner) { o.Registry += ".absent" }, "no such file or directory"},
		"a registry that is no key": {func(o *config.Owner) { o.Registry = o.Bundle }, "its registry"},
		"the registry of another": {func(o *config.Owner) {
			o.Registry, o.Bundle = one.Registry, one.Bundle
		}, "the owners one and two have the same key registry"},
		"the bundle of another": {func(o *config.Owner) { o.Bundle = one.Bundle }, "is wrong"},
		"a bundle that is none": {func(o *config.Owner) { o.Bundle = o.Registry }, "malformed"},
		"a history of another's roots": {func(o *config.Owner) {
			o.Bundle = withHistory(t, two, one.Certificates(t))
		}, "is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, one)
			changed := two
			tt.change(&changed.Owner)
			err := n.take(configured(one, changed))
			if err == nil || !strings.Contains(err.Error(), tt.want) || n.puts != 1 {
				t.Errorf("%v, and %d times owners were put in force; want %q", err, n.puts, tt.want)
			}
			if strings.HasPrefix(tt.want, "no such file") && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the node does not wait for the file: %v", err)
			}
		})
	}
}

func withHistory(t *testing.T, d deployment, certificate string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trust.json")
	d.WriteBundle(t, path, d.Certificates(t))
	raw, err := json.Marshal(evidence.History{Certificates: []string{certificate}})
	if err == nil {
		err = os.WriteFile(deployed.HistoryFile(path), raw, 0o600)
	}
	check.Must(t, err)
	return path
}

func refusedOwners(t *testing.T, n *node) (names string) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(n.owners)
	families, err := r.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 2 {
		t.Fatalf("%v, %v", families, err)
	}
	for _, m := range families[0].Metric {
		if m.Gauge.GetValue() == 1 {
			names += m.Label[0].GetValue()
		}
	}
	return names
}

func TestFollow(t *testing.T) {
	one, two := newDeployment(t, "one"), newDeployment(t, "two")
	n := newNode(t, one, two)
	n.follow()
	if n.puts != 1 {
		t.Error("nothing has changed, and owners are put in force")
	}
	one.Rotate(t, evidence.PurposeInteraction)
	if err := n.believes(t, one, 0); err == nil {
		t.Error("a receipt by a version is believed that nobody has certified")
	}
	earlier := one.Certificates(t)
	one.Kit.Certificates[evidence.PurposeInteraction] = one.Vouch(t, one.Key(t, evidence.PurposeInteraction),
		evidence.PurposeInteraction, one.Issuer(evidence.PurposeInteraction))
	one.Revoke(t)
	one.publish(t)
	n.follow()
	if err := n.believes(t, one, 0); n.puts != 2 || err != nil {
		t.Errorf("after the new version was certified: %v, %d", err, n.puts)
	}
	puts := 3
	wantKept := func(t *testing.T, said string) {
		t.Helper()
		n.log.TakeAll()
		n.follow()
		n.follow()
		if lines := n.log.TakeAll(); len(lines) != 1 || !strings.Contains(lines[0].ContextMap()["error"].(string), said) {
			t.Errorf("the log has %v, want one line with %q", lines, said)
		}
		if got := refusedOwners(t, n); got != "one" {
			t.Errorf("the metric has %q as refused", got)
		}
		if err := n.believes(t, one, 0); n.puts != puts || err != nil {
			t.Errorf("the owner before is not kept: %v, %d", err, n.puts)
		}
	}
	two.publish(t) // which has no revocation list, and needs none because another owner has one
	n.follow()
	if n.puts != 3 {
		t.Error("the bundle of another owner is not taken over")
	}
	list := one.Revocations
	one.Revocations = ""
	one.publish(t)
	wantKept(t, "has no revocation list, or an older list")
	one.Revocations = list
	one.WriteBundle(t, one.Bundle, earlier)
	wantKept(t, "a version that was retired")
	check.Must(t, os.WriteFile(one.Bundle, []byte("{"), 0o600))
	wantKept(t, "malformed")
	check.Must(t, os.Remove(one.Bundle))
	wantKept(t, "no such file")
	one.publish(t)
	check.Must(t, os.WriteFile(deployed.HistoryFile(one.Bundle), []byte("{"), 0o600))
	puts++ // for what the bundle revokes
	wantKept(t, "the history is malformed")
	one.Revoke(t, evidence.Revocation{Kind: evidence.RevokedKey, ID: one.Key(t, evidence.PurposeInteraction).KeyID()})
	one.publish(t)
	n.follow()
	gatetest.WantCode(t, n.believes(t, one, 0), "revoked")
	if got := refusedOwners(t, n); got != "one" {
		t.Errorf("the metric has %q as refused", got)
	}
	check.Must(t, os.Remove(deployed.HistoryFile(one.Bundle)))
	n.follow()
	if n.puts != puts+2 || refusedOwners(t, n) != "" {
		t.Error("the bundle that is there again is not taken over")
	}
}

package daemon

import (
	"context"
	"fmt"
	"reflect"

	"github.com/actionproof/mediator/internal/await"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/deployed"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/policy"
)

func (p *Process) notReady() error {
	if waiting := p.waiting.Load(); waiting != nil {
		return refusal.New("not_ready", "the process is not ready: it waits for %s", *waiting)
	}
	return errStarting
}

// WaitFor is [await.For]. Meanwhile /readyz says what the process waits for, and why.
func (p *Process) WaitFor(ctx context.Context, what string, paths []string, try func() error) error {
	defer p.waiting.Store(nil)
	return await.For(ctx, p.Log, what, paths, func() error {
		err := try()
		if err != nil {
			why := what + " (" + err.Error() + ")"
			p.waiting.Store(&why)
		}
		return err
	})
}

// checkFiles refuses a start that the present files would end later, after the keys are open. It skips files that the
// process would wait for.
func (p *Process) checkFiles(plan Plan) error {
	if err := holds(p.Observer.Load().ofAgent()); err != nil {
		return err
	}
	c := plan.Trust
	_, strict, err := readManifest(plan)
	if err != nil && !await.Pending(err) {
		return err
	}
	if p.Roots, err = deployed.ReadRoots(c.Registry, c.Auditor); err == nil {
		_, err = p.readTrust(c, strict)
	}
	if err != nil && !await.Pending(err) {
		return err
	}
	return nil
}

// Deployment is what a process has read about its deployment. All is nil for a process that reads no manifest.
type Deployment struct {
	Manifest *policy.Manifest
	Strict   *policy.Strict
	Trust    *TrustFollower
}

// WaitForDeployment waits for the files of the deployment, one after the other, and makes the roles sign by the trust
// bundle. Before the first start the security team has no keys to certify. A process that verifies reads its trust after
// that, so it accepts its own signatures.
func (p *Process) WaitForDeployment(ctx context.Context, plan Plan) (d Deployment, err error) {
	c := plan.Trust
	for _, file := range []struct {
		what  string
		paths []string
		read  func() error
	}{
		{"the manifest", []string{plan.Manifest}, func() (err error) {
			d.Manifest, d.Strict, err = readManifest(plan)
			return err
		}},
		{"the pinned root keys", []string{c.Registry, c.Auditor}, func() (err error) {
			p.Roots, err = deployed.ReadRoots(c.Registry, c.Auditor)
			return err
		}},
		{"a trust bundle that certifies this process's keys", []string{c.Bundle}, func() error {
			return p.followBundle(ctx, c.Bundle)
		}},
		{"a trust bundle with the certificate of the deployment", []string{c.Bundle}, func() (err error) {
			d.Trust, err = p.readTrust(c, d.Strict)
			return err
		}},
	} {
		if err := p.WaitFor(ctx, file.what, file.paths, file.read); err != nil {
			return d, err
		}
	}
	return d, nil
}

// changedRoots returns the settings of root keys whose files now hold other keys.
func (p *Process) changedRoots(c config.Trust) (keys []string, err error) {
	now, err := deployed.ReadRoots(c.Registry, c.Auditor)
	if err != nil {
		return nil, err
	}
	for i, key := range [...]string{"trust.registry", "trust.auditor"} {
		if !reflect.DeepEqual(p.Roots[i], now[i]) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func readManifest(plan Plan) (*policy.Manifest, *policy.Strict, error) {
	if plan.Manifest == "" {
		return nil, nil, nil
	}
	m, strict, err := deployed.ReadAuditedManifest(plan.Manifest)
	if err != nil {
		return nil, nil, err
	}
	if err := plan.CheckManifest(strict); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", plan.Manifest, err)
	}
	return m, strict, nil
}

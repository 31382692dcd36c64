package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/every"
	"github.com/actionproof/mediator/proxy/intercept"
)

// openCA loads the CA of mediator ca init, or makes one in memory. It writes the certificate to a file for agents.
func openCA(c *config.Sidecar) (*intercept.CA, error) {
	var ca *intercept.CA
	var err error
	if c.CA.Dir != "" {
		ca, err = intercept.LoadCA(c.CA.Dir, time.Now())
	} else {
		o := intercept.CAOptions{Now: time.Now}
		if o.Constraints, err = c.Constraints(); err != nil {
			return nil, err
		}
		ca, err = intercept.NewCA(o)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: make one there with mediator ca init, or leave ca.dir out", err)
	}
	if err != nil {
		return nil, err
	}
	err = os.WriteFile(c.CAFile(), ca.CertificatePEM(), 0o644) //nolint:gosec // agents of other users read it
	if err != nil {
		return nil, fmt.Errorf("%w: make the folder, and let this process's user write the certificate for agents "+
			"there", err)
	}
	return ca, nil
}

// warnOfExpiry warns once a day in the CA's last week. Afterwards all TLS handshakes of agents fail.
func warnOfExpiry(ctx context.Context, ca *intercept.CA, log *zap.Logger) {
	const early, period = 7 * 24 * time.Hour, 24 * time.Hour
	for wait := time.Until(ca.Expires().Add(-early)); every.Sleep(ctx, wait) == nil; wait = period {
		log.Error("the interception CA is about to expire: restart the sidecar, or make a new one with mediator ca init",
			zap.Time("expires", ca.Expires()))
	}
}

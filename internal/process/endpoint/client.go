package endpoint

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/descriptor"
	"github.com/actionproof/mediator/internal/identity"
	"github.com/actionproof/mediator/internal/wire"
)

// Client returns an HTTP client for another process, and the base of its URLs. Over TCP it speaks TLS as id.
func Client(p config.Peer, id *identity.Identity) (*http.Client, string) {
	return ClientSending(p, id, nil)
}

// ClientSending is Client for a client that sends a descriptor with the first bytes of each connection to a unix
// socket. A nil file sends none.
func ClientSending(p config.Peer, id *identity.Identity, file *os.File) (*http.Client, string) {
	d := net.Dialer{Timeout: 30 * time.Second}
	dial := d.DialContext
	if p.Unix != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := d.DialContext(ctx, "unix", p.Unix)
			if err == nil {
				err = checkServer(c, p.UID)
			}
			if err != nil {
				return nil, err
			}
			return descriptor.Send(c, file), nil
		}
	}
	base := func() *http.Transport {
		return &http.Transport{
			DialContext: dial, MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
			ResponseHeaderTimeout: 90 * time.Second, // longer than any long poll
		}
	}
	if p.Unix != "" {
		return &http.Client{Transport: base(), CheckRedirect: wire.Stay}, "http://mediator" // the name is not resolved
	}
	host, _, _ := net.SplitHostPort(p.TCP)
	return &http.Client{Transport: id.Transport(cmp.Or(p.Name, host), base), CheckRedirect: wire.Stay}, "https://" +
		p.TCP
}

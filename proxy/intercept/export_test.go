package intercept

import (
	"net/http"

	"github.com/elazarl/goproxy"
)

// Dispatch returns what a decided CONNECT goes through.
func (p *Proxy) Dispatch() *goproxy.ProxyHttpServer { return p.dispatch.(*goproxy.ProxyHttpServer) }

// SetDispatch replaces it.
func (p *Proxy) SetDispatch(h http.Handler) { p.dispatch = h }

// OpenTunnels counts the tunnels that are open.
func (p *Proxy) OpenTunnels() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.open.Taken())
}

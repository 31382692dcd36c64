package intercept

import (
	"net/http"

	"github.com/elazarl/goproxy"
)

func (p *Proxy) Dispatch() *goproxy.ProxyHttpServer { return p.dispatch.(*goproxy.ProxyHttpServer) }

func (p *Proxy) SetDispatch(h http.Handler) { p.dispatch = h }

func (p *Proxy) OpenTunnels() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.open.Taken())
}

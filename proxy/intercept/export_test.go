package intercept

import "github.com/elazarl/goproxy"

// Dispatch returns what a decided CONNECT goes through.
func (p *Proxy) Dispatch() *goproxy.ProxyHttpServer { return p.connect }

// OpenTunnels counts the tunnels that are open.
func (p *Proxy) OpenTunnels() int {
	p.tunnels.mu.Lock()
	defer p.tunnels.mu.Unlock()
	return p.tunnels.count
}

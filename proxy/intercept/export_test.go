package intercept

func (p *Proxy) OpenTunnels() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.open.Taken())
}

package sidecar

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/actionproof/mediator/internal/admin"
	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/problem"
	"github.com/actionproof/mediator/internal/refusal"
	"github.com/actionproof/mediator/internal/wire"
	"github.com/actionproof/mediator/proxy/rules"
	"github.com/actionproof/mediator/proxy/upstream"
)

// probeTimeout bounds the look whether the upstream proxy answers.
const probeTimeout = 5 * time.Second

// upstreamProxy returns the upstream proxy of a configuration with its metric; nil for none.
func (p *sidecar) upstreamProxy(c *config.Sidecar) *upstream.Proxy {
	if c.UpstreamProxy == nil {
		return nil
	}
	with := *c.UpstreamProxy.Proxy
	with.Tried = func(code string) { p.proxied.WithLabelValues(code).Inc() }
	return &with
}

// checkProxy connects to the upstream proxy now.
func (s *snapshot) checkProxy(ctx context.Context) error {
	within, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := s.transport.CheckProxy(within)
	if within.Err() != nil && ctx.Err() == nil {
		return refusal.New("upstream_proxy_unreachable", "the upstream proxy does not answer within %s", probeTimeout)
	}
	return err
}

// checkPosts is checkProxy if all posts take the proxy.
func (s *snapshot) checkPosts(ctx context.Context) error {
	above := s.Config.UpstreamProxy
	if above == nil || slices.ContainsFunc(s.Config.ActionRules, func(r rules.Action) bool {
		return !above.Proxy.Carries(r.Via, r.Match.Host, r.Match.Port)
	}) {
		return nil
	}
	return s.checkProxy(ctx)
}

func (s *snapshot) UpstreamProxy(ctx context.Context) *admin.UpstreamProxy {
	if s.Config.UpstreamProxy == nil {
		return nil
	}
	shown := &admin.UpstreamProxy{URL: s.Config.UpstreamProxy.URL}
	if err := s.checkProxy(ctx); err != nil {
		said := problem.DetailsOf(err)
		shown.Code, shown.Reason = said.Code, said.Detail
	}
	return shown
}

// witnessClient makes the client for the log's witnesses, whose addresses may be private. Package translog bounds its
// requests.
func (p *sidecar) witnessClient() *http.Client {
	dial := (&net.Dialer{Timeout: 5 * time.Second}).DialContext
	if proxy := p.upstreamProxy(p.config); proxy != nil && p.config.TransparencyLog.Accepts != nil {
		through := &upstream.Dialer{Proxy: proxy}
		for _, at := range p.config.TransparencyLog.Accepts.URLs() {
			u, _ := url.Parse(at) // checked by package translog
			through.Hosts = append(through.Hosts, upstream.Host{Name: upstream.NormalHost(u.Hostname()),
				Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}})
		}
		dial = through.DialContext
	}
	return &http.Client{CheckRedirect: wire.Stay, Transport: &http.Transport{
		DialContext: dial, TLSHandshakeTimeout: 5 * time.Second,
		IdleConnTimeout: 90 * time.Second, ForceAttemptHTTP2: true,
	}}
}

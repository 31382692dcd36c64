package upstream_test

import (
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
)

// What the tests share, by short names.
var (
	must             = check.Must
	wantCode         = check.WantCode
	loopback         = proxytest.Loopback
	newTestTransport = proxytest.NewTransport
	portOf           = proxytest.PortOf
	at               = proxytest.At
	newFrames        = proxytest.NewFrames
	newUpstream      = proxytest.NewUpstream
	wantBody         = proxytest.WantBody
	poolOf           = proxytest.PoolOf
	get              = proxytest.Get
	newRig           = proxytest.New
)

type (
	names    = proxytest.Names
	protocol = proxytest.Protocol
)

const (
	http1 = proxytest.HTTP1
	http2 = proxytest.HTTP2
)

package intercept_test

import (
	"github.com/actionproof/mediator/test/check"
	"github.com/actionproof/mediator/test/proxytest"
)

// What the tests share, by short names.
var (
	must         = check.Must
	wantCode     = check.WantCode
	codeOf       = check.CodeOf
	isTimeout    = check.IsTimeout
	wantAnswer   = proxytest.WantAnswer
	testRefuse   = proxytest.Refuse
	hostOf       = proxytest.HostOf
	at           = proxytest.At
	roundTripRaw = proxytest.RoundTripRaw
	readRaw      = proxytest.ReadRaw
	newFrames    = proxytest.NewFrames
	newUpstream  = proxytest.NewUpstream
	mustGet      = proxytest.MustGet
	wantBody     = proxytest.WantBody
	get          = proxytest.Get
	newRig       = proxytest.New
	newBubbleRig = proxytest.NewInBubble
)

type (
	rig = proxytest.Rig
)

const (
	http1      = proxytest.HTTP1
	http2      = proxytest.HTTP2
	codeHeader = proxytest.CodeHeader
)

package admin

import (
	"fmt"

	"github.com/actionproof/mediator/internal/config"
	"github.com/actionproof/mediator/internal/identity"
)

// EndpointError is the error for a text on a command line that is not an endpoint.
type EndpointError string

func (e EndpointError) Error() string {
	return fmt.Sprintf("%q is not an endpoint: write unix:PATH or https://HOST:PORT,FILE "+
		"(FILE has your certificate or token; by default it is the client of the current context)", string(e))
}

// WithClient returns an endpoint of [config.SplitEndpoint] with its file: that of the current context, if it is at
// https and names none. It fails with an [EndpointError] for any other text.
func WithClient(s string) (string, error) {
	at, file, ok := config.SplitEndpoint(s)
	if !ok {
		return "", EndpointError(s)
	}
	if at.Unix != "" || file != "" {
		return s, nil
	}
	context, err := config.CurrentContext()
	if err != nil {
		return "", err
	}
	if context == nil || context.Client == "" {
		return "", EndpointError(s)
	}
	return "https://" + at.TCP + "," + context.Client, nil
}

// ParseEndpoint parses an endpoint as [WithClient] does, and reads its file. The identity is nil for a unix socket.
func ParseEndpoint(s string) (config.Peer, *identity.Identity, error) {
	s, err := WithClient(s)
	if err != nil {
		return config.Peer{}, nil, err
	}
	at, file, _ := config.SplitEndpoint(s)
	if at.Unix != "" {
		return at, nil, nil
	}
	c, err := config.Load[config.Client](file)
	if err != nil {
		return config.Peer{}, nil, err
	}
	var id *identity.Identity
	if c.TokenFile != "" {
		id, err = identity.LoadBearer(c.TokenFile, c.Authorities)
	} else {
		id, err = identity.Load(identity.Files{Certificate: c.Certificate, Key: c.Key, Authorities: c.Authorities})
	}
	if err != nil {
		return config.Peer{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	at.Name = c.Name
	return at, id, nil
}

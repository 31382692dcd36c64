package daemon

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

// ParseEndpoint parses an endpoint as [config.SplitEndpoint] does, and reads its file, or else that of the current
// context. It fails with an [EndpointError] for any other text. The identity is nil for a unix socket.
func ParseEndpoint(s string) (config.Peer, *identity.Identity, error) {
	at, file, ok := config.SplitEndpoint(s)
	if ok && at.Unix == "" && file == "" {
		context, err := config.CurrentContext()
		if err != nil {
			return config.Peer{}, nil, err
		}
		if context != nil {
			file = context.Client
		}
		ok = file != ""
	}
	switch {
	case !ok:
		return config.Peer{}, nil, EndpointError(s)
	case at.Unix != "":
		return at, nil, nil
	}
	c, err := config.LoadClient(file)
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

package endpoint

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/actionproof/mediator/internal/config/fields"
	"github.com/actionproof/mediator/internal/refusal"
)

// CheckPlaces refuses a start that could not listen as the file says (listen_failed). It opens each address and closes
// it again.
func CheckPlaces(file string, places ...fields.Place) error {
	for _, p := range places {
		if err := checkPlace(p); err != nil {
			return refusal.New("listen_failed", "%s in %s: %w", p.Key, file, err)
		}
	}
	return nil
}

func checkPlace(p fields.Place) error {
	if p.Unix != "" {
		if _, err := os.Stat(filepath.Dir(p.Unix)); err != nil {
			return fmt.Errorf("the folder of the socket %s cannot be used (%w): make it, or name another", p.Unix,
				errors.Unwrap(err))
		}
		if _, err := isStale(p.Unix); err != nil {
			return err
		}
	}
	if p.Address == "" {
		return nil
	}
	l, err := net.Listen("tcp", p.Address)
	switch {
	case err == nil:
		return l.Close()
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("another process listens on %s: end it, or write another address", p.Address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("this machine does not have the address %s: write one that it has", p.Address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf(
			"this user may not listen on %s: write a port from 1024 on, or give the process CAP_NET_BIND_SERVICE",
			p.Address)
	}
	return err
}

package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/actionproof/mediator/internal/files"
)

// CAFlag adds --ca to a command that speaks HTTPS to a server that the user names.
func CAFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "ca", "", "PEM certificates that sign the server's certificate, in place of the system's")
}

// Transport returns a transport that trusts the certificates in a file, or those of the system if ca is empty. It uses
// the proxy that the environment names.
func Transport(ca string) (*http.Transport, error) {
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if ca == "" {
		return t, nil
	}
	raw, err := files.Read(ca)
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s has no PEM certificate", ca)
	}
	return t, nil
}

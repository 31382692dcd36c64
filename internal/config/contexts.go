package config

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Client names the files with which an operator's commands connect to TCP endpoints. All but the token's are PEM.
type Client struct {
	File `yaml:"-"`

	// Certificate is your certificate with its chain.
	Certificate string `yaml:"certificate" is:"public"`
	// Key is its key.
	Key string `yaml:"key" is:"secret"`
	// TokenFile holds a token of `admin.tokens`, instead of certificate and key.
	TokenFile string `yaml:"tokenFile" is:"secret"`
	// Authorities certify the processes.
	Authorities string `yaml:"authorities" is:"public" need:"yes"`
	// Name is the DNS name or SPIFFE id that the certificate at HOST:PORT must have. Default: HOST.
	Name string `yaml:"name"`
}

func (c *Client) checkAll(f *findings) {
	if (c.Certificate == "" || c.Key == "") == (c.TokenFile == "" || c.Certificate+c.Key != "") {
		f.Add("certificate", "is required together with key, or else tokenFile alone")
	}
	if c.Name != "" {
		checkName("name", c.Name, f)
	}
}

// Contexts says where an operator's commands find the processes of deployments.
type Contexts struct {
	File `yaml:"-"`

	// Current is the context that commands use.
	Current string `yaml:"current" need:"yes"`
	// Contexts are the deployments.
	Contexts []Context `yaml:"contexts" need:"yes"`
}

// Context names the endpoints of one deployment.
type Context struct {
	// Name is the context's name.
	Name string `yaml:"name" need:"yes" unique:"name"`
	// Client is an operator's client file, for https.
	Client string `yaml:"client" is:"path"`
	// Admin is the sidecar's `admin`: unix:PATH or https://HOST:PORT.
	Admin string `yaml:"admin" need:"yes"`
	// Trigger is the trigger service's `internal`.
	Trigger string `yaml:"trigger"`
	// Control is the control plane's `internal`.
	Control string `yaml:"control"`
	// Reputation is the node's `internal`.
	Reputation string `yaml:"reputation"`
}

// Named returns those of some endpoints of the context that it names, with the client's file.
func (c *Context) Named(endpoints ...string) (all []string) {
	for _, at := range endpoints {
		if strings.HasPrefix(at, "https://") {
			at += "," + c.Client
		}
		if at != "" {
			all = append(all, at)
		}
	}
	return all
}

// All returns all endpoints that the context names. A reload goes in this order, the sidecar's last.
func (c *Context) All() []string { return c.Named(c.Control, c.Trigger, c.Reputation, c.Admin) }

func (c *Context) Check(key string, f *findings) {
	for name, at := range map[string]string{"admin": c.Admin, "trigger": c.Trigger, "control": c.Control,
		"reputation": c.Reputation} {
		if at == "" {
			continue
		}
		peer, file, ok := SplitEndpoint(at)
		switch {
		case !ok || file != "" || peer.Unix != "" && !filepath.IsAbs(peer.Unix):
			f.Add(key+"."+name, "%q is neither unix:PATH, with an absolute path, nor https://HOST:PORT", at)
		case peer.TCP != "" && c.Client == "":
			f.Add(key+".client", "is required for %s: it has your certificate or token", at)
		}
	}
}

func (c *Contexts) checkAll(f *findings) {
	if c.Current != "" && !slices.ContainsFunc(c.Contexts, func(of Context) bool { return of.Name == c.Current }) {
		f.Add("current", "no context has the name %.80q", c.Current)
	}
}

// CurrentContext returns the current context of the user's file, ~/.config/mediator/contexts.yaml, or nil if there is
// no such file.
func CurrentContext() (*Context, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, nil //nolint:nilerr // a user without a home has no contexts
	}
	c, err := Load[Contexts](filepath.Join(dir, "mediator", "contexts.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range c.Contexts {
		if c.Contexts[i].Name == c.Current {
			return &c.Contexts[i], nil
		}
	}
	return nil, nil // not after the checks
}

// SplitEndpoint parses an endpoint on a command line: unix:PATH, unix:PATH,UID or https://HOST:PORT,FILE, where file is
// a [Client] and may be left out.
func SplitEndpoint(s string) (at Peer, file string, ok bool) {
	if path, isUnix := strings.CutPrefix(s, "unix:"); isUnix {
		before, number, _ := strings.Cut(path, ",")
		if n, err := strconv.ParseUint(number, 10, 32); err == nil {
			uid := uint32(n)
			return Peer{Unix: before, UID: &uid}, "", before != ""
		}
		return Peer{Unix: path}, "", path != ""
	}
	address, isTCP := strings.CutPrefix(s, "https://")
	address, file, _ = strings.Cut(address, ",")
	_, port, err := net.SplitHostPort(address)
	return Peer{TCP: address}, file, isTCP && err == nil && port != ""
}

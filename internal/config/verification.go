package config

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/proxy/forward"
	"github.com/actionproof/mediator/reputation/verification"
)

// Verification offers the verification of agents over MCP, at the path /mcp of both addresses of the node.
type Verification struct {
	// Mode is observed (checks rest on the node's own record) or seed (also on the trace that the agent submits).
	Mode string `yaml:"mode" one:"observed seed"`
	// Tasks is a JSON file of tasks, used in turn. Default: the built-in tasks.
	Tasks string `yaml:"tasks" is:"path"`
	// Hosts are the host names of `public`. Requests to other names are refused, unless they use an IP address or come
	// through a sidecar.
	Hosts []string `yaml:"hosts"`
	// Servers are the MCP servers that the tool list_mcp_servers names.
	Servers []ListedServer `yaml:"servers"`
	// XRay names servers that judge agents.
	XRay XRay `yaml:"xray"`

	// TaskList is what Tasks holds; empty without Tasks.
	TaskList []verification.Task `yaml:"-" of:"tasks"`
}

// ListedServer is an MCP server that agents can look up.
type ListedServer struct {
	// Name is the server's name.
	Name string `yaml:"name" need:"yes"`
	// Role is its purpose, in a few words.
	Role string `yaml:"role"`
	// URL is its endpoint.
	URL string `yaml:"url"`
}

// XRay names three MCP servers. A server that does not answer within five seconds is skipped, and the result of the
// verification reports this.
type XRay struct {
	// Orchestrate is the server with the tool orchestrate-task.
	Orchestrate *XRayServer `yaml:"orchestrate"`
	// Govern is the server with the tool govern_proposals, which can reject an agent or shorten its verification.
	Govern *XRayServer `yaml:"govern"`
	// Enforce is the server with the tool codex-enforcement, which scores the agent's reasoning.
	Enforce *XRayServer `yaml:"enforce"`
}

// XRayServer is one server of the xray bridge.
type XRayServer struct {
	// URL is the server's https URL; http is allowed at a loopback address.
	URL string `yaml:"url" need:"yes"`
	// CA is a PEM file of authorities for the server's certificate, besides the system's.
	CA string `yaml:"ca" is:"path"`
	// TokenFile holds the server's token.
	TokenFile string `yaml:"tokenFile" is:"path"`
	// Header, such as X-Api-Key, carries the bare token. Default: Authorization, with the prefix Bearer.
	Header string `yaml:"header"`

	// RootCAs are the authorities of CA and of the system; nil means the system's alone.
	RootCAs *x509.CertPool `yaml:"-"`
	// Token is the content of TokenFile.
	Token string `yaml:"-" of:"tokenFile"`
}

const (
	maxListed    = 256 // servers that one answer names
	minXRayToken = 8   // bytes
)

// Configured returns the servers that are configured, by the names of their gates.
func (x XRay) Configured() map[string]*XRayServer {
	servers := make(map[string]*XRayServer)
	for gate, s := range map[string]*XRayServer{
		verification.GateOrchestrate: x.Orchestrate, verification.GateGovern: x.Govern, verification.GateEnforce: x.Enforce,
	} {
		if s != nil {
			servers[gate] = s
		}
	}
	return servers
}

func (v *Verification) check(key string, f *findings) {
	if v.Tasks != "" {
		raw, err := files.Read(v.Tasks)
		if err == nil {
			v.TaskList, err = verification.ParseTasks(raw)
		}
		if err != nil {
			f.Add(key+".tasks", "%v", err)
		}
	}
	for i, host := range v.Hosts {
		if v.Hosts[i] = strings.ToLower(host); host == "" || strings.ContainsAny(host, ":/ ") {
			f.Add(fmt.Sprintf("%s.hosts[%d]", key, i), "%q is not a host name; write it without scheme and port", host)
		}
	}
	if len(v.Servers) > maxListed {
		f.Add(key+".servers", "there are %d; at most %d are allowed", len(v.Servers), maxListed)
	}
}

func (s *XRayServer) check(key string, f *findings) {
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		bad := err != nil || u.Host == "" || u.User != nil ||
			u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname()))
		switch {
		case bad && strings.Contains(s.URL, "@"): // the text before the @ can be a password
			f.Add(key+".url", "is no https URL, or names a user: leave the user out, and put a token in tokenFile")
		case bad:
			f.Add(key+".url", "%q is no https URL: plain text could be changed on the way", s.URL)
		}
	}
	if s.CA != "" {
		s.RootCAs = readCA(key+".ca", s.CA, f)
	}
	if s.Header != "" {
		if err := forward.CheckCredentialHeader(s.Header); err != nil {
			f.Add(key+".header", "%v", err)
		}
		if s.TokenFile == "" {
			f.Add(key+".header", "has no meaning without a tokenFile")
		}
	}
	if s.TokenFile != "" {
		s.Token = readSecret(key+".tokenFile", s.TokenFile, minXRayToken, f)
	}
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}

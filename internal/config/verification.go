package config

import (
	"fmt"
	"strings"

	"github.com/actionproof/mediator/internal/config/remote"
	"github.com/actionproof/mediator/internal/files"
	"github.com/actionproof/mediator/reputation/verification"
)

// Verification offers the verification of agents over MCP, at the path /mcp of both addresses of the node.
type Verification struct {
	// Mode is observed (checks rest on the node's own record) or seed (also on the trace that the agent submits).
	Mode string `yaml:"mode" one:"observed seed"`
	// Tasks is a JSON file of tasks, used in turn. Default: the built-in tasks.
	Tasks string `yaml:"tasks" is:"public"`
	// Hosts are the host names of `public`. Other names are refused, except IP addresses and names used through a sidecar.
	Hosts []string `yaml:"hosts"`
	// Servers are the MCP servers that list_mcp_servers names.
	Servers []ListedServer `yaml:"servers" to:"256"`
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
	// Orchestrate has the tool orchestrate-task.
	Orchestrate *remote.XRayServer `yaml:"orchestrate"`
	// Govern has the tool govern_proposals, which can reject an agent or shorten its verification.
	Govern *remote.XRayServer `yaml:"govern"`
	// Enforce has the tool codex-enforcement, which scores the agent's reasoning.
	Enforce *remote.XRayServer `yaml:"enforce"`
}

func (v *Verification) Check(key string, f *findings) {
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
}

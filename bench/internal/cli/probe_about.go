package cli

import (
	"strings"
	"time"

	"hopbench/harness/hostinfo"
	"hopbench/transports/topo"
)

// probed is whose topology it is, and when and by what it was read: what a figure of it says beneath. Of a captured host only the tool is known.
type probed struct {
	Hostname       string `json:"hostname,omitempty"`
	Virtualisation string `json:"virtualisation,omitempty"` // as in the header of a result file
	Emulated       bool   `json:"emulated,omitempty"`       // in software: its rates are what its devices claim
	Read           string `json:"read,omitempty"`           // RFC 3339
	Tool           string `json:"tool"`
}

// toolName is this program with its version, as a document or a caption names it.
func toolName() string {
	tool, commit := toolVersion()
	return strings.TrimSpace("hopbench " + tool + " " + commit[:min(len(commit), 12)])
}

func probedBy(env *Env, h *topo.Host) probed {
	p := probed{Tool: toolName()}
	if !h.Live {
		return p
	}
	if env.Now != nil {
		p.Read = env.Now().UTC().Format(time.RFC3339)
	}
	// A host whose name cannot be read has none in the figure.
	if about, err := hostinfo.Read(); err == nil {
		p.Hostname, p.Virtualisation, p.Emulated = about.Hostname, about.Virtualisation, hostinfo.Emulated(about)
	}
	return p
}

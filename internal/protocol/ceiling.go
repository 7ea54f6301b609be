package protocol

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Ceiling bounds what sessions may ask for. Who starts a session cannot lift it. The zero
// value bounds nothing.
type Ceiling struct {
	// Sandbox is the largest sandbox mode: read-only or workspace-write.
	Sandbox string `json:"sandbox,omitempty"`
	// ApprovalPolicies are those that are allowed; empty means all.
	ApprovalPolicies []string `json:"approval_policies,omitempty"`
	// Credentials are the ways in which sessions may get the credential of their seed; empty means
	// all. A session without a seed is not bound by them.
	Credentials    []string `json:"credentials,omitempty"`
	NoHooks        bool     `json:"no_hooks,omitempty"`
	NoNetwork      bool     `json:"no_network,omitempty"`
	NoForwardAgent bool     `json:"no_forward_agent,omitempty"`
	// NoDir allows only work folders that Fairlead makes.
	NoDir bool `json:"no_dir,omitempty"`
	// NoExec is not of sessions: nobody may run commands on hosts.
	NoExec bool `json:"no_exec,omitempty"`
	// Hosts are labels that the host must have.
	Hosts map[string]string `json:"hosts,omitempty"`
}

// ApprovalPolicies are codex's approval policies.
var ApprovalPolicies = []string{"untrusted", "on-request", "never"}

const (
	maxCeilingLabels = 32
	maxCeilingText   = 4 << 10
)

// None reports whether c bounds nothing.
func (c Ceiling) None() bool {
	return (c.Sandbox == "" || c.Sandbox == FullAccess) && len(c.ApprovalPolicies)+len(c.Credentials)+len(c.Hosts) == 0 &&
		!c.NoHooks && !c.NoNetwork && !c.NoForwardAgent && !c.NoDir && !c.NoExec
}

// Check refuses what is not a ceiling.
func (c Ceiling) Check() error {
	if c.Sandbox != "" && !slices.Contains(sandboxes, c.Sandbox) {
		return fmt.Errorf("unknown sandbox %.40q: use one of %s", c.Sandbox, strings.Join(sandboxes, ", "))
	}
	for _, p := range c.ApprovalPolicies {
		if !slices.Contains(ApprovalPolicies, p) {
			return fmt.Errorf("unknown approval policy %.40q: use some of %s", p, strings.Join(ApprovalPolicies, ", "))
		}
	}
	for _, way := range c.Credentials {
		if !slices.Contains(Ways, way) {
			return fmt.Errorf("unknown credentials %.40q: use some of %s", way, strings.Join(Ways, ", "))
		}
	}
	size := 0
	//workflowcheck:ignore // a sum does not depend on the order
	for k, v := range c.Hosts {
		size += len(k) + len(v)
	}
	if len(c.Hosts) > maxCeilingLabels || len(c.ApprovalPolicies) > len(ApprovalPolicies) || len(c.Credentials) > len(Ways) || size > maxCeilingText {
		return fmt.Errorf("it is too large: %d labels of %d bytes, %d approval policies, %d ways of credentials", len(c.Hosts), size, len(c.ApprovalPolicies), len(c.Credentials))
	}
	return nil
}

// sandboxes are in the order of what they allow.
var sandboxes = []string{ReadOnly, WorkspaceWrite, FullAccess}

// SessionAsks is what a session asks for, as its workflow says. Host is where it is, or
// where it is about to be.
type SessionAsks struct {
	Sandbox        string            `json:"sandbox"`
	ApprovalPolicy string            `json:"approval_policy"`
	Profile        string            `json:"profile,omitempty"`
	Write          []string          `json:"write,omitempty"`
	Network        string            `json:"network,omitempty"`
	Hooks          []string          `json:"hooks,omitempty"` // their names
	ForwardAgent   bool              `json:"forward_agent,omitempty"`
	Dir            string            `json:"dir,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"` // of the host, set by people
	Seed           string            `json:"seed,omitempty"`
	SeedCeiling    *Ceiling          `json:"seed_ceiling,omitempty"`
	// Credentials says how the session gets the seed's credential; empty means planted.
	Credentials string `json:"credentials,omitempty"`
	// Unsaid says that neither the session nor its seed says how, so that the default of the
	// organisation counts.
	Unsaid bool `json:"unsaid,omitempty"`
}

// Exceeds names the first option that is above c, and what c allows; or it is "".
func (c Ceiling) Exceeds(a SessionAsks) string {
	most := slices.Index(sandboxes, c.Sandbox)
	if c.Sandbox == "" {
		most = slices.Index(sandboxes, FullAccess)
	}
	bounded := most < slices.Index(sandboxes, FullAccess)
	mode := slices.Index(sandboxes, a.Sandbox)
	switch {
	case bounded && a.Sandbox == ByProfile:
		return fmt.Sprintf("--profile %s may allow more than --sandbox %s, the largest", a.Profile, c.Sandbox)
	case bounded && (mode < 0 || mode > most):
		return fmt.Sprintf("--sandbox %s is more than %s, the largest", a.Sandbox, c.Sandbox)
	case bounded && len(a.Write) > 0:
		return fmt.Sprintf("--write %s is more than --sandbox %s, the largest", a.Write[0], c.Sandbox)
	case len(c.ApprovalPolicies) > 0 && !slices.Contains(c.ApprovalPolicies, a.ApprovalPolicy):
		return fmt.Sprintf("--approval-policy %s is not one of %s", a.ApprovalPolicy, strings.Join(c.ApprovalPolicies, ", "))
	case len(c.Credentials) > 0 && a.Seed != "" && !slices.Contains(c.Credentials, cmp.Or(a.Credentials, CredentialsPlanted)):
		return fmt.Sprintf("--credentials %s is not one of %s", cmp.Or(a.Credentials, CredentialsPlanted), strings.Join(c.Credentials, ", "))
	case c.NoHooks && len(a.Hooks) > 0:
		return fmt.Sprintf("hooks are not allowed (--hooks: %s)", a.Hooks[0])
	case c.NoNetwork && a.Network != "" && a.Network != NetworkOff:
		return fmt.Sprintf("the network is not allowed (--network %s)", a.Network)
	case c.NoNetwork && (a.Sandbox == FullAccess || a.Sandbox == ByProfile || mode < 0):
		return fmt.Sprintf("the network is not allowed, and --sandbox %s does not keep commands from it", a.Sandbox)
	case c.NoForwardAgent && a.ForwardAgent:
		return "the worker's SSH agent is not lent (--forward-agent)"
	case c.NoDir && a.Dir != "":
		return fmt.Sprintf("only work folders that Fairlead makes are allowed (--dir %s)", a.Dir)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Hosts)) {
		if have, ok := a.Labels[k]; !ok || have != c.Hosts[k] {
			return fmt.Sprintf("host %s does not have the label %s=%s", a.Host, k, c.Hosts[k])
		}
	}
	return ""
}

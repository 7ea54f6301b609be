package protocol

// LocalHost is the name of this machine as a host.
const LocalHost = "local"

// HostSpec says how to reach a host. It is kept in workflow state and travels through Temporal,
// so it never holds a secret. Root is a path on the host; all other paths are on the
// worker.
type HostSpec struct {
	// Name is the host's name in the inventory; "local" is this machine.
	Name string `json:"name"`
	// Address is a DNS name or an IP address, without brackets or port.
	Address string `json:"address,omitempty"`
	// Port is the SSH port; 0 means 22.
	Port int `json:"port,omitempty"`
	// User is the login name; empty means the worker's own.
	User string `json:"user,omitempty"`
	// Identity is a private key file on the worker; empty means the agent
	// and the usual files in ~/.ssh.
	Identity string `json:"identity,omitempty"`
	// HostKeys pin the host: "type base64" as in known_hosts, or "SHA256:…".
	HostKeys []string `json:"host_keys,omitempty"`
	// KnownHosts is a known_hosts file on the worker, used if HostKeys is empty.
	KnownHosts string `json:"known_hosts,omitempty"`
	// Jump is the host to go through, itself pinned; nil means a direct connection.
	Jump *HostSpec `json:"jump,omitempty"`
	// Root is the folder on the host that holds all our files. Empty means ".fairlead"
	// below the user's home.
	Root string `json:"root,omitempty"`
}

// A HostKey is a key that a host shows.
type HostKey struct {
	Type        string `json:"type"`
	Fingerprint string `json:"fingerprint"` // SHA256:…
	Key         string `json:"key"`         // "type base64", as in known_hosts
}

package protocol

import (
	"time"
)

// LocalHost is the worker's own machine as a host.
const LocalHost = "local"

// HostSpec says how to reach a host. It travels through Temporal, so it never holds a
// secret. Root is a path on the host, all other paths are on the worker.
type HostSpec struct {
	// Name is the host's name in the inventory, or LocalHost.
	Name string `json:"name"`
	// Address is a DNS name or an IP address, without brackets or port.
	Address string `json:"address,omitempty"`
	// Port 0 means 22.
	Port int `json:"port,omitempty"`
	// User is the login name; default the worker's own.
	User string `json:"user,omitempty"`
	// Identity is a private key file; empty means the agent and the usual files in ~/.ssh.
	Identity string `json:"identity,omitempty"`
	// HostKeys pin the host: "type base64" or "SHA256:…".
	HostKeys []string `json:"host_keys,omitempty"`
	// KnownHosts is a known_hosts file, used if HostKeys is empty.
	KnownHosts string    `json:"known_hosts,omitempty"`
	Jump       *HostSpec `json:"jump,omitempty"`
	// Root is the root folder; default ~/.fairlead.
	Root string `json:"root,omitempty"`
}

// A HostKey is a key that a host shows.
type HostKey struct {
	Type        string `json:"type"`
	Fingerprint string `json:"fingerprint"` // SHA256:…
	Key         string `json:"key"`         // "type base64"
}

// A Claim names the session for which an activity acts on a host. With the activity's
// attempt it becomes the epoch.
type Claim struct {
	Session    string   `json:"session"`
	Host       HostSpec `json:"host"`
	Generation int64    `json:"generation"`
	Pump       int64    `json:"pump"`
	// Told says that codex was given secret answers, which the store keeps so that they can
	// be redacted.
	Told bool `json:"told,omitempty"`
}

// SeedRef names one generation of a seed. The bundle is only ever in the store (encrypted)
// and on the host (0600).
type SeedRef struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Blob       string `json:"blob"`
	Digest     string `json:"digest"` // of the manifest
	Kind       string `json:"kind"`
	// Epoch is that of the session's lease; 0 means none.
	Epoch int64 `json:"epoch,omitempty"`
}

// SeedFile describes one file of a seed.
type SeedFile struct {
	Path   string `json:"path"`
	Mode   string `json:"mode"`
	Digest string `json:"digest"`
}

// VerifySeed requests a verification. A person sets Force: then the issuer is asked even if
// the refresh token may be spent.
type VerifySeed struct {
	Commanded
	Force bool   `json:"force,omitempty"`
	By    string `json:"by,omitempty"`
}

// HostLost says that a host could not be reached for longer than allowed.
type HostLost struct {
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// HostAway says that a host cannot be reached, or sends too much.
type HostAway struct {
	Host    string  `json:"host"`
	Problem Problem `json:"problem"`
}

// HostBack says that a host can be reached again.
type HostBack struct {
	Host string `json:"host"`
}

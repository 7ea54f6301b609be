package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"fairlead.dev/fairlead/internal/config"
)

// Info is stack.json: how to reach a local stack. It contains no secret.
type Info struct {
	Temporal Temporal `json:"temporal"`
	Workers  []Worker `json:"workers"`
	Store    Store    `json:"store"`
	Identity string   `json:"identity"` // age identity file
	// NewIdentity means that this start made the identity; the user must be told.
	NewIdentity bool `json:"new_identity,omitempty"`
	// Certificates are what a client of the server needs; nil if the stack is of an earlier
	// version, whose server asks for none. CLI is a file for TEMPORAL_CONFIG_FILE, with which
	// Temporal's own programs reach this stack. Login is the key file of the UI's one-time
	// links.
	Certificates *Certificates `json:"certificates,omitempty"`
	CLI          string        `json:"cli,omitempty"`
	Login        string        `json:"login,omitempty"`
	// Console is the address of the console, and ConsoleKey the key file of its one-time links.
	// Both are empty if the stack is of an earlier version, or has no worker.
	Console    string `json:"console,omitempty"`
	ConsoleKey string `json:"console_key,omitempty"`
	// PayloadKey is the file of the keys that encrypt Temporal's payloads, and
	// NewPayloadKey means that this start made it. CodecEndpoint is the URL that decodes
	// payloads for Temporal's UI and CLI, or empty.
	PayloadKey    string `json:"payload_key"`
	NewPayloadKey bool   `json:"new_payload_key,omitempty"`
	CodecEndpoint string `json:"codec_endpoint,omitempty"`
	// PayloadsSince is the time before which workflows may have older payloads; zero if
	// the state folder was made by a version that encrypts payloads for their place.
	PayloadsSince time.Time `json:"payloads_since,omitzero"`
	// CodexSource is the folder of the codex that is copied to hosts.
	CodexSource string `json:"codex_source"`
	// Children are the processes, the server first.
	Children   []Process `json:"children"`
	Supervisor int       `json:"supervisor_pid"`
	Version    string    `json:"version"`
	StartedAt  time.Time `json:"started_at"`
}

// Certificates are names of PEM files. Cert and Key may be the same file.
type Certificates struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// TLS returns the files as a config has them, or nil.
func (i *Info) TLS() *config.TLS { return i.Certificates.tls() }

func (c *Certificates) tls() *config.TLS {
	if c == nil {
		return nil
	}
	return &config.TLS{CA: c.CA, Cert: c.Cert, Key: c.Key}
}

// Temporal is the embedded server.
type Temporal struct {
	Address   string `json:"address"`
	Namespace string `json:"namespace"`
	UI        string `json:"ui"`
	PID       int    `json:"pid"`
	Version   string `json:"version"`
}

// A Worker is one of the stack's workers.
type Worker struct {
	Name       string   `json:"name"` // worker, worker-2, …
	Identity   string   `json:"identity"`
	PID        int      `json:"pid"`
	API        string   `json:"api"` // unix:///path
	TaskQueues []string `json:"task_queues"`
	Version    string   `json:"version"`
	Codex      string   `json:"codex"`
}

// Store is where blobs are kept.
type Store struct {
	URL string `json:"url"`
	ID  string `json:"id"`
}

// ErrNone means that no stack runs in the state folder.
var ErrNone = errors.New("no stack here")

// Read reads the stack.json of a state folder, or returns ErrNone.
func Read(dir string) (*Info, error) {
	path := filepath.Join(dir, "stack.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("read the stack's state: %w", err)
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return nil, fmt.Errorf("read the stack's state: %s: %w (run `ctl down`, then `ctl up`)", path, err)
	}
	return &info, nil
}

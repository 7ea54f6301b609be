package seeds

import (
	"context"
	"errors"

	"fairlead.dev/fairlead/hostexec"
)

// ErrNotWiped: after Wipe a credential is still on the host, or we cannot know.
var ErrNotWiped = errors.New("credentials are not proven gone")

// ErrNotPlanted: what is on the host is not what was written.
var ErrNotPlanted = errors.New("seed is not on the host as it should be")

// PlantSpec says what goes where.
type PlantSpec struct {
	// CodexHome is the session's own CODEX_HOME on the host, absolute.
	CodexHome string
	// Within is the session's folder; CodexHome must lie below it.
	Within string
	// Bundle is the seed; nil plants our part of config.toml alone.
	Bundle *Bundle
	// Sandbox is read-only, workspace-write or danger-full-access.
	Sandbox string
	// WorkDir is trusted in config.toml, so that codex asks nobody.
	WorkDir string
	// Fence guards every write.
	Fence *hostexec.Fence
}

// Planted says what is on the host now.
type Planted struct {
	// Permissions is the profile to start and resume threads with; empty
	// for danger-full-access: then name the sandbox instead.
	Permissions string `json:"permissions,omitempty"`
	// Files are what was planted, by the digests that were read back.
	Files []FileInfo `json:"files"`
	// Skipped are settings of ours that the owner's config.toml leaves no
	// room for, or sets in another way; the owner's way stands.
	Skipped []string `json:"skipped,omitempty"`
}

// Plant puts a seed into a CODEX_HOME on a host: the folder 0700, files 0600
// by temp and rename, verified by digest. Doing it again gives the same; it
// removes nothing that it did not plant.
func Plant(ctx context.Context, h hostexec.Host, spec PlantSpec) (Planted, error) { panic("pending") }

// Profile is the id of our permission profile for a sandbox: what to send as
// `permissions` in thread/start and thread/resume in place of `sandbox`. It is
// empty for danger-full-access, which no profile can confine.
func Profile(sandbox string) string { panic("pending") }

// Wipe removes the credentials from a CODEX_HOME and looks again: nil means
// that none was found afterwards. Where the answer did not come back the error
// wraps ErrNotWiped; wiping again is safe.
func Wipe(ctx context.Context, h hostexec.Host, codexHome, within string, fence *hostexec.Fence) error {
	panic("pending")
}

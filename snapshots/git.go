package snapshots

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// The policy git keeps commits, tags and stashes that no remote-tracking ref reaches, and
// the state of the work tree (index, refs, HEAD, a merge or rebase in progress, files that
// are untracked or differ from the index). It does not keep ignored files, mtimes, and
// empty folders that git ignores. Upstream means the remotes that another host can reach by
// the same URL, so a clone of a local folder has none.
//
// Without git, a repository or an upstream, and with submodules, further work trees,
// partial clones, filters such as those of LFS, or more changes and refs than maxGitState,
// the policy is full, and the manifest says why.
//
// The tree Git contains a pack, the index, a few files of .git, and a gitState. The tree
// Work contains the files that differ. A restore fetches the rest from upstream, writes the
// files of the index, and copies Work over them. Then it compares HEAD, refs, stashes,
// index and status with the original ones.

// Git is the name of the tree with a repository's own data.
const Git = "git"

var (
	//go:embed git_env.sh
	gitEnv string
	//go:embed git_probe.sh
	gitProbe string
	//go:embed git_pack.sh
	gitPack string
	//go:embed git_restore.sh
	gitRestore string
)

const (
	exitNoGit = 60 // the host has no git
	exitGone  = 63 // files that were prepared are gone
)

// errCrossed means that another attempt removed or replaced files that this one had
// prepared.
var errCrossed = errors.New("another attempt to take a snapshot changed the files prepared for the git repository (try again)")

const stateFile = "state.json"

const gitFormat = 2

// A gitState, with objects and files, rebuilds a repository. Texts are bytes, because names
// of refs and files need not be UTF-8.
type gitState struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	Objects string `json:"objects"` // sha1 or sha256
	Pack    string `json:"pack"`
	Dotgit  string `json:"dotgit"` // folder in the tree for unchanged files of .git
	Config  []byte `json:"config"` // the kept part of .git/config
	// Dropped are settings that may hold a credential or name a program.
	Dropped []string    `json:"dropped,omitempty"`
	Remotes []gitRemote `json:"remotes"` // upstream
	// Heads are further objects that must exist after a restore, of stashes and of a merge
	// or rebase.
	Heads   []byte `json:"heads,omitempty"`
	Deleted []byte `json:"deleted,omitempty"` // tracked files to delete before Work is copied; each ends in NUL
	// The original state.
	gitReport
}

type gitRemote struct {
	Name string `json:"name"`
	URL  string `json:"url"` // without a credential
}

type gitReport struct {
	Head   []byte `json:"head"`
	Refs   []byte `json:"refs"`
	Stash  []byte `json:"stash"`
	Staged []byte `json:"staged"` // hash of the index's content
	Status []byte `json:"status"`
}

// An UpstreamError means that a remote lacks objects that a snapshot expects there.
type UpstreamError struct {
	Remote, URL string
	Host        string
	Why         string
}

func (e *UpstreamError) Error() string {
	return fmt.Sprintf("host %s cannot fetch objects that the snapshot needs from remote %s (%s): %s; make the remote reachable from the host, restore on another host, or take snapshots with --snapshot full",
		e.Host, e.Remote, e.URL, strings.TrimSpace(e.Why))
}

// ErrGit means that a repository cannot be restored as it was.
var ErrGit = errors.New("the git repository cannot be restored to its state in the snapshot")

// A GitSecretError means that commits that only the host has contain a secret. Overwriting
// it would change their hashes.
type GitSecretError struct{ Host string }

func (e *GitSecretError) Error() string {
	return fmt.Sprintf("the git repository on host %s has a known secret in a commit, stash, staged file or name that no remote has, and it cannot be overwritten there: remove the secret from the repository, or take snapshots with --snapshot none", e.Host)
}

func gitScript(ctx context.Context, h hostexec.Host, script string, fence *hostexec.Fence, args ...string) (hostexec.Stream, error) {
	return h.Start(ctx, hostexec.Command{Script: gitEnv + script, Args: args, Bulk: true, Fence: fence, FenceAtStart: fence != nil})
}

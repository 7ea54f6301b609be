package snapshots

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// The policy git keeps what upstream does not have: commits, tags and stashes that no
// remote-tracking ref reaches. It also keeps the state of the work tree: the index, the
// refs, HEAD, a merge or rebase in progress, and files that are untracked or differ from
// the index. It does not keep ignored files, mtimes, and empty folders that git ignores.
// Upstream means the remotes that another host can reach by the same URL. A clone of a
// local folder has no upstream.
//
// In some cases that would not cover everything: without git, a repository or an upstream,
// and with submodules, further work trees, partial clones, or filters such as those of LFS.
// Then the policy is full, and the manifest says why.
//
// The policy makes two trees. The tree Git contains a pack, the index and a few files of
// .git as git wrote them, and a gitState. The tree Work contains the files that differ. A
// restore fetches the objects that upstream has, unpacks the pack, writes the files of the
// index, and copies Work over them. Then it compares HEAD, refs, stashes, index and status
// with the original ones.

// Git is the name of the tree that holds a repository's own data.
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

// Exit statuses of our scripts.
const (
	exitNoGit = 60 // the host has no git
	exitGone  = 63 // files that were prepared before are gone
)

// errCrossed means that another attempt worked in our folder on the host, and removed or
// replaced files that this attempt had prepared there.
var errCrossed = errors.New("another attempt to keep the same git repository came between (try again)")

const stateFile = "state.json"

const gitFormat = 2

// A gitState contains the data to rebuild a repository, except for objects and files. Texts
// are bytes, because names of refs and files need not be UTF-8.
type gitState struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of git
	Objects string `json:"objects"` // sha1 or sha256
	Pack    string `json:"pack"`    // file in the tree
	Dotgit  string `json:"dotgit"`  // folder in the tree: files of .git that are kept unchanged
	Config  []byte `json:"config"`  // the kept part of .git/config, as a config file
	// Dropped are settings that are not kept, because they may hold a credential or name a
	// program.
	Dropped []string    `json:"dropped,omitempty"`
	Remotes []gitRemote `json:"remotes"` // those of upstream
	// Heads are further objects that must exist after a restore: those of a merge or rebase
	// in progress, and stashes.
	Heads   []byte `json:"heads,omitempty"`
	Deleted []byte `json:"deleted,omitempty"` // tracked files to delete before Work is copied; each ends in NUL
	// The original state. A restore compares the new repository with it at the end.
	gitReport
}

// A gitRemote is a remote that another host could reach.
type gitRemote struct {
	Name string `json:"name"`
	URL  string `json:"url"` // without a credential
}

// A gitReport is the state of a repository.
type gitReport struct {
	Head   []byte `json:"head"`
	Refs   []byte `json:"refs"`
	Stash  []byte `json:"stash"`
	Staged []byte `json:"staged"` // a hash of the index's content
	Status []byte `json:"status"`
}

// An UpstreamError means that a remote does not have objects that a snapshot expects there.
type UpstreamError struct {
	Remote, URL string
	Host        string
	Why         string
}

func (e *UpstreamError) Error() string {
	return fmt.Sprintf("host %s does not get from remote %s (%s) what the snapshot leaves to it: %s; make the remote reachable from the host, restore on another one, or take snapshots with --snapshot full",
		e.Host, e.Remote, e.URL, strings.TrimSpace(e.Why))
}

// ErrGit means that a repository cannot be restored as it was.
var ErrGit = errors.New("the git repository cannot be made as it was")

// A GitSecretError means that commits that exist only on the host contain a secret.
// Overwriting it would change their hashes.
type GitSecretError struct{ Host string }

func (e *GitSecretError) Error() string {
	return fmt.Sprintf("a commit, stash, staged file or name in the git repository on %s that no remote has holds a known secret, which cannot be taken out of it: amend it there, or take snapshots with --snapshot none", e.Host)
}

func gitScript(ctx context.Context, h hostexec.Host, script string, fence *hostexec.Fence, args ...string) (hostexec.Stream, error) {
	return h.Start(ctx, hostexec.Command{Script: gitEnv + script, Args: args, Bulk: true, Fence: fence, FenceAtStart: fence != nil})
}

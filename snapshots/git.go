package snapshots

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// The policy git keeps of a work folder what git does not have upstream, and
// the state of the tree: the commits, tags and stashes that no remote-tracking
// ref reaches, what is staged, the refs, HEAD, a merge or rebase in progress,
// and the files that differ from the index or are not tracked. What git ignores
// is left out, and so are mtimes and empty folders that git ignores. Upstream
// are remotes that another host could reach by the same URL; a clone of a
// folder has none.
//
// Where that would not be all of it, the policy is full, and the manifest says
// why: no git, no repository, no upstream, submodules, further work trees,
// partial clones, filters such as those of LFS.
//
// It is made of two trees. Git holds a pack, the index and a few files of .git
// as git made them, and what to do with them (gitState). Work holds the files
// that differ. A restore fetches what upstream has, unpacks, writes the files
// of the index and lays those that differ over them; then it compares HEAD,
// refs, stashes, index and status with what they were.

// Git is the name of the tree that holds what git needs.
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

// How our scripts end.
const (
	exitNoGit = 60 // there is no git
	exitGone  = 63 // what was made before is gone
)

// errCrossed: another attempt was at work in our folder on the host, and tidied
// up what this one had made there, or put its own in the place.
var errCrossed = errors.New("another attempt to keep the same git repository came between (try again)")

// stateFile is the gitState in the tree Git.
const stateFile = "state.json"

// gitFormat is that of gitState.
const gitFormat = 2

// A gitState is what there is to know of a repository to make another one like
// it. Texts are bytes: names of refs and files need not be UTF-8.
type gitState struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of git
	Objects string `json:"objects"` // sha1 or sha256
	Pack    string `json:"pack"`    // file in the tree
	Dotgit  string `json:"dotgit"`  // folder in it: what is taken of .git as it is
	Config  []byte `json:"config"`  // the part of .git/config that is kept, as such a file
	// Dropped are settings that were not kept, since they may hold a
	// credential or name a program.
	Dropped []string    `json:"dropped,omitempty"`
	Remotes []gitRemote `json:"remotes"` // that are upstream
	// Heads are what must be there in the end beside the refs: of a merge or
	// rebase in progress, and stashes.
	Heads   []byte `json:"heads,omitempty"`
	Deleted []byte `json:"deleted,omitempty"` // tracked files that are to go before the others are laid over; each ends in NUL
	// What to compare with in the end.
	gitReport
}

// A gitRemote is one that another host could reach.
type gitRemote struct {
	Name string `json:"name"`
	URL  string `json:"url"` // without a credential
}

// A gitReport is the state of a repository.
type gitReport struct {
	Head   []byte `json:"head"`
	Refs   []byte `json:"refs"`
	Stash  []byte `json:"stash"`
	Staged []byte `json:"staged"` // a hash over what the index lists
	Status []byte `json:"status"`
}

// An UpstreamError says that what a snapshot leaves to a remote is not to be
// had from it.
type UpstreamError struct {
	Remote, URL string
	Host        string
	Why         string
}

func (e *UpstreamError) Error() string {
	return fmt.Sprintf("host %s does not get from remote %s (%s) what the snapshot leaves to it: %s; make the remote reachable from the host, restore on another one, or take snapshots with --snapshot full",
		e.Host, e.Remote, e.URL, strings.TrimSpace(e.Why))
}

// ErrGit is wrapped where a repository cannot be made as it was.
var ErrGit = errors.New("the git repository cannot be made as it was")

// A GitSecretError says that commits which only the host has hold a secret. It
// cannot be overwritten there: their hashes would be others.
type GitSecretError struct{ Host string }

func (e *GitSecretError) Error() string {
	return fmt.Sprintf("a commit, stash, staged file or name in the git repository on %s that no remote has holds a known secret, which cannot be taken out of it: amend it there, or take snapshots with --snapshot none", e.Host)
}

// gitScript runs one of ours.
func gitScript(ctx context.Context, h hostexec.Host, script string, fence *hostexec.Fence, args ...string) (hostexec.Stream, error) {
	return h.Start(ctx, hostexec.Command{Script: gitEnv + script, Args: args, Bulk: true, Fence: fence, FenceAtStart: fence != nil})
}

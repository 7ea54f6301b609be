package workspaces

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// A Workspace describes the work folder of a session, unless that is an empty folder or
// a person's folder on the host. A person chooses it, and it holds no secret.
type Workspace struct {
	// Repo is cloned into the work folder.
	Repo *Repo `json:"repo,omitempty"`
	// Snapshot is the snapshot whose work is restored there, without its conversation.
	// For --upload, the worker's API makes a snapshot of a local folder.
	Snapshot string `json:"snapshot,omitempty"`
	// Uploaded is the name of the local folder of which Snapshot was made.
	Uploaded string `json:"uploaded,omitempty"`
	Hooks    Hooks  `json:"hooks,omitzero"`
	// Keep leaves the work folder on the host when the session closes.
	Keep bool `json:"keep,omitempty"`
	// Timeout is the time limit for fetching a repository; 0 is 30 minutes.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// A Repo is a git repository, which git on the host fetches.
type Repo struct {
	// URL is https, http, ssh, user@host:path, or a path on the host. It holds
	// no password.
	URL string `json:"url"`
	// Ref is a branch, a tag or a commit; empty is the server's HEAD.
	Ref   string `json:"ref,omitempty"`
	Depth int    `json:"depth,omitempty"` // 0 is the whole history
	// Token is the blob of a sealed token for https. Only git gets the token, on a file
	// descriptor, and only for the server that URL names.
	Token string `json:"token,omitempty"`
	// User is the user name for the token; empty is x-access-token.
	User string `json:"user,omitempty"`
	// ForwardAgent lets git on the host use the keys of the worker's SSH agent for the
	// time of one command.
	ForwardAgent bool `json:"forward_agent,omitempty"`
	// KnownHosts are lines for ssh on the host, in addition to its own.
	KnownHosts string `json:"known_hosts,omitempty"`
}

// Hooks are shell scripts that run on the host, in the work folder and as the
// user of the host, outside of any sandbox.
type Hooks struct {
	// AfterCreate runs a single time, after the work folder got its content.
	AfterCreate string `json:"after_create,omitempty"`
	// BeforeRun runs each time before codex starts to work there.
	BeforeRun string `json:"before_run,omitempty"`
	// AfterRun runs each time after codex has stopped because the session parks or
	// closes.
	AfterRun string `json:"after_run,omitempty"`
	// BeforeRemove runs before the work folder is removed.
	BeforeRemove string `json:"before_remove,omitempty"`
	// Timeout is the time limit for each hook; 0 is a minute.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// The names of hooks.
const (
	HookAfterCreate  = "after_create"
	HookBeforeRun    = "before_run"
	HookAfterRun     = "after_run"
	HookBeforeRemove = "before_remove"
)

// Limits of a workspace's description, which is part of a session's options.
const (
	maxHook       = 16 << 10
	maxRepoURL    = 2 << 10
	maxRef        = 255
	maxKnownHosts = 16 << 10

	// HookTimeout is the time limit of a hook if none is set.
	HookTimeout = time.Minute
	// CloneTimeout is the time limit for fetching a repository if none is set.
	CloneTimeout = 30 * time.Minute
	maxWait      = 5 * time.Hour // preparing a host may take six
)

// Check refuses a workspace that cannot be made, or that would show a secret.
func (w Workspace) Check() error {
	if w.Repo != nil && w.Snapshot != "" {
		return errors.New("a repository and a snapshot: it can begin with one of them")
	}
	if w.Timeout < 0 || w.Timeout > maxWait {
		return fmt.Errorf("its time limit %v is none: at most %v", w.Timeout, maxWait)
	}
	if len(w.Uploaded) > maxRef || len(w.Snapshot) > maxRef {
		return fmt.Errorf("the name of what it begins with is longer than %d bytes", maxRef)
	}
	if w.Repo != nil {
		if err := w.Repo.check(); err != nil {
			return fmt.Errorf("repository: %w", err)
		}
	}
	return w.Hooks.check()
}

func (h Hooks) check() error {
	for _, hook := range []string{h.AfterCreate, h.BeforeRun, h.AfterRun, h.BeforeRemove} {
		if len(hook) > maxHook || strings.ContainsRune(hook, 0) {
			return fmt.Errorf("a hook has more than %d bytes, or a NUL byte in it", maxHook)
		}
	}
	if h.Timeout < 0 || h.Timeout > maxWait {
		return fmt.Errorf("the time limit of hooks, %v, is none: at most %v", h.Timeout, maxWait)
	}
	return nil
}

// IsZero reports whether there are no hooks.
func (h Hooks) IsZero() bool { return h == Hooks{} }

// scpLike matches user@host:path, for which git uses ssh.
var scpLike = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+@)?(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[^:].*$`)

func (r Repo) check() error {
	if err := CheckRepoURL(r.URL); err != nil {
		return err
	}
	if err := CheckRef(r.Ref); r.Ref != "" && err != nil {
		return err
	}
	switch {
	case r.Depth < 0:
		return errors.New("depth must not be negative")
	case len(r.KnownHosts) > maxKnownHosts:
		return fmt.Errorf("known hosts take %d bytes, at most %d", len(r.KnownHosts), maxKnownHosts)
	case r.Token != "" && !isOurToken(r.Token):
		return errors.New("its token is none that the worker's API gave")
	case len(r.User) > maxRef || strings.ContainsFunc(r.User, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }):
		return errors.New("the user name for the token is longer than 255 characters, or has others than plain ones")
	}
	if r.Token != "" {
		return CheckTokenURL(r.URL)
	}
	return nil
}

// loopbackURL reports whether text is an http URL of the host itself, so that nobody
// else can read the traffic.
func loopbackURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return false
	}
	switch u.Hostname() {
	case "localhost", "127.0.0.1", "::1":
		return true
	}
	return false
}

// CheckRepoURL refuses a text that git would not take as the address of a repository.
// It also refuses a URL with a password in it, because everybody would see the
// password.
func CheckRepoURL(text string) error {
	switch {
	case text == "":
		return errors.New("it has no URL")
	case len(text) > maxRepoURL:
		return fmt.Errorf("its URL has %d bytes, at most %d", len(text), maxRepoURL)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		return errors.New("its URL has a space or a control character in it")
	case strings.HasPrefix(text, "-"):
		return errors.New("its URL begins with a dash")
	case path.IsAbs(text):
		return nil
	}
	scheme, _, there := strings.Cut(text, "://")
	if !there {
		if scpLike.MatchString(text) {
			return nil
		}
		return fmt.Errorf("%q is neither a URL, nor user@host:path, nor an absolute path on the host", text)
	}
	u, err := url.Parse(text)
	if err != nil {
		return errors.New("its URL cannot be read") // the parser's error would repeat the URL
	}
	if _, secret := u.User.Password(); secret {
		return errors.New("its URL has a password in it, which everybody would see: give it as a token")
	}
	switch scheme {
	case "https", "http":
		if u.User != nil {
			return errors.New("its URL has a user in it, which may be a token, and everybody would see it: leave it out, and give the token apart")
		}
	case "ssh", "git", "file":
	default:
		return fmt.Errorf("scheme %q is none of https, http, ssh, git, file", scheme)
	}
	if u.Host == "" && scheme != "file" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("its URL names no host, or has more behind its path")
	}
	return nil
}

// CheckRef refuses a text that git does not take as a name, or takes as an option.
func CheckRef(ref string) error {
	bad := ref == "" || len(ref) > maxRef || strings.HasPrefix(ref, "-") || strings.HasPrefix(ref, "/") ||
		strings.HasSuffix(ref, "/") || strings.HasSuffix(ref, ".lock") || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "//") || strings.Contains(ref, "/.") || strings.HasPrefix(ref, ".") ||
		strings.Contains(ref, "@{") || ref == "@" ||
		strings.ContainsFunc(ref, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) })
	if bad {
		return fmt.Errorf("%q is no name of a branch, a tag or a commit", ref)
	}
	return nil
}

package workspaces

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// A Workspace describes a work folder that is neither empty nor a person's. A person
// chooses it; it holds no secret.
type Workspace struct {
	Repo *Repo `json:"repo,omitempty"`
	// Snapshot's work is restored, without the conversation. For --upload, the worker's API
	// makes it of a local folder.
	Snapshot string `json:"snapshot,omitempty"`
	// Uploaded is that folder's name.
	Uploaded string `json:"uploaded,omitempty"`
	Hooks    Hooks  `json:"hooks,omitzero"`
	// Keep leaves the work folder on the host at close.
	Keep bool `json:"keep,omitempty"`
	// Timeout limits fetching; 0 is CloneTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// A Repo is a git repository that the host fetches.
type Repo struct {
	// URL is https, http, ssh, user@host:path, or a path on the host, without a password.
	URL string `json:"url"`
	// Ref is a branch, tag or commit; empty is HEAD.
	Ref   string `json:"ref,omitempty"`
	Depth int    `json:"depth,omitempty"` // 0 is all
	// Token is the blob of a sealed token for https. Only git gets it, on a file
	// descriptor, and only for URL's server.
	Token string `json:"token,omitempty"`
	// User is the token's user; empty is x-access-token.
	User string `json:"user,omitempty"`
	// ForwardAgent lends git one key of the worker's SSH agent for one command, for logins to
	// URL's server alone.
	ForwardAgent bool `json:"forward_agent,omitempty"`
	// AgentKey is that key's fingerprint, SHA256:… It may be empty if the agent has one key.
	AgentKey string `json:"agent_key,omitempty"`
	// KnownHosts are additional lines for ssh. They also say to which server the agent is
	// lent.
	KnownHosts string `json:"known_hosts,omitempty"`
}

// Hooks are shell scripts that run in the work folder as the host's user, outside of any
// sandbox.
type Hooks struct {
	// AfterCreate runs once, after the first content.
	AfterCreate string `json:"after_create,omitempty"`
	// BeforeRun runs before each start of codex.
	BeforeRun string `json:"before_run,omitempty"`
	// AfterRun runs each time after codex has stopped to park or close.
	AfterRun     string `json:"after_run,omitempty"`
	BeforeRemove string `json:"before_remove,omitempty"`
	// Timeout limits each hook; 0 is HookTimeout.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// Names of hooks.
const (
	HookAfterCreate  = "after_create"
	HookBeforeRun    = "before_run"
	HookAfterRun     = "after_run"
	HookBeforeRemove = "before_remove"
)

// A workspace is part of a session's options, so it is limited.
const (
	maxHook       = 16 << 10
	maxRepoURL    = 2 << 10
	maxRef        = 255
	maxKnownHosts = 16 << 10

	// HookTimeout is the default of Hooks.Timeout.
	HookTimeout = time.Minute
	// CloneTimeout is the default of Workspace.Timeout.
	CloneTimeout = 30 * time.Minute
	maxWait      = 5 * time.Hour // preparing a host may take six
)

// Check refuses a workspace that cannot be made or would show a secret.
func (w Workspace) Check() error {
	if w.Repo != nil && w.Snapshot != "" {
		return errors.New("both a repository and a snapshot are given for the work folder: give only one")
	}
	if w.Timeout < 0 || w.Timeout > maxWait {
		return fmt.Errorf("the time limit %v for fetching the work folder's content is invalid: want 0 to %v", w.Timeout, maxWait)
	}
	if len(w.Uploaded) > maxRef || len(w.Snapshot) > maxRef {
		return fmt.Errorf("the name of the snapshot or folder that the work folder begins with is longer than %d bytes", maxRef)
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
		return fmt.Errorf("the time limit %v for hooks is invalid: want 0 to %v", h.Timeout, maxWait)
	}
	return nil
}

// IsZero reports whether no hook is set.
func (h Hooks) IsZero() bool { return h == Hooks{} }

// scpLike matches user@host:path.
var scpLike = regexp.MustCompile(`^(?:[A-Za-z0-9._-]+@)?(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):[^:].*$`)

// fingerprint matches what ssh-add -l prints of a key.
var fingerprint = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

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
	case r.AgentKey != "" && !fingerprint.MatchString(r.AgentKey):
		return fmt.Errorf("%q is not the fingerprint of a key: want SHA256: and 43 characters, as ssh-add -l prints", r.AgentKey)
	case r.Token != "" && !isOurToken(r.Token):
		return errors.New("the key of its token was not issued by the worker's API")
	case len(r.User) > maxRef || strings.ContainsFunc(r.User, func(c rune) bool { return c <= ' ' || c > '~' || c == '\\' }):
		return errors.New("the user name for the token must be at most 255 printable ASCII characters, without spaces and \\")
	}
	if r.Token != "" {
		return CheckTokenURL(r.URL)
	}
	return nil
}

// SSHServer returns the server that an ssh URL names, as host:port, and its user, who may be
// empty. It fails for other URLs.
func SSHServer(text string) (user, address string, err error) {
	none := fmt.Errorf("%q is no URL of an ssh server", text)
	if path.IsAbs(text) {
		return "", "", none
	}
	if scheme, _, there := strings.Cut(text, "://"); there {
		u, err := url.Parse(text)
		if err != nil || scheme != "ssh" || u.Hostname() == "" {
			return "", "", none
		}
		return u.User.Username(), net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "22")), nil
	}
	if !scpLike.MatchString(text) {
		return "", "", none
	}
	before, at, named := strings.Cut(text, "@")
	if !named || strings.ContainsAny(before, ":/") { // an @ of the path
		before, at = "", text
	}
	host, _, _ := strings.Cut(at, ":")
	if rest, literal := strings.CutPrefix(at, "["); literal {
		host, _, _ = strings.Cut(rest, "]")
	}
	return before, net.JoinHostPort(host, "22"), nil
}

// loopbackURL reports whether text is http on the host itself, where nobody else reads the
// traffic.
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

// CheckRepoURL refuses what git does not take, and a password, which everybody would see.
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
		return errors.New("its URL cannot be read") // err would repeat the URL
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
		return fmt.Errorf("unknown scheme %q: use https, http, ssh, git or file", scheme)
	}
	if u.Host == "" && scheme != "file" || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("its URL has no host, or has a query or fragment (? or #)")
	}
	return nil
}

// CheckRef refuses what git does not take as a name, or takes as an option.
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

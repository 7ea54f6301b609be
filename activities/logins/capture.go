package logins

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// Activities are the activities on seeds and logins.
type Activities struct{ Site *site.Site }

// New makes a worker's activities.
func New(s *site.Site) *Activities { return &Activities{Site: s} }

// CaptureSeedInput is the input of CaptureSeed.
type CaptureSeedInput struct {
	Name string            `json:"name"`
	Host protocol.HostSpec `json:"host"`
	// Home is the CODEX_HOME to capture; empty means the login user's.
	Home string `json:"home,omitempty"`
}

// CaptureSeedResult names the stored bundle, which is no generation yet.
type CaptureSeedResult struct {
	Home    string              `json:"home"` // absolute
	Ref     protocol.SeedRef    `json:"ref"`
	Files   []protocol.SeedFile `json:"files"`
	Ignored []string            `json:"ignored,omitempty"`
	Auth    string              `json:"auth,omitempty"` // SHA-256 of its auth.json, hex
	// Account is who a ChatGPT login belongs to, by its own claims.
	Account *protocol.SeedAccount `json:"account,omitempty"`
}

// CaptureSeed stores the seed in a person's CODEX_HOME on a host, and reads the stored
// bundle back. A repeat finds the stored bundle. Nothing on the host is changed.
func (h *Activities) CaptureSeed(ctx context.Context, in CaptureSeedInput) (CaptureSeedResult, error) {
	out, err := CaptureSeed(ctx, h.Site, in)
	return out, kit.Failing{}.Failure(ctx, "capture seed "+in.Name, err)
}

// CaptureSeed does the work of the activity of that name.
func CaptureSeed(ctx context.Context, s *site.Site, in CaptureSeedInput) (CaptureSeedResult, error) {
	var out CaptureSeedResult
	if err := seeds.ValidName(in.Name); err != nil {
		return out, kit.BadInput("%v", err)
	}
	host, err := s.Host(in.Host)
	if err != nil {
		return out, err
	}
	root, err := hostexec.Root(ctx, host, in.Host)
	if err != nil {
		return out, fmt.Errorf("find the root folder: %w", err)
	}
	if out.Home, err = personsHome(ctx, host, in.Home); err != nil {
		return out, err
	}
	if sessions := path.Join(root, "sessions"); strings.HasPrefix(out.Home+"/", sessions+"/") {
		return out, kit.BadInput("%s belongs to a session, which holds a seed already: a second holder would burn it", out.Home)
	}
	b, err := seeds.Capture(ctx, host, out.Home)
	if err != nil {
		if !errors.Is(err, hostexec.ErrUnreachable) && !errors.Is(err, hostexec.ErrOutcomeUnknown) {
			return out, &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "log in there with codex, or name the folder with --codex-home", Err: err}
		}
		return out, err
	}
	ref, err := seeds.SaveAgain(ctx, s.Store, in.Name, 0, b)
	if err != nil {
		return out, err
	}
	out.Ref = protocol.SeedRef{Name: ref.Name, Blob: ref.Blob, Digest: ref.Digest, Kind: string(ref.Kind)}
	out.Files, out.Ignored, out.Account = filesOf(b), b.Ignored(), seeds.AccountOf(b)
	if auth := b.Auth(); auth != nil {
		out.Auth = seeds.AuthDigest(auth)
	}
	return out, nil
}

func personsHome(ctx context.Context, h hostexec.Host, home string) (string, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: `case $1 in
'') d=${CODEX_HOME:-$HOME/.codex} ;;
/*) d=$1 ;;
'~/'*) d=$HOME/${1#??} ;;
*) d=$HOME/$1 ;;
esac
printf %s "$d"`, Args: []string{home}})
	if err != nil {
		return "", fmt.Errorf("find the codex home: %w", err)
	}
	dir := path.Clean(string(res.Stdout))
	if !path.IsAbs(dir) || dir == "/" {
		return "", kit.BadInput("%q is not a codex home: name a folder", dir)
	}
	return dir, nil
}

// ForgetLoginInput is the input of ForgetLogin.
type ForgetLoginInput struct {
	Host protocol.HostSpec `json:"host"`
	Home string            `json:"home"`
	Auth string            `json:"auth"` // SHA-256 of the captured auth.json, hex
}

// ForgetLogin removes the captured auth.json. One that has changed since is somebody's
// newer login, and stays.
func (h *Activities) ForgetLogin(ctx context.Context, in ForgetLoginInput) error {
	return kit.Failing{}.Failure(ctx, "remove the login from "+in.Home+" on "+in.Host.Name, ForgetLogin(ctx, h.Site, in))
}

// ForgetLogin does the work of the activity of that name.
func ForgetLogin(ctx context.Context, s *site.Site, in ForgetLoginInput) error {
	host, err := s.Host(in.Host)
	if err != nil {
		return err
	}
	file := path.Join(in.Home, "auth.json")
	_, err = host.Run(ctx, hostexec.Command{Script: forgetLoginScript, Args: []string{file, in.Auth}})
	var exit *hostexec.ExitError
	switch {
	case err == nil || !errors.As(err, &exit):
		return err
	case exit.Code == exitChanged:
		return &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "somebody uses it there: end that codex and capture it again",
			Err: fmt.Errorf("%s has changed since it was captured, so it stays; the seed may hold a token that is spent", file)}
	case exit.Code == exitTwo:
		return &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "see which of the two is in use, and move the other one away",
			Err: fmt.Errorf("%s has changed since it was captured, and there is another one in %s.fairlead-moved: both stay", file, file)}
	case exit.Code == exitNoSum:
		return &kit.TypedError{Kind: protocol.ErrTypeBadInput, Hint: "remove it there by hand (not with `codex logout`, which revokes it)",
			Err: errors.New("the host has no sha256sum, shasum or openssl to tell whether it is still what was captured")}
	}
	return err
}

// Exit codes of forgetLoginScript.
const (
	exitChanged = 95
	exitNoSum   = 96
	exitTwo     = 97 // two different files
)

// forgetLoginScript removes only the captured file. It moves a file aside before it
// compares it, so that nobody can exchange it in between. It moves any other file back, but
// never over an existing one. A killed attempt may have left the file aside.
//
// $1 auth.json, $2 SHA-256 of the captured file.
const forgetLoginScript = `LC_ALL=C; export LC_ALL
file=$1 known=$2 aside=$1.fairlead-moved
there() { [ -e "$1" ] || [ -L "$1" ]; }
captured() {
	[ -f "$1" ] && [ ! -L "$1" ] || return 1
	if command -v sha256sum; then sum=$(sha256sum <"$1")
	elif command -v shasum; then sum=$(shasum -a 256 <"$1")
	elif command -v openssl; then sum=$(openssl dgst -sha256 -r <"$1")
	else exit 96
	fi >/dev/null
	[ "${sum%% *}" = "$known" ]
}
while there "$file" || there "$aside"; do
	if ! there "$aside"; then
		captured "$file" || exit 95
		mv -- "$file" "$aside" || exit 1
	fi
	if captured "$aside"; then
		rm -f -- "$aside" || exit 1
		continue
	fi
	there "$file" && exit 97
	ln -- "$aside" "$file" 2>/dev/null && rm -f -- "$aside" || mv -n -- "$aside" "$file"
	exit 95
done`

package logins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// LoginInput names a login that a person makes in a folder below our root folder on a host.
type LoginInput struct {
	ID   string            `json:"id"`
	Host protocol.HostSpec `json:"host"`
}

// MakeLoginResult has the command of codex's device login and its CODEX_HOME.
type MakeLoginResult struct {
	Home string   `json:"home"`
	Argv []string `json:"argv"`
}

// MakeLogin copies codex to a host and makes the folder for a login. First it checks that
// the store works, so that nobody enters a code in vain.
func (h *Activities) MakeLogin(ctx context.Context, in LoginInput) (MakeLoginResult, error) {
	out, err := MakeLogin(ctx, h.Site, in)
	return out, kit.Failing{}.Failure(ctx, "prepare a login on "+in.Host.Name, err)
}

// MakeLogin does the work of the activity of that name.
func MakeLogin(ctx context.Context, s *site.Site, in LoginInput) (MakeLoginResult, error) {
	var out MakeLoginResult
	host, dir, err := loginDir(ctx, s, in)
	if err != nil {
		return out, err
	}
	if err := TryStore(ctx, s, "logins/"+in.ID); err != nil {
		return out, err
	}
	codex, err := hosts.Provision(ctx, s, in.Host)
	if err != nil {
		return out, err
	}
	out.Home = path.Join(dir, "codex-home")
	_, err = host.Run(ctx, hostexec.Command{Script: `umask 077; mkdir -p -- "$1" "$2"`, Args: []string{out.Home, path.Join(dir, "tmp")}})
	if err != nil {
		return out, fmt.Errorf("make its folder: %w", err)
	}
	out.Argv = []string{"env"}
	for _, key := range hosts.UnsetKeys {
		out.Argv = append(out.Argv, "-u", key)
	}
	out.Argv = append(out.Argv, "CODEX_HOME="+out.Home, "TMPDIR="+path.Join(dir, "tmp"), "NO_COLOR=1", codex.Path, "login", "--device-auth")
	if s.Issuer != "" {
		out.Argv = append(out.Argv, "--experimental_issuer", s.Issuer)
	}
	return out, nil
}

// TryStore writes, reads and deletes a blob.
func TryStore(ctx context.Context, s *site.Site, key string) error {
	want := []byte("a login is about to be made")
	if err := s.Store.Put(ctx, key, want); err != nil {
		return fmt.Errorf("try the store: %w", err)
	}
	got, err := s.Store.Get(ctx, key)
	if err == nil && !bytes.Equal(got, want) {
		err = store.ErrTorn
	}
	if err != nil {
		err = fmt.Errorf("try the store: %w", err)
	}
	return errors.Join(err, s.Store.Delete(ctx, key))
}

// RemoveLogin removes a login's folder.
func (h *Activities) RemoveLogin(ctx context.Context, in LoginInput) error {
	host, dir, err := loginDir(ctx, h.Site, in)
	if err == nil {
		err = hostexec.RemoveTree(ctx, host, dir, path.Dir(dir), nil)
	}
	return kit.Failing{}.Failure(ctx, "remove a login from "+in.Host.Name, err)
}

func loginDir(ctx context.Context, s *site.Site, in LoginInput) (hostexec.Host, string, error) {
	if err := kit.CheckID("login", in.ID); err != nil {
		return nil, "", err
	}
	host, err := s.Host(in.Host)
	if err != nil {
		return nil, "", err
	}
	root, err := hostexec.Root(ctx, host, in.Host)
	if err != nil {
		return nil, "", fmt.Errorf("find the root folder: %w", err)
	}
	return host, path.Join(root, "logins", in.ID), nil
}

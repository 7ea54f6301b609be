package session

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// unlessEnded returns err. If a worker refused because the session is on no host, and the
// session has ended, it returns a refusal that says so.
func unlessEnded(ctx context.Context, t *conn.Conn, id, doing string, err error) error {
	if core.ExitCode(err) != core.ExitRefused {
		return err
	}
	var v protocol.SessionView
	if t.Ask(ctx, "show session "+id, protocol.SessionID(id), protocol.QueryState, &v) != nil || !conn.HasEnded(v.State) {
		return err
	}
	if v.State == protocol.Closed {
		return core.Refused("%s session %s: it %s", doing, id, conn.EndText(v)).Hinted("its work is in its snapshots: `ctl snapshot list %s`, `ctl snapshot export`", id).Because(err)
	}
	return conn.RefuseEnded(doing+" session "+id, v)
}

// workDiff prints the changes in a work folder since the session began.
func workDiff(ctx context.Context, a *core.App, worker *api.Client, id string, moving bool) error {
	d, err := worker.WorkDiff(ctx, id, moving)
	if err != nil {
		return conn.APIFailure("compare the work of session "+id+" with its start", err)
	}
	if d.Cut {
		a.Note("the diff is cut at %d bytes", len(d.Text))
	}
	return a.Print().Show(map[string]any{"session": id, "diff": d.Text, "cut": d.Cut}, func(p *core.Printer) { showTurnDiff(p, d.Text) })
}

func pushCommand(a *core.App) *cobra.Command {
	var branch, message string
	c := &cobra.Command{
		Use: "push ID --branch B", Short: "commit a session's work and push it to where it came from", Args: cobra.ExactArgs(1),
		Long: `Commits what the work folder of a session with --repo holds, but for what .gitignore leaves out,
and pushes it with the credentials that the session was given. Codex's own commits are part of
it; what it wrote into the folder's git configuration and hooks is not used. A branch is never
forced. Done twice nothing more is pushed, and that is said. It is done between two turns: while
one runs it is refused (exit 6), and a message that comes meanwhile waits.`,
		Example: "  ctl session push release-42 --branch codex/release-42 -m 'Mend the build'",
		RunE: func(c *cobra.Command, args []string) error {
			id := args[0]
			if err := core.CheckName("session id", id); err != nil {
				return err
			}
			if branch == "" {
				return core.Usage("session push: say where to with --branch")
			}
			if err := workspaces.CheckRef(branch); err != nil {
				return core.Usage("--branch: %v", err)
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			var out workspaces.PushWorkspaceResult
			push := protocol.Push{ID: core.RandomID(), Branch: branch, Message: message, By: core.Person()}
			if err := t.UpdateWithin(c.Context(), workspaces.CloneTimeout, "push the work of session "+id, protocol.SessionID(id), protocol.UpdatePush, push.ID, &out, push); err != nil {
				return err
			}
			return a.Print().Show(out, func(p *core.Printer) {
				if out.Already {
					p.Printf("%s is at %s already\n", out.Branch, out.Commit)
					return
				}
				p.Printf("%s is at %s\n", out.Branch, out.Commit)
			})
		},
	}
	c.Flags().StringVar(&branch, "branch", "", "`BRANCH` to push to; it is made if it is not there")
	c.Flags().StringVarP(&message, "message", "m", "", "of the commit")
	return c
}

func fetchCommand(a *core.App) *cobra.Command {
	var to string
	var moving, force bool
	c := &cobra.Command{
		Use: "fetch ID PATH...", Short: "bring files of a session's work folder here", Args: cobra.MinimumNArgs(2),
		Long: `Brings files and folders of the work folder here, while the session is on a host. What a link
leads to outside of the work folder is not given, nor a file with a known credential in it.
Files get the names that you asked for; of an absolute path, the last element. A file that exists
here is not overwritten (exit 6), unless --force is given. Without --to, hidden files that you did
not name are refused (exit 6), since programs here may obey them. Nothing is written unless all of
it came. More than one file is of one moment: while a turn runs, or where one began meanwhile, that
is refused (exit 6), unless --while-running is given.`,
		Example: "  ctl session fetch release-42 report.md build/out --to ./results",
		RunE: func(c *cobra.Command, args []string) error {
			if err := core.CheckName("session id", args[0]); err != nil {
				return err
			}
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			worker, err := conn.WorkerFor(c.Context(), a, t, args[0])
			if err != nil {
				return err
			}
			into := folder{path: to, chosen: c.Flags().Changed("to"), force: force}
			files, err := fetch(c.Context(), worker, args[0], args[1:], moving, into)
			if err := unlessEnded(c.Context(), t, args[0], "fetch from", err); err != nil {
				return err
			}
			return a.Print().Show(map[string]any{"session": args[0], "files": files}, func(p *core.Printer) {
				for _, f := range files {
					p.Printf("%s\n", f)
				}
			})
		},
	}
	c.Flags().BoolVar(&moving, "while-running", false, "also while a turn writes there: files may not fit each other")
	c.Flags().BoolVar(&force, "force", false, "overwrite files that exist here")
	c.Flags().StringVar(&to, "to", ".", "`DIR` here to write them to; it is made if it is not there")
	return c
}

// A folder is where fetched files go.
type folder struct {
	path   string
	chosen bool // the user named it: it is not just where they are
	force  bool // files there may be overwritten
}

// admits refuses files that would do harm in the folder.
func (f folder) admits(asked, files []string) error {
	var hidden []string
	for _, name := range files {
		if part := workspaces.Unnamed(asked, name); part != "" && !slices.Contains(hidden, part) {
			hidden = append(hidden, part)
		}
	}
	if !f.chosen && len(hidden) > 0 {
		more := ""
		if n := len(hidden) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		return core.Refused("write %s%s to the current folder: hidden files come only by their names, so nothing was written", core.Clean(hidden[0]), more).
			Hinted("give --to a folder of their own, or name them")
	}
	if f.force {
		return nil
	}
	return noneExists(f.path, files)
}

// fetch unpacks into a temporary folder below its place. When all files have arrived, it moves
// them there.
func fetch(ctx context.Context, worker *api.Client, id string, paths []string, moving bool, place folder) (files []string, err error) {
	to := place.path
	made, err := makeFolder(to)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && made {
			_ = os.Remove(to) // fails if it is not empty
		}
	}()
	into, err := os.MkdirTemp(to, ".fetch-")
	if err != nil {
		return nil, core.Failed("write to %s: %v", to, err)
	}
	defer os.RemoveAll(into)
	root, err := os.OpenRoot(into)
	if err != nil {
		return nil, core.Failed("write to %s: %v", to, err)
	}
	defer root.Close()
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		var err error
		files, err = unpack(root, r, paths)
		r.CloseWithError(err) // stops the sender
		unpacked <- err
	}()
	err = worker.FetchFiles(ctx, id, paths, moving, w)
	w.CloseWithError(err) // without an error, readers get io.EOF
	if uerr := <-unpacked; err == nil && uerr != nil {
		return nil, core.Failed("write to %s: %v", to, uerr)
	}
	if err != nil {
		return nil, conn.APIFailure("fetch from session "+id, err)
	}
	if err := place.admits(paths, files); err != nil {
		return nil, err
	}
	for _, f := range files {
		place := filepath.Join(to, filepath.FromSlash(f))
		err := os.MkdirAll(filepath.Dir(place), 0o777)
		if err == nil {
			err = os.Rename(filepath.Join(into, filepath.FromSlash(f)), place)
		}
		if err != nil {
			return nil, core.Failed("write %s: %v", place, err)
		}
	}
	return files, nil
}

func noneExists(dir string, files []string) error {
	for _, f := range files {
		place := filepath.Join(dir, filepath.FromSlash(f))
		switch _, err := os.Lstat(place); {
		case err == nil:
			return core.Refused("write %s: it exists, so nothing was written", place).Hinted("give --force to overwrite it, or --to another folder")
		case !errors.Is(err, os.ErrNotExist):
			return core.Failed("write %s: %v", place, err)
		}
	}
	return nil
}

func makeFolder(dir string) (made bool, err error) {
	switch info, err := os.Stat(dir); {
	case err == nil && info.IsDir():
		return false, nil
	case err == nil:
		return false, core.Usage("--to %s: it is a file: name a folder", dir)
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return false, core.Failed("%v", err)
	}
	return true, nil
}

// unpack extracts regular files below root only, under names that the paths cover.
func unpack(root *os.Root, from io.Reader, paths []string) (files []string, err error) {
	in := tar.NewReader(from)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, from)
			return files, err
		}
		if err != nil {
			return files, err
		}
		if !slices.ContainsFunc(paths, func(asked string) bool { return workspaces.Covers(asked, h.Name) }) {
			return files, fmt.Errorf("the worker sent %.100q, which nobody asked for", h.Name)
		}
		if err := unpackFile(root, h, in); err != nil {
			return files, err
		}
		files = append(files, h.Name)
	}
}

func unpackFile(root *os.Root, h *tar.Header, in io.Reader) error {
	name := filepath.FromSlash(h.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, os.FileMode(h.Mode&0o777))
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Close())
}

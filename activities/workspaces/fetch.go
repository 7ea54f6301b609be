package workspaces

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

const maxFetched = 10_000

// fetchListScript lists the regular files that paths name or that lie below them, without
// .git and without following links. x marks an executable file, f any other.
const fetchListScript = `cd -P -- "$1" || exit 4
shift
for p; do
	case $p in /*) ;; *) p=./$p ;; esac
	if [ -d "$p" ] && [ ! -h "$p" ]; then
		find "$p" -name .git -prune -o -type f -perm -100 -exec printf 'x%s\0' {} + -o -type f -exec printf 'f%s\0' {} +
	elif [ -x "$p" ]; then printf 'x%s\0' "$p"
	else printf 'f%s\0' "$p"
	fi
done`

// FetchFiles writes files of a session's work folder, and those below paths, as a tar
// archive. Each file has a name that one of the paths covers: see [Covers]. It never writes a file from outside the work folder, even if commands swap links
// meanwhile, or one with a known secret. Unless moving is set, it refuses several files if
// a turn runs or began meanwhile.
func (w *Workfolders) FetchFiles(ctx context.Context, session string, paths []string, moving bool, to io.Writer) error {
	const waitFor = "wait for its end, or fetch files one by one; --while-running gives what is there all the same"
	p, err := w.Where(ctx, session)
	if err != nil {
		return err
	}
	several := false
	err = fetchFiles(ctx, w.Site, p, paths, to, func(n int) error {
		if several = n > 1 && !moving; several {
			return p.still(waitFor)
		}
		return nil
	})
	w.Site.IfFlood(ctx, err)
	if err == nil && several {
		err = w.unchanged(ctx, p, waitFor)
	}
	return err
}

// fetchFiles calls may with the number of files before it reads them.
func fetchFiles(ctx context.Context, s *site.Site, p Place, paths []string, to io.Writer, may func(n int) error) error {
	hide, err := site.HidingIn(ctx, s, p.Claim, p.Seed)
	if err != nil {
		return err
	}
	h, err := s.Host(p.Claim.Host)
	if err != nil {
		return err
	}
	for _, name := range paths {
		if name == "" || strings.ContainsRune(name, 0) || path.Clean(name) == "/" || !path.IsAbs(name) && !within(name) {
			return kit.BadInput("path %q does not lie in the work folder", name)
		}
	}
	names, err := fetchList(ctx, h, p.Layout.WorkDir, paths)
	if err != nil {
		return fmt.Errorf("list %s in %s: %w", strings.Join(paths, ", "), p.Layout.WorkDir, err)
	}
	if err := may(len(names)); err != nil {
		return err
	}
	out, given := tar.NewWriter(to), map[string]string{}
	for _, name := range names {
		if name == "" {
			continue
		}
		as, ok := fetchedName(paths, name[1:])
		if !ok {
			return fmt.Errorf("list %s in %s: the host listed %.100q, which does not lie below any of them", strings.Join(paths, ", "), p.Layout.WorkDir, name[1:])
		}
		if before, again := given[as]; again {
			if path.Clean(before) == path.Clean(name[1:]) {
				continue
			}
			return kit.BadInput("%s and %s would have the same name %s here: fetch them one by one", before, name[1:], as)
		}
		given[as] = name[1:]
		if err := fetchFile(ctx, s, h, p, name[1:], as, name[0] == 'x', hide, out); err != nil {
			return err
		}
	}
	return out.Close()
}

// maxFetchList bounds the names of the files, in bytes.
const maxFetchList = 4 << 20

func fetchList(ctx context.Context, h hostexec.Host, dir string, paths []string) ([]string, error) {
	st, err := h.Start(ctx, hostexec.Command{Script: fetchListScript, Args: append([]string{dir}, paths...)})
	if err != nil {
		return nil, err
	}
	defer st.Close()
	if err := st.CloseWrite(); err != nil {
		return nil, err
	}
	text, readErr := io.ReadAll(io.LimitReader(st, maxFetchList+1))
	names := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	if len(names) > maxFetched || len(text) > maxFetchList {
		return nil, kit.BadInput("at most %d files, with names of at most %d MiB in all, are fetched at once; pack them into an archive there, and fetch that", maxFetched, maxFetchList>>20)
	}
	if err := st.Wait(); err != nil {
		return nil, err
	}
	return names, readErr
}

// fetchRoot returns the name that a fetched path has where it is written: a relative path
// keeps its name, and of an absolute one the last element is left.
func fetchRoot(asked string) string {
	if path.IsAbs(asked) {
		return path.Base(asked)
	}
	return path.Clean(asked)
}

// Covers reports whether a file that was fetched by asking for a path may have this name.
// Neither a host nor a worker chooses another name, such as that of a file that a link
// leads to.
func Covers(asked, name string) bool {
	root := fetchRoot(asked)
	return path.Clean(name) == name && within(name) && !path.IsAbs(name) && name != "." &&
		(root == "." || name == root || strings.HasPrefix(name, root+"/"))
}

// Unnamed returns the part of a fetched file's name, up to its first element that begins with a
// dot and that none of the asked paths names. It returns "" if there is none. A shell, git and
// other programs read such files where they lie, without being told to.
func Unnamed(paths []string, name string) string {
	shown := ""
	for _, asked := range paths {
		if !Covers(asked, name) {
			continue
		}
		at := 0
		if root := fetchRoot(asked); root != "." {
			at = len(root)
		}
		hidden := ""
		for i := at; i < len(name); i++ {
			if name[i] == '.' && (i == 0 || name[i-1] == '/') {
				end := strings.IndexByte(name[i:], '/')
				if hidden = name; end >= 0 {
					hidden = name[:i+end]
				}
				break
			}
		}
		if hidden == "" {
			return ""
		}
		shown = hidden
	}
	return shown
}

// fetchedName returns the name under which a file that the host listed is given. It
// returns false if the file lies below none of the paths.
func fetchedName(paths []string, listed string) (string, bool) {
	listed = path.Clean(listed)
	for _, asked := range paths {
		clean := path.Clean(asked)
		rest, below := strings.CutPrefix(listed, clean+"/")
		name := path.Join(fetchRoot(asked), rest)
		switch {
		case listed == clean:
			name = fetchRoot(asked)
		case clean == "." && !path.IsAbs(listed):
			name = listed
		case !below:
			continue
		}
		if Covers(asked, name) {
			return name, true
		}
	}
	return "", false
}

// within looks only at the text of the path.
func within(name string) bool {
	clean := path.Clean(name)
	return clean != ".." && !strings.HasPrefix(clean, "../")
}

func fetchFile(ctx context.Context, s *site.Site, h hostexec.Host, p Place, name, as string, runs bool, hide site.Secrets, out *tar.Writer) error {
	b := hostexec.Below{Folder: p.Layout.WorkDir, Path: name, Max: s.Deliver.OrDefaults().SessionBytes, Without: p.Layout.Root}
	if p.Layout.OwnWork {
		b.Base = p.Layout.Root
	}
	mode := int64(0o644)
	if runs {
		mode = 0o755
	}
	_, err := hostexec.ReadBelow(ctx, h, b, func(f hostexec.BelowFile) (io.Writer, error) {
		if err := out.WriteHeader(&tar.Header{Name: as, Mode: mode, Size: f.Size, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			return nil, err
		}
		if hide.All == nil {
			return out, nil
		}
		return &guarded{out: out, seek: hide.All.Stream()}, nil
	})
	if err == nil {
		err = out.Flush()
	}
	return notFetched(err, path.Clean(name))
}

// A guarded writer fails before it writes a known secret.
type guarded struct {
	out  io.Writer
	seek interface {
		Next(p []byte) []byte
		Count() int
	}
}

func (g *guarded) Write(p []byte) (int, error) {
	if g.seek.Next(p); g.seek.Count() > 0 {
		return 0, errFetchSecret
	}
	return g.out.Write(p)
}

var errFetchSecret = errors.New("it contains a credential, so it is not sent")

func notFetched(err error, name string) error {
	var large *hostexec.TooLargeError
	var why hostexec.NotGiven
	switch {
	case errors.Is(err, errFetchSecret):
		return &kit.TypedError{Kind: protocol.ErrTypeBadInput, Err: fmt.Errorf("fetch %s: %w", name, errFetchSecret), Hint: "name the other files"}
	case errors.As(err, &large):
		return kit.BadInput("fetch %s: it has %d bytes, at most %d are given", name, large.Size, large.Max)
	case !errors.As(err, &why):
		return err
	}
	words := map[hostexec.NotGiven]string{
		hostexec.NotThere: "there is no such file in the work folder", hostexec.LeadsNowhere: "it is a link that leads to no file",
		hostexec.Outside: "it lies outside of the work folder, perhaps by a symbolic link", hostexec.IsFolder: "it is a folder",
		hostexec.NotAFile: "it is no regular file", hostexec.Unreadable: "it cannot be read",
		hostexec.Changed: "it was written to meanwhile; try again", hostexec.NoFolder: "the work folder is gone",
	}
	kind := protocol.ErrTypeBadInput
	if why == hostexec.NotThere || why == hostexec.LeadsNowhere {
		kind = protocol.ErrTypeNotThere
	}
	return &kit.TypedError{Kind: kind, Err: fmt.Errorf("fetch %s: %s", name, words[why])}
}

// Told returns the Problem of an error. It redacts nothing.
func Told(ctx context.Context, what string, err error) protocol.Problem {
	var p protocol.Problem
	app := kit.Failing{}.Failure(ctx, what, err)
	if d, ok := app.(interface{ Details(...any) error }); ok && d.Details(&p) == nil {
		return p
	}
	return protocol.Problem{Kind: protocol.ErrTypeInternal, Message: what + ": " + err.Error()}
}

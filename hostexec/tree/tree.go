package tree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// unpackScript unpacks its input into a new folder beside the target. A tar stream that was
// cut between two entries looks complete, so putting the folder in place is a second step.
//
// $1 the folder beside the target.
const unpackScript = `LC_ALL=C; export LC_ALL
umask 077
%s
mkdir -p -- "${1%%/*}/" && mkdir -- "$1" || exit 1
trap 'exit 1' HUP INT TERM PIPE
tar -xpof - -C "$1" || { r=$?; rm -rf -- "$1"; exit $r; }`

// placeScript moves an unpacked tree to its place: by one rename if nothing is there,
// otherwise file by file.
//
// $1 the unpacked tree, $2 its place.
const placeScript = `LC_ALL=C; export LC_ALL
trap 'rm -rf -- "$1"' EXIT
%s
if rmdir -- "$2" 2>/dev/null || { [ ! -e "$2" ] && [ ! -L "$2" ]; }; then
	mv -- "$1" "$2"
else
	[ -d "$2" ] || { echo "$2: not a directory" >&2; exit 1; }
	cp -a -f -- "$1/." "$2/"
fi || exit 1
%s`

// Put unpacks a tar stream into dir, which it creates if missing. Nothing appears in dir
// before the whole stream was received. Files of the same name are replaced; others stay.
func Put(ctx context.Context, h hostexec.Host, dir string, tar io.Reader, fence *hostexec.Fence) error {
	if err := putTree(ctx, h, dir, tar, fence); err != nil {
		return fmt.Errorf("put tree %s on %s: %w", dir, h.Name(), err)
	}
	return nil
}

func putTree(ctx context.Context, h hostexec.Host, dir string, tar io.Reader, fence *hostexec.Fence) error {
	if err := script.CheckPath(dir); err != nil {
		return err
	}
	check, lock, unlock := "", "", ""
	if fence != nil {
		if err := fence.Check(); err != nil {
			return err
		}
		lock, unlock = script.FenceBegin(fence.Dir, fence.Epoch.Generation, fence.Epoch.Pump, fence.Epoch.Attempt), script.FenceEnd
		check = lock + "\n" + unlock
	}
	temp := path.Join(path.Dir(dir), ".fl-tree-"+rand.Text())
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := h.Start(streamCtx, hostexec.Command{Script: fmt.Sprintf(unpackScript, check), Args: []string{temp}, Bulk: true})
	if err != nil {
		return err
	}
	defer s.Close()
	_, copyErr := io.CopyBuffer(script.OnlyWriter{Writer: s}, script.MarkedReader{Reader: tar, As: hostexec.ErrSource}, make([]byte, 256<<10))
	if copyErr == nil {
		copyErr = s.CloseWrite()
	}
	if copyErr != nil {
		s.CloseWrite()
	}
	if errors.Is(copyErr, hostexec.ErrSource) {
		s.Wait() // let the script end, so that only its folder has to be removed
		return errors.Join(copyErr, removeTemp(ctx, h, temp))
	}
	if err := s.Wait(); err != nil {
		if errors.Is(err, hostexec.ErrOutcomeUnknown) {
			removeTemp(ctx, h, temp) // best effort; nothing was put in place
		}
		return err
	}
	if copyErr != nil {
		return errors.Join(copyErr, removeTemp(ctx, h, temp))
	}
	_, err = h.Run(ctx, hostexec.Command{Script: fmt.Sprintf(placeScript, lock, unlock), Args: []string{temp, dir}})
	return err
}

func removeTemp(ctx context.Context, h hostexec.Host, temp string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, err := h.Run(ctx, hostexec.Command{Script: `rm -rf -- "$1"`, Args: []string{temp}})
	return err
}

// packScript writes a tar stream of the paths $2… below $1. Names to leave out go to tar as
// patterns, with wildcards escaped. Status 1 of GNU tar means that a file changed
// meanwhile.
const packScript = `LC_ALL=C; export LC_ALL
[ -d "$1" ] || { echo "$1: no such folder" >&2; exit 94; }
cd -- "$1" || exit 1
shift
[ $# -gt 0 ] || set -- .
for p; do
	[ -e "./$p" ] || [ -L "./$p" ] || { echo "$p: no such file" >&2; exit 94; }
	case $p in .) ;; *) p=./$p ;; esac
	set -- "$@" "$p"
	shift
done
find "$@" \( -type p -o -type s \) -print 2>/dev/null | sed 's/[][*?\\]/\\&/g' | tar -cf - -X /dev/stdin -- "$@"
r=$?
if [ $r -eq 1 ] && tar --version 2>/dev/null | grep -q GNU; then r=0; fi
exit $r`

// Get writes a tar stream of the named paths below dir (all if none is named) to w. Sockets
// and FIFOs are left out. Files that change meanwhile are no error. The error wraps
// ErrNotExist if dir or a named path does not exist. The caller bounds the stream: an error of
// w ends the call.
func Get(ctx context.Context, h hostexec.Host, dir string, w io.Writer, paths ...string) error {
	if err := getTree(ctx, h, dir, w, paths); err != nil {
		return fmt.Errorf("get tree %s from %s: %w", dir, h.Name(), hostexec.SentBy(h, err))
	}
	return nil
}

func getTree(ctx context.Context, h hostexec.Host, dir string, w io.Writer, paths []string) error {
	if err := script.CheckPath(dir); err != nil {
		return err
	}
	for _, p := range paths {
		if path.IsAbs(p) || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") || strings.ContainsRune(p, 0) {
			return fmt.Errorf("%q is not a clean path below the folder", p)
		}
	}
	s, err := h.Start(ctx, hostexec.Command{Script: packScript, Args: append([]string{dir}, paths...), Bulk: true})
	if err != nil {
		return err
	}
	defer s.Close()
	s.CloseWrite()
	if _, err := io.CopyBuffer(w, onlyReader{s}, make([]byte, 256<<10)); err != nil {
		return err
	}
	err = s.Wait()
	var exit *hostexec.ExitError
	switch {
	case !errors.As(err, &exit):
		return err
	case exit.Code == script.ExitNotExist:
		return fmt.Errorf("%w%s", hostexec.ErrNotExist, script.FirstLine(exit.Stderr))
	case exit.Code == 1 && onlyChanges(exit.Stderr):
		return nil
	}
	return err
}

// onlyChanges reports whether busybox's tar complains only about sockets and vanished
// files. This tar has one status for all errors.
func onlyChanges(stderr []byte) bool {
	for line := range strings.Lines(string(stderr)) {
		line = strings.TrimSpace(line)
		if !strings.HasSuffix(line, "No such file or directory") && !strings.Contains(line, "error exit delayed") &&
			!strings.HasSuffix(line, "socket ignored") && line != "" {
			return false
		}
	}
	return len(stderr) > 0
}

// onlyReader hides a Stream's other methods from io.Copy.
type onlyReader struct{ io.Reader }

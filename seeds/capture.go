package seeds

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
)

// Capture is Pack for a CODEX_HOME on a host, and changes nothing there. It refuses all
// symbolic links.
func Capture(ctx context.Context, h hostexec.Host, dir string) (*Bundle, error) {
	b, err := capture(ctx, h, dir)
	if err != nil {
		return nil, fmt.Errorf("capture seed from %s on %s: %w", dir, h.Name(), err)
	}
	return b, nil
}

func capture(ctx context.Context, h hostexec.Host, dir string) (*Bundle, error) {
	names := slices.Concat(seedFiles, seedFolders)
	res, err := h.Run(ctx, hostexec.Command{
		Script: `[ -d "$1" ] || exit 94
cd -- "$1" || exit 1
shift
for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\n' "$f"; fi; done`,
		Args: append([]string{dir}, names...),
	})
	var exit *hostexec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Code == 94:
		return nil, fmt.Errorf("%w: there is no such folder", hostexec.ErrNotExist)
	case err != nil:
		return nil, err
	}
	there := slices.DeleteFunc(strings.Fields(string(res.Stdout)), func(name string) bool { return !slices.Contains(names, name) })
	if len(there) == 0 {
		return nil, errors.New("nothing of a codex home is there (neither auth.json nor config.toml)")
	}
	files, ignored, err := getHome(ctx, h, dir, there)
	if err != nil {
		return nil, err
	}
	return newBundle(files, ignored)
}

// getHome unpacks the files as they come, so that no more is in memory than a seed may have.
func getHome(ctx context.Context, h hostexec.Host, dir string, names []string) (files []file, ignored []string, err error) {
	from, to := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		to.CloseWithError(tree.Get(ctx, h, dir, &bounded{to: to, left: 2 * maxBytes}, names...))
	}()
	files, ignored, err = unpackHome(from)
	if err == nil {
		_, err = io.Copy(io.Discard, from) // what follows the archive's end, and the end of Get
	}
	from.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
	<-done
	return files, ignored, err
}

type bounded struct {
	to   io.Writer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("it is larger than %d MiB, too large for a seed (move what codex does not need)", 2*maxBytes>>20)
	}
	return b.to.Write(p)
}

func unpackHome(r io.Reader) (files []file, ignored []string, err error) {
	tr := tar.NewReader(r)
	total := 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, ignored, nil
		}
		if err != nil {
			return nil, nil, err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(h.Name, "./"), "/")
		switch {
		case h.Typeflag == tar.TypeDir:
			continue
		case !isSeedPath(name):
			if len(ignored) < maxFiles {
				ignored = append(ignored, name)
			}
			continue
		case h.Typeflag != tar.TypeReg:
			return nil, nil, fmt.Errorf("%s is a symbolic link or no file at all (copy the file itself there)", name)
		case h.Size > maxFile:
			return nil, nil, fmt.Errorf("%s is larger than %d MiB, too large for a seed", name, maxFile>>20)
		case len(files) >= maxFiles:
			return nil, nil, fmt.Errorf("more than %d files are too many for a seed (move what codex does not need)", maxFiles)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		if total += len(data); total > maxBytes {
			return nil, nil, tooMuch(total)
		}
		if name == configFile {
			if data, err = StripConfig(data); err != nil {
				return nil, nil, err
			}
		}
		files = append(files, file{path: name, exec: h.Mode&0o100 != 0 && strings.HasPrefix(name, "skills/"), data: data})
	}
}

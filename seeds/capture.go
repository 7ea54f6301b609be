package seeds

import (
	"archive/tar"
	"bytes"
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
	res, err := h.Run(ctx, hostexec.Command{
		Script: `[ -d "$1" ] || exit 94
cd -- "$1" || exit 1
shift
for f; do if [ -e "$f" ] || [ -L "$f" ]; then printf '%s\n' "$f"; fi; done`,
		Args: append([]string{dir}, slices.Concat(seedFiles, seedFolders)...),
	})
	var exit *hostexec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Code == 94:
		return nil, fmt.Errorf("%w: there is no such folder", hostexec.ErrNotExist)
	case err != nil:
		return nil, err
	}
	there := strings.Fields(string(res.Stdout))
	if len(there) == 0 {
		return nil, errors.New("nothing of a codex home is there (neither auth.json nor config.toml)")
	}
	archive := &bounded{max: 2 * maxBytes}
	if err := tree.Get(ctx, h, dir, archive, there...); err != nil {
		return nil, err
	}
	files, ignored, err := unpackHome(&archive.Buffer)
	if err != nil {
		return nil, err
	}
	return newBundle(files, ignored)
}

type bounded struct {
	bytes.Buffer
	max int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.max {
		return 0, fmt.Errorf("it is larger than %d MiB, too large for a seed (move what codex does not need)", b.max>>20)
	}
	return b.Buffer.Write(p)
}

func unpackHome(r io.Reader) (files []file, ignored []string, err error) {
	tr := tar.NewReader(r)
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
			ignored = append(ignored, name)
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
		if name == configFile {
			if data, err = StripConfig(data); err != nil {
				return nil, nil, err
			}
		}
		files = append(files, file{path: name, exec: h.Mode&0o100 != 0 && strings.HasPrefix(name, "skills/"), data: data})
	}
}

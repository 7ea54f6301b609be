package hostexec

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// readScript prints the file $1, at most $2 bytes: the maximum size plus one.
const readScript = `LC_ALL=C; export LC_ALL
[ -e "$1" ] || { echo "$1: no such file" >&2; exit 94; }
[ -f "$1" ] || { echo "$1: not a regular file" >&2; exit 1; }
exec head -c "$2" -- "$1"`

// ReadFile reads a small file. The error wraps ErrNotExist if the file does not exist, and
// is an *OutputTooLongError if it has more than max bytes.
func ReadFile(ctx context.Context, h Host, path string, max int64) ([]byte, error) {
	data, err := readFile(ctx, h, path, max)
	if err != nil {
		return nil, fmt.Errorf("read %s on %s: %w", path, h.Name(), SentBy(h, err))
	}
	return data, nil
}

func readFile(ctx context.Context, h Host, path string, max int64) ([]byte, error) {
	if err := script.CheckPath(path); err != nil {
		return nil, err
	}
	if max < 0 {
		return nil, fmt.Errorf("size limit of %d bytes is out of range", max)
	}
	c := Command{Script: readScript, Args: []string{path, strconv.FormatInt(max+1, 10)}}
	var data []byte
	var err error
	if max < MaxOutput {
		var res Result
		res, err = h.Run(ctx, c)
		data = res.Stdout
	} else {
		data, err = readStream(ctx, h, c, max+1)
	}
	var exit *ExitError
	switch {
	case errors.As(err, &exit) && exit.Code == script.ExitNotExist:
		return nil, ErrNotExist
	case err != nil:
		return nil, err
	case int64(len(data)) > max+1:
		return nil, &FloodError{What: "a file", Limit: max + 1}
	case int64(len(data)) > max:
		return nil, &OutputTooLongError{Limit: max}
	}
	return data, nil
}

func readStream(ctx context.Context, h Host, c Command, most int64) ([]byte, error) {
	c.Bulk = true
	s, err := h.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	data, readErr := ReadAll(s, most, "a file")
	if errors.Is(readErr, ErrFlood) {
		return nil, readErr
	}
	if err := s.Wait(); err != nil {
		return nil, err
	}
	return data, readErr
}

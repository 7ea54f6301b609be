package hostexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"fairlead.dev/fairlead/hostexec/internal/script"
)

// readChangedScript compares sums, because a file may change twice within one timestamp.
//
// $1 path, $2 maximum size in bytes plus one, $3 known sum.
const readChangedScript = `LC_ALL=C; export LC_ALL
[ -e "$1" ] || { echo "$1: no such file" >&2; exit 94; }
[ -f "$1" ] || { echo "$1: not a regular file" >&2; exit 1; }
if [ "$3" ]; then
	if command -v sha256sum; then sum=$(sha256sum <"$1")
	elif command -v shasum; then sum=$(shasum -a 256 <"$1")
	elif command -v openssl; then sum=$(openssl dgst -sha256 -r <"$1")
	else sum=
	fi >/dev/null
	[ "${sum%% *}" != "$3" ] || { echo same; exit 0; }
fi
echo file
exec head -c "$2" -- "$1"`

// ReadChanged is ReadFile for small files. If the file's SHA-256 (hex) equals known,
// changed is false and there is no data. known may be empty.
func ReadChanged(ctx context.Context, h Host, path string, max int64, known string) (data []byte, changed bool, err error) {
	fail := func(err error) ([]byte, bool, error) {
		return nil, false, fmt.Errorf("read %s on %s: %w", path, h.Name(), SentBy(h, err))
	}
	if err := script.CheckPath(path); err != nil {
		return fail(err)
	}
	if max < 0 || max >= MaxOutput-8 {
		return fail(fmt.Errorf("size limit of %d bytes is out of range", max))
	}
	res, err := h.Run(ctx, Command{Script: readChangedScript, Args: []string{path, strconv.FormatInt(max+1, 10), known}})
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == script.ExitNotExist {
		return fail(ErrNotExist)
	}
	if err != nil {
		return fail(err)
	}
	how, data, _ := bytes.Cut(res.Stdout, []byte("\n"))
	switch {
	case string(how) == "same":
		return nil, false, nil
	case string(how) != "file":
		return fail(script.ErrGarbled)
	case int64(len(data)) > max+1:
		return fail(&FloodError{What: "a file", Limit: max + 1})
	case int64(len(data)) > max:
		return fail(&OutputTooLongError{Limit: max})
	}
	return data, true, nil
}

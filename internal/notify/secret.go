package notify

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"fairlead.dev/fairlead/internal/secretfile"
)

const maxSecret = 64 << 10

// secret reads a file that only its owner may read. The error does not contain the content.
func (r *Rules) secret(name string) (string, error) {
	f, err := os.Open(r.path(name))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, bare(err))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", name, bare(err))
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("read %s: it is not a file", name)
	case secretfile.Exposed(info):
		return "", fmt.Errorf("read %s: others may read it: chmod 600", name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", name, bare(err))
	case len(data) > maxSecret:
		return "", fmt.Errorf("read %s: it is too large for a secret", name)
	case text == "":
		return "", fmt.Errorf("read %s: it is empty", name)
	}
	return text, nil
}

// bare returns the cause of an error of a file, without its path.
func bare(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// CheckFiles returns what is wrong with the files that channels need: a line for each.
func (r *Rules) CheckFiles() (problems []string) {
	for _, name := range r.Private() {
		if _, err := r.secret(name); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// public reads a file that is no secret.
func (r *Rules) public(name string) ([]byte, error) {
	f, err := os.Open(r.path(name))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, bare(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, bare(err))
	}
	return data, nil
}

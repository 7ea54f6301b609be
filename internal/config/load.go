package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/internal/strictyaml"
)

const maxFile = 1 << 20

// A Problem is one mistake in a config file.
type Problem = strictyaml.Problem

// An Error has every mistake of a config file.
type Error struct {
	Path     string
	Problems []Problem
}

func (e *Error) Error() string {
	name := e.Path
	if name == "" {
		name = "(defaults)"
	}
	return strictyaml.Tell("config "+name, e.Problems)
}

func newError(path string, problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	strictyaml.Sort(problems)
	return &Error{Path: path, Problems: problems}
}

// Load reads a config file. All mistakes are in one *Error. Paths in the file are made
// absolute, relative to its folder.
func Load(path string) (*Config, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read the config: %s has %d bytes, which is too large for a config file", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the config: %w", err)
	}
	return Parse(path, data)
}

// Parse is Load for data. path is for errors and relative paths.
func Parse(path string, data []byte) (*Config, error) {
	c := Default()
	c.path = path
	file := strictyaml.Read(data, c)
	c.lines = file.Lines
	c.resolve(filepath.Dir(path))
	problems := append(file.Problems, file.Without(c.check())...)
	if err := newError(path, problems); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) resolve(dir string) {
	for i := range c.Codex.Platforms {
		c.Codex.Platforms[i] = absolute(dir, c.Codex.Platforms[i])
	}
	for _, p := range []*string{&c.Temporal.APIKeyFile, &c.Temporal.PayloadKey, &c.Temporal.WorkerPayloadKey, &c.Store.Identity, &c.API.TokenFile, &c.API.ReadTokenFile, &c.Codex.Source, &c.Access, &c.Revoked, &c.Instructions, &c.Notifications, &c.WorkerKey, &c.TokenFile, &c.Login.CertificateKey, &c.Console.LinkKey, &c.State} {
		*p = absolute(dir, *p)
	}
	if with := c.SignWith; with != "agent" && with != LoginKey && !strings.HasPrefix(with, "agent:") && !strings.HasPrefix(with, "~/") {
		c.SignWith = absolute(dir, with)
	}
	for i := range c.Tools.Webhooks {
		w := &c.Tools.Webhooks[i]
		w.SecretFile = absolute(dir, w.SecretFile)
	}
	for i := range c.Tools.Activities {
		q := &c.Tools.Activities[i]
		q.KeyFile = absolute(dir, q.KeyFile)
	}
	if t := c.Console.TLS; t != nil {
		t.Cert, t.Key = absolute(dir, t.Cert), absolute(dir, t.Key)
	}
	for _, t := range []*TLS{c.Temporal.TLS, c.API.TLS} {
		if t != nil {
			for _, p := range []*string{&t.CA, &t.Cert, &t.Key} {
				*p = absolute(dir, *p)
			}
		}
	}
}

func absolute(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func (c *Config) at(key, format string, args ...any) Problem {
	return Problem{Line: strictyaml.LineOf(c.lines, key), Key: key, Text: fmt.Sprintf(format, args...)}
}

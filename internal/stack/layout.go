package stack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/store"
)

// A layout locates files in a state folder.
type layout string

func (l layout) in(name ...string) string {
	return filepath.Join(append([]string{string(l)}, name...)...)
}

func (l layout) socket(n int) string { return l.place("api" + nth(n) + ".sock") }

// place returns the path of a socket: in the state folder or, if that path is too long for a
// socket, in a temporary folder named after it.
func (l layout) place(file string) string {
	if path := l.in(file); len(path) <= config.MaxSocketPath {
		return path
	}
	sum := sha256.Sum256([]byte(l))
	name := "fairlead-" + strconv.Itoa(os.Getuid()) + "-" + hex.EncodeToString(sum[:8])
	path := filepath.Join(os.TempDir(), name, file)
	if len(path) > config.MaxSocketPath {
		path = filepath.Join("/tmp", name, file)
	}
	return path
}

func (l layout) config(n int) string { return l.in("worker" + nth(n) + ".yaml") }

func (l layout) prepare() error {
	for _, dir := range []string{string(l), l.in("logs"), filepath.Dir(l.socket(0)), filepath.Dir(l.place("codec.sock"))} {
		if err := localsocket.MakeFolder(dir); err != nil {
			return fmt.Errorf("make the state folder: %w", err)
		}
	}
	return nil
}

// identity makes the age identity if necessary.
func (l layout) identity() (path string, fresh bool, err error) {
	path = l.in("identity.txt")
	_, err = store.GenerateIdentity(path)
	switch {
	case err == nil:
		return path, true, nil
	case errors.Is(err, fs.ErrExist):
		return path, false, nil
	}
	return "", false, fmt.Errorf("make the age identity: %w", err)
}

// A marking is workers.json: since when the workers of a folder mark all that they write,
// and since when they require authority.
type marking struct {
	Since    time.Time `json:"since,omitzero"`
	Required time.Time `json:"required,omitzero"`
}

// workersKey makes the key with which workers mark what they write, if there is none. m.Since
// changes only if workers have run that marked nothing, or if the key was lost: replays depend
// on it. m.Required is the time of the last change to authority: required. Both are zero in a
// new folder. Call workersKey before the server makes its database.
func (l layout) workersKey(now time.Time, authority string) (path string, m marking, err error) {
	path = l.in("workers.key")
	_, err = payload.GenerateKey(path)
	fresh := err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", m, fmt.Errorf("make the key of workers: %w", err)
	}
	kept := l.in("workers.json")
	last := lastStart{marked: true, required: true} // stays so if no config was written: then no worker ran
	data, err := os.ReadFile(kept)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		last = lastStart{}
	case err != nil:
		return "", m, fmt.Errorf("read the time since which workers mark what they write: %w", err)
	default:
		if err := json.Unmarshal(data, &m); err != nil {
			return "", m, fmt.Errorf("read %s: %w", kept, err)
		}
		if err := l.readLast(&last); err != nil {
			return "", m, err
		}
	}
	_, err = os.Stat(l.in("temporal.db"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", m, fmt.Errorf("look for an older database: %w", err)
	}
	now = now.UTC().Truncate(time.Second)
	if older := err == nil; older && (fresh || !last.marked) {
		m.Since = now.Add(upgradeGrace)
	}
	if older := err == nil; older && !last.required && authority == config.AuthorityRequired {
		m.Required = now.Add(time.Second)
	}
	if err := writeJSON(kept, m); err != nil {
		return "", m, fmt.Errorf("write the time since which workers mark what they write: %w", err)
	}
	return path, m, nil
}

// A lastStart says whether the workers of the last start marked what they wrote, and whether
// they required authority.
type lastStart struct{ marked, required bool }

// readLast reads the config of the last start's first worker into last. If there is none, it
// leaves last as it is.
func (l layout) readLast(last *lastStart) error {
	data, err := os.ReadFile(l.config(0))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var c struct {
		Authority string `yaml:"authority"`
		Temporal  struct {
			WorkerPayloadKey string `yaml:"worker_payload_key"`
		} `yaml:"temporal"`
	}
	if err == nil {
		err = yaml.Unmarshal(data, &c)
	}
	if err != nil {
		return fmt.Errorf("read the workers' last config: %w", err)
	}
	last.marked, last.required = c.Temporal.WorkerPayloadKey != "", c.Authority == config.AuthorityRequired
	return nil
}

// payloadKey makes the payload keys if necessary.
func (l layout) payloadKey() (path string, fresh bool, err error) {
	path = l.in("payload.key")
	_, err = payload.GenerateKey(path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", false, err
	}
	return path, err == nil, nil
}

// migration is payloads.json. A folder of an older version lacks the file.
type migration struct {
	Since time.Time `json:"since,omitzero"`
}

// upgradeGrace is for what an older version left under way: Temporal may start a child
// workflow only after the upgrade.
const upgradeGrace = 2 * time.Minute

// payloadsSince returns the time before which workflows may have older payloads. It must be
// called before the server makes its database. The first start of a version that encrypts
// payloads for their place keeps the time, which never moves: replays depend on it.
func (l layout) payloadsSince(now time.Time) (time.Time, error) {
	path := l.in("payloads.json")
	data, err := os.ReadFile(path)
	var m migration
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &m); err != nil {
			return time.Time{}, fmt.Errorf("read %s: %w", path, err)
		}
		return m.Since, nil
	case !errors.Is(err, fs.ErrNotExist):
		return time.Time{}, fmt.Errorf("read when payloads were first encrypted for their place: %w", err)
	}
	if _, err := os.Stat(l.in("temporal.db")); err == nil {
		m.Since = now.UTC().Truncate(time.Second).Add(upgradeGrace)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, fmt.Errorf("look for an older database: %w", err)
	}
	if err := writeJSON(path, m); err != nil {
		return time.Time{}, fmt.Errorf("keep when payloads were first encrypted for their place: %w", err)
	}
	return m.Since, nil
}

type ports struct {
	Frontend int `json:"frontend"`
	UI       int `json:"ui"`
	Console  int `json:"console,omitempty"`
}

// recall returns the saved ports, with 0 for one that is not free now.
func (l layout) recall() ports {
	var p ports
	data, err := os.ReadFile(l.in("ports.json"))
	if err != nil || json.Unmarshal(data, &p) != nil {
		return ports{}
	}
	for _, port := range []*int{&p.Frontend, &p.UI, &p.Console} {
		if *port < 1 || *port > 65535 || !free(*port) {
			*port = 0
		}
	}
	return p
}

func (l layout) remember(p ports) error { return writeJSON(l.in("ports.json"), p) }

func free(port int) bool {
	_, err := freePort(port)
	return err == nil
}

// freePort returns port if it is free, or any free port for 0.
func freePort(port int) (int, error) {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return 0, err
	}
	return ln.Addr().(*net.TCPAddr).Port, ln.Close()
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(data, '\n'))
}

// writeFile replaces a file atomically, mode 0600.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func nth(n int) string {
	if n == 0 {
		return ""
	}
	return "-" + strconv.Itoa(n+1)
}

// workerConfig writes the user's config with the settings of this stack.
func (l layout) workerConfig(n int, own *config.Config, address, namespace string) error {
	c := *own
	c.Temporal = config.Temporal{Address: address, Namespace: namespace, TLS: l.certificates().tls(), PayloadKey: own.Temporal.PayloadKey, PayloadsSince: own.Temporal.PayloadsSince,
		WorkerPayloadKey: own.Temporal.WorkerPayloadKey, WorkerPayloadSince: own.Temporal.WorkerPayloadSince}
	c.State = cmp.Or(c.State, l.in("worker"))
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write the worker's config: %w", err)
	}
	head := "# Written by `ctl up` at every start; change your own config file instead.\n"
	if err := writeFile(l.config(n), append([]byte(head), data...)); err != nil {
		return fmt.Errorf("write the worker's config: %w", err)
	}
	return nil
}

package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/localsocket"
	build "fairlead.dev/fairlead/internal/version"
)

// Flags holds the global flags.
type Flags struct {
	Output    string
	Config    string
	State     string
	Address   string
	Namespace string
	Timeout   time.Duration
	NoInput   bool
	Quiet     bool
}

// An App is one run of ctl.
type App struct {
	Name     string // the name of the program in its texts; see Called
	In       io.Reader
	Out, Err io.Writer // of a program: made by Screen
	Flags    Flags
	Began    bool // the command line was accepted
	Begins   bool // Temporal keeps what the command starts until a worker handles it
	closing  sync.Mutex
	closers  []io.Closer

	SignWith string

	once     sync.Map // of Once
	loadOnce sync.Once
	conf     *config.Config
	confErr  error

	typing  typing
	Strayed time.Time // when a prompt was abandoned because its approval was no longer open
}

// Behind returns a ctl with the same flags that asks nothing and prints nothing, for what runs
// behind a screen. Its caller closes it.
func (a *App) Behind() *App {
	b := &App{Name: a.Name, In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Flags: a.Flags, SignWith: a.SignWith, Began: a.Began}
	b.Flags.NoInput = true
	return b
}

// Print returns the printer for results, to standard output.
func (a *App) Print() *Printer { return NewPrinter(a.Out, a.Flags.Output == "json") }

// Note writes a message to standard error, cleaned, unless -q is given.
func (a *App) Note(format string, args ...any) {
	if !a.Flags.Quiet {
		fmt.Fprintln(a.Err, Clean(a.Called(fmt.Sprintf(format, args...))))
	}
}

// Once calls get once for a key in this run of ctl, and returns its result each time.
func Once[T any](a *App, key any, get func() (T, error)) (T, error) {
	f, _ := a.once.LoadOrStore(key, sync.OnceValues(get))
	return f.(func() (T, error))()
}

// MayAsk reports whether ctl may ask a person: standard input and error are terminals, and
// --no-input was not given.
func (a *App) MayAsk() bool {
	return !a.Flags.NoInput && IsTerminal(a.In) && IsTerminal(a.Err)
}

// Bounded returns a context that ends after Wait(def).
func (a *App) Bounded(ctx context.Context, def time.Duration) (context.Context, context.CancelFunc) {
	d := a.Wait(def)
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %s: %w", d, context.DeadlineExceeded))
}

// Wait returns the value of --timeout, or def if not given.
func (a *App) Wait(def time.Duration) time.Duration {
	if a.Flags.Timeout > 0 {
		return a.Flags.Timeout
	}
	return def
}

// Config loads the config file once. Without a file it returns the defaults.
func (a *App) Config() (*config.Config, error) {
	a.loadOnce.Do(func() {
		path, explicit := a.ConfigPath()
		if path == "" {
			a.conf = config.Default()
			return
		}
		a.conf, a.confErr = config.Load(path)
		if a.confErr != nil {
			hint := "fix the file"
			if explicit && os.IsNotExist(UnwrapAll(a.confErr)) {
				hint = "check --config and FAIRLEAD_CONFIG"
			}
			a.confErr = Usage("%v", a.confErr).Hinted("%s", hint).Because(a.confErr)
		}
	})
	return a.conf, a.confErr
}

// ConfigPath finds the config file. explicit says that the user named it. It does not look
// into the current folder, which may be somebody else's, such as a cloned repository.
func (a *App) ConfigPath() (path string, explicit bool) {
	if a.Flags.Config != "" {
		return a.Flags.Config, true
	}
	if p := os.Getenv("FAIRLEAD_CONFIG"); p != "" {
		return p, true
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", false
	}
	path = filepath.Join(dir, "fairlead", "config.yaml")
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	return path, false
}

// StateDir returns the absolute path of the local stack's folder. It fails if other users
// could replace what is in there.
func (a *App) StateDir() (string, error) {
	dir := cmp.Or(a.Flags.State, os.Getenv("FAIRLEAD_STATE"))
	if dir == "" {
		base := os.Getenv("XDG_STATE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return "", Usage("find the state folder: %v", err).Hinted("give --state DIR")
			}
			base = filepath.Join(home, ".local", "state")
		}
		dir = filepath.Join(base, "fairlead")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := localsocket.CheckFolder(dir); errors.Is(err, localsocket.ErrFolder) {
		return "", Failed("find the state folder: %v", err).Hinted("--state names another folder").Because(err)
	}
	return dir, nil
}

// OnClose registers c to be closed when ctl ends.
func (a *App) OnClose(c io.Closer) {
	a.closing.Lock()
	defer a.closing.Unlock()
	a.closers = append(a.closers, c)
}

// Close stops reading the terminal, and closes what OnClose registered, newest first.
func (a *App) Close() {
	a.Lend()
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i].Close()
	}
	a.closers = nil
	for _, w := range []io.Writer{a.Out, a.Err} {
		if s, ok := w.(*screen); ok {
			s.flush()
		}
	}
}

// Version returns the version of this build.
func Version() string { return build.String() }

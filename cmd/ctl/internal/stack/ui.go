package stack

import (
	"errors"
	"fmt"
	"html/template"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/stack"
)

// A linkView is the JSON of `ctl ui`.
type linkView struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at"`
}

func UI(a *core.App) *cobra.Command {
	var stay, temporal bool
	c := &cobra.Command{
		Use:   "ui",
		Short: "log a browser in to the console of the stack on this machine",
		Long: `Print a link to the console of the stack that ctl up runs here, and open it if there
is a browser and a terminal. The link works once and for five minutes. It logs the
browser in for twelve hours. With authority: required, it logs in the principal of
the config. Give it to nobody: who opens it acts as you.

With --temporal, the link leads to Temporal's own UI. That login ends when the
server is restarted.`,
		Example: "  ctl ui\n  ctl ui --temporal\n  ctl ui --no-browser\n  ctl ui -o json | jq -r .url",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, args []string) error {
			info, err := conn.Stack(a)
			if errors.Is(err, stack.ErrNone) {
				return core.Unreachable("open the UI: %v", err).Hinted("`ctl up` starts a stack; another server's UI has its own login").Because(err)
			}
			if err != nil {
				return core.Failed("open the UI: %v", err).Because(err)
			}
			link, end, err := info.Link(time.Now())
			if !temporal {
				link, end, err = consoleLink(a, info)
			}
			if errors.Is(err, stack.ErrNoConsole) {
				return core.Refused("open the UI: %v", err).Hinted("`ctl down`, then `ctl up`; `ctl ui --temporal` opens Temporal's UI").Because(err)
			}
			if errors.Is(err, stack.ErrNoLogin) {
				return core.Refused("open the UI: %v", err).Hinted("`ctl down`, then `ctl up`").Because(err)
			}
			var told *core.Error
			if errors.As(err, &told) {
				return told
			}
			if err != nil {
				return core.Failed("open the UI: %v", err).Hinted("`ctl doctor` says what is wrong").Because(err)
			}
			if !stay && a.Flags.Output != "json" && core.IsTerminal(a.Out) {
				if dir, err := a.StateDir(); err == nil && browse(dir, link) == nil {
					a.Note("a browser opens it; if none appears, open the link yourself")
				}
			}
			return a.Print().Show(linkView{link, end.UTC()}, func(p *core.Printer) { p.Printf("%s\n", link) })
		},
	}
	c.Flags().BoolVar(&temporal, "temporal", false, "to Temporal's own UI")
	c.Flags().BoolVar(&stay, "no-browser", false, "only print the link")
	return c
}

// consoleLink logs in the principal of the config, or the owner of the stack.
func consoleLink(a *core.App, info *stack.Info) (link string, end time.Time, err error) {
	conf, err := a.Config()
	if err != nil {
		return "", end, err
	}
	who := ""
	if conf.Authority == config.AuthorityRequired {
		if who = conf.Principal; who == "" {
			return "", end, core.Usage("open the UI: with authority: required, the console must know as whom it acts").Hinted("set principal in the config")
		}
	}
	return info.ConsoleLink(who, time.Now())
}

var leads = template.Must(template.New("leads").Parse(
	`<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={{.}}"><a href="{{.}}">Go on</a>` + "\n"))

// browse has the desktop open a link. The link is in a file that only we can read, because
// other users can read arguments.
func browse(dir, link string) error {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return errors.New("there is no desktop")
	}
	path, err := exec.LookPath(opener)
	if err != nil {
		return err
	}
	var page strings.Builder
	if err := leads.Execute(&page, link); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "ui-*.html") // mode 0600
	if err != nil {
		return fmt.Errorf("write the page that leads to the UI: %w", err)
	}
	_, err = f.WriteString(page.String())
	name := filepath.Join(dir, "ui.html")
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	cmd := exec.Command(path, name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it outlives ctl
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

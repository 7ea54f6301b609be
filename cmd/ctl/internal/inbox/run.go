package inbox

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/term"
	"fairlead.dev/fairlead/internal/api"
)

// Run shows the inbox on ctl's terminal until the person leaves.
func Run(ctx context.Context, a *core.App, src Source) error {
	out, ok := core.TerminalFile(a.Out)
	if !ok {
		return core.Usage("show the inbox: standard output is not a terminal").Hinted("give --plain")
	}
	a.Lend()
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{ctx: ctx, src: src}
	defer func() { cancel(); f.all.Wait() }()
	m := New(ctx, src, time.Now, core.Colours(a.Out), f.to)
	f.p = tea.NewProgram(m, term.Options(ctx, a, out)...)
	_, err := f.p.Run()
	switch {
	case errors.Is(err, tea.ErrInterrupted):
		return core.ExitStatus(core.ExitInterrupted) // silently: the person is back at the shell
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

// A follower follows the session under the cursor.
type follower struct {
	ctx  context.Context // of Run
	src  Source
	p    *tea.Program
	stop context.CancelFunc
	all  sync.WaitGroup
}

// to follows another session. The model calls it, one call after the other.
func (f *follower) to(session string) {
	if f.stop != nil {
		f.stop()
	}
	ctx, stop := context.WithCancel(f.ctx)
	f.stop = stop
	f.all.Go(func() {
		f.src.Follow(ctx, session, func(ev api.Event) { f.p.Send(heard{session, ev}) })
	})
}

// An asideCommand runs while the terminal is not the program's.
type asideCommand struct{ run func() error }

func (c *asideCommand) Run() error        { return c.run() }
func (*asideCommand) SetStdin(io.Reader)  {}
func (*asideCommand) SetStdout(io.Writer) {}
func (*asideCommand) SetStderr(io.Writer) {}

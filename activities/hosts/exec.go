package hosts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/records"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// RunExec starts the command only once, follows it to its end, stores and streams its
// output, and removes its folder. Any worker can take over. If RunExec is cancelled, it
// ends the command. The command's input is /dev/null. If the host cannot be reached at
// first, RunExec fails at once: a command that starts much later is not wanted.
func (h *Activities) RunExec(ctx context.Context, in protocol.ExecInput) (protocol.ExecResult, error) {
	a := ExecAttempt{N: activity.GetInfo(ctx).Attempt, Stop: activity.GetWorkerStopChannel(ctx)}
	out, err := ExecOn(ctx, h.Site, in, a)
	f := kit.Failing{Epoch: execEpoch(a.N)}
	var typed *kit.TypedError
	switch {
	case errors.Is(err, kit.ErrHandOver):
		f.Delay = kit.HandOver
	case errors.Is(err, hostexec.ErrOutcomeUnknown) && !errors.As(err, &typed):
		f.Delay = kit.NextTry(a.N, 0)
	}
	return out, f.Failure(ctx, "run a command on "+in.Host.Name, err)
}

func execEpoch(n int32) hostexec.Epoch {
	return hostexec.Epoch{Generation: 1, Attempt: int64(n)}
}

// An ExecAttempt is one attempt of RunExec.
type ExecAttempt struct {
	N    int32
	Stop <-chan struct{} // closed when this worker stops
}

// notBegun makes the error of an unreachable host final on the first attempt.
func notBegun(a ExecAttempt, err error) error {
	if a.N > 1 || !errors.Is(err, hostexec.ErrUnreachable) {
		return err
	}
	return &kit.TypedError{Kind: protocol.ErrTypeUnreachable, Hint: "nothing was run; check that the host is up: `ctl host check`", Err: err}
}

// ExecOn does the work of RunExec.
func ExecOn(ctx context.Context, s *site.Site, in protocol.ExecInput, a ExecAttempt) (protocol.ExecResult, error) {
	if err := kit.CheckID("exec", in.ID); err != nil {
		return protocol.ExecResult{}, err
	}
	if len(in.Argv) == 0 || in.Argv[0] == "" {
		return protocol.ExecResult{}, kit.BadInput("there is no command to run")
	}
	for _, arg := range in.Argv {
		if strings.ContainsRune(arg, 0) {
			return protocol.ExecResult{}, kit.BadInput("a NUL byte cannot be part of a command")
		}
	}
	if err := site.CheckExec(ctx, s, in.Host); err != nil {
		return protocol.ExecResult{}, err
	}
	host, err := s.Host(in.Host)
	if err != nil {
		return protocol.ExecResult{}, err
	}
	if err := place(ctx, s, in); err != nil {
		return protocol.ExecResult{}, err
	}
	root, err := hostexec.Root(ctx, host, in.Host)
	if err != nil {
		return protocol.ExecResult{}, notBegun(a, fmt.Errorf("find the root folder: %w", err))
	}
	e := &execution{
		site: s, id: in.ID, host: host, within: path.Join(root, "exec"), dir: path.Join(root, "exec", in.ID),
		mark: "exec/" + in.ID, at: protocol.Claim{Session: "exec/" + in.ID, Host: in.Host, Generation: 1},
	}
	e.fence = hostexec.Fence{Dir: e.dir, Epoch: execEpoch(a.N)}
	if a.N > 1 {
		// an earlier attempt may have left the folder
		if out, ended, err := records.ReadExecEnd(ctx, s.Store, in.ID); err != nil || ended {
			if err == nil {
				err = e.remove(ctx)
			}
			return out, err
		}
	}
	// Its disk may not be mounted.
	if err := Enter(ctx, s, host, e.at, root); err != nil {
		return protocol.ExecResult{}, notBegun(a, err)
	}
	out, err := e.run(ctx, in.Argv, a)
	if err != nil && ctx.Err() != nil && !errors.Is(err, kit.ErrHandOver) {
		return protocol.ExecResult{}, e.abandon(ctx)
	}
	return out, err
}

// place records the host before there is output, for those who ask to see it. Labels count
// only where an access file does.
func place(ctx context.Context, s *site.Site, in protocol.ExecInput) error {
	p := records.ExecPlace{Host: in.Host.Name}
	if s.Judge != nil {
		known, err := s.AskHosts(ctx)
		if err != nil { // then the output is for those whom labels do not matter
			s.Logger.Warn("the labels of a host are not known", "host", in.Host.Name, "exec", in.ID, "err", err)
		}
		for _, h := range known {
			if h.Name == in.Host.Name {
				p.Labels = map[string]string{}
				maps.Copy(p.Labels, h.Labels)
			}
		}
	}
	other, err := records.PlaceExec(ctx, s.Store, in.ID, p)
	if err == nil && other != "" {
		err = kit.BadInput("command %s runs or ran on host %s: give it another id", in.ID, other)
	}
	return err
}

type execution struct {
	site                  *site.Site
	id, dir, within, mark string
	at                    protocol.Claim
	host                  hostexec.Host
	fence                 hostexec.Fence
}

func (e *execution) proc() string { return path.Join(e.dir, "proc", "command") }

func (e *execution) run(ctx context.Context, argv []string, a ExecAttempt) (protocol.ExecResult, error) {
	var out protocol.ExecResult
	_, err := process.Start(ctx, e.host, process.Spec{
		Dir: e.proc(), Fence: e.fence, Mark: e.mark,
		Argv: append([]string{"/bin/sh", "-c", `exec "$@" </dev/null`, "sh"}, argv...),
	})
	if err != nil {
		return out, notBegun(a, fmt.Errorf("start it: %w", err))
	}
	st, sizes, err := e.follow(ctx, a)
	if err != nil {
		return out, err
	}
	out = protocol.ExecResult{State: string(st.State), Code: st.Code, Stdout: sizes[0], Stderr: sizes[1]}
	data, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	if err := e.site.Store.Create(ctx, records.ExecEndKey(e.id), data); err != nil && !errors.Is(err, store.ErrExists) {
		return out, fmt.Errorf("store how it ended: %w", err)
	}
	site.Publish(e.site, records.ExecTopic(e.id), records.LiveState, 0, records.ExecLive{Ended: true, Result: out})
	return out, e.remove(ctx)
}

func (e *execution) follow(ctx context.Context, a ExecAttempt) (st process.Status, sizes [2]int64, err error) {
	held := context.WithoutCancel(ctx)
	fctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan struct{})
	go func() {
		select {
		case <-a.Stop:
			cancel(kit.ErrHandOver)
		case <-stopped:
		}
	}()
	defer close(stopped)

	type end struct {
		i    int
		st   process.Status
		size int64
		err  error
	}
	ends := make(chan end, 2)
	for i, stream := range []string{records.Stdout, records.Stderr} {
		go func() {
			st, size, err := e.followOne(fctx, held, stream)
			ends <- end{i, st, size, err}
		}()
	}
	for range 2 {
		got := <-ends
		sizes[got.i] = got.size
		if got.i == 0 {
			st = got.st
		}
		if got.err != nil && err == nil {
			err = got.err
			cancel(got.err)
		}
	}
	if err != nil && errors.Is(context.Cause(fctx), kit.ErrHandOver) {
		err = kit.ErrHandOver
	}
	return st, sizes, err
}

// followOne shows and stores one stream, from where the stored output ends.
func (e *execution) followOne(ctx, held context.Context, stream string) (process.Status, int64, error) {
	var st process.Status
	log, err := records.OpenLog(ctx, e.site.Store, e.id, stream, e.site.Now)
	if err != nil {
		return st, 0, err
	}
	at := log.Stored
	att, err := process.Attach(ctx, e.host, e.proc(), process.AttachOptions{
		Offset: at, Follow: true, ErrLog: stream == records.Stderr, Untrimmed: true,
	})
	if err != nil {
		return st, at, fmt.Errorf("follow its %s: %w", stream, err)
	}
	defer att.Close()
	done := make(chan struct{})
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		tick := time.NewTicker(records.PieceAge / 2)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				_ = log.FlushOld(held) // the log remembers the error
			}
		}
	}()
	buf := make([]byte, records.ChunkBytes)
	for err == nil {
		var n int
		n, err = att.Read(buf)
		if n > 0 {
			site.Publish(e.site, records.ExecTopic(e.id), records.LiveOutput, 0, protocol.ExecChunk{Stream: stream, At: at, Data: buf[:n]})
			if addErr := log.Add(held, at, buf[:n]); addErr != nil {
				err = addErr
			}
			at += int64(n)
		}
	}
	close(done)
	<-joined
	if flushErr := log.Flush(held); flushErr != nil && errors.Is(err, io.EOF) {
		err = flushErr
	}
	if !errors.Is(err, io.EOF) {
		return st, at, fmt.Errorf("follow its %s: %w", stream, err)
	}
	return att.Status(), at, nil
}

func (e *execution) remove(ctx context.Context) error {
	if err := hostexec.RemoveTree(ctx, e.host, e.dir, e.within, &e.fence); err != nil {
		return fmt.Errorf("remove its folder %s: %w", e.dir, err)
	}
	ForgetRooted(ctx, e.site, e.at, e.at.Generation)
	return nil
}

// abandon ends a cancelled command. The error says that it was cancelled, or may still run.
func (e *execution) abandon(ctx context.Context) error {
	ctx, cancel := kit.Afterwards(ctx)
	defer cancel()
	_, err := process.Stop(ctx, e.host, e.proc(), e.fence, 2*time.Second)
	if err == nil {
		_, err = process.Reap(ctx, e.host, e.dir, e.mark, e.fence)
	}
	if err == nil {
		err = e.remove(ctx)
	}
	site.Publish(e.site, records.ExecTopic(e.id), records.LiveState, 0, records.ExecLive{Ended: true, Result: protocol.ExecResult{State: "cancelled"}})
	if err == nil {
		return context.Canceled
	}
	e.site.Logger.Error("a cancelled command may still run", "host", e.host.Name(), "folder", e.dir, "err", err)
	return &kit.TypedError{Kind: protocol.ErrTypeOutcomeUnknown,
		Hint: fmt.Sprintf("look on %s for a process with FAIRLEAD_SESSION=%s in its environment and end it; its folder is %s", e.host.Name(), e.mark, e.dir),
		Err:  fmt.Errorf("it was cancelled, could not be stopped, and may still run: %v", err)}
}

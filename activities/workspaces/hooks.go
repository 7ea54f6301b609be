package workspaces

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A HookRun is the run of a hook.
type HookRun struct {
	Hook   string `json:"hook"`
	State  string `json:"state"` // see below
	Code   int    `json:"code,omitempty"`
	Output string `json:"output,omitempty"` // the end, redacted
}

// Values of HookRun.State.
const (
	HookDone    = "done"
	HookFailed  = "failed"
	HookLate    = "late"
	HookUnknown = "unknown"
)

const hookShown = 4 << 10

const hookScript = `exec /bin/sh -c "$1" "$2"`

// RunHook runs a hook at most once for each pair of hook and once.
func RunHook(ctx context.Context, s *site.Site, j Job, w Workspace, hook, script, once string, hide *seeds.Redactor) (HookRun, error) {
	run := HookRun{Hook: hook}
	j.Name = "hook." + hook
	if once != "" {
		j.Name += "." + once
	}
	j.script, j.args, j.dir = hookScript, []string{script, hook}, j.Layout.WorkDir
	j.limit = cmp.Or(w.Hooks.Timeout, HookTimeout)
	j.env = map[string]string{"FAIRLEAD_HOOK": hook, "FAIRLEAD_ID": j.claim.Session, "FAIRLEAD_HOST": j.Host.Name(), "FAIRLEAD_WORKSPACE": j.Layout.WorkDir}
	end, err := j.run(ctx)
	if err != nil {
		return run, fmt.Errorf("hook %s: %w", hook, err)
	}
	run.Code, run.Output = end.Code, hide.String(lastLines(end.Output, hookShown))
	switch {
	case end.Late:
		run.State, run.Code = HookLate, 0
	case end.State != process.Exited:
		run.State = HookUnknown
	case end.Code != 0:
		run.State = HookFailed
	default:
		run.State = HookDone
	}
	return run, nil
}

func (r HookRun) text(limit time.Duration) string {
	switch r.State {
	case HookDone:
		return fmt.Sprintf("hook %s: done", r.Hook)
	case HookLate:
		return fmt.Sprintf("hook %s was stopped, because it did not end within %s", r.Hook, cmp.Or(limit, HookTimeout))
	case HookUnknown:
		return fmt.Sprintf("hook %s ended without an exit status", r.Hook)
	}
	return fmt.Sprintf("hook %s failed with status %d", r.Hook, r.Code)
}

// err says why a session cannot go on, or returns nil.
func (r HookRun) err(host string, limit time.Duration) error {
	if r.State == HookDone {
		return nil
	}
	text := r.text(limit) + " on " + host
	if r.Output != "" {
		text += ": " + lastLines(r.Output, 1<<10)
	}
	hint := "mend the script in --hooks"
	if r.State == HookLate {
		hint = "mend the script in --hooks, or give it more time there (timeout)"
	}
	return &kit.TypedError{Kind: protocol.ErrTypeWorkspace, Err: fmt.Errorf("%s", text), Hint: hint}
}

// Note returns the run's note for the transcript.
func (r HookRun) Note(limit time.Duration) conversation.Note {
	data := map[string]string{"hook": r.Hook, "state": r.State}
	if r.Output != "" {
		data["output"] = r.Output
	}
	if r.State == HookFailed {
		data["code"] = fmt.Sprint(r.Code)
	}
	return conversation.Note{Type: "state", Text: r.text(limit), Data: data}
}

// LastHooks runs hooks before a run ends or a folder is removed. It returns notes; a failed
// hook stops nothing.
func LastHooks(ctx context.Context, s *site.Site, j Job, w *Workspace, hide site.Secrets, hooks ...string) (notes []conversation.Note) {
	if w == nil {
		return nil
	}
	for _, hook := range hooks {
		script := map[string]string{HookAfterRun: w.Hooks.AfterRun, HookBeforeRemove: w.Hooks.BeforeRemove}[hook]
		if strings.TrimSpace(script) == "" {
			continue
		}
		run, err := RunHook(ctx, s, j, *w, hook, script, fmt.Sprintf("%d.%d", j.claim.Generation, j.claim.Pump), hide.All)
		n := run.Note(w.Hooks.Timeout)
		if err != nil {
			n.Text, n.Data["state"] = hide.All.String(err.Error()), HookUnknown
		}
		n.ID, n.At = fmt.Sprintf("h%d.%d.%s", j.claim.Generation, j.claim.Pump, hook), s.Now()
		if n.Data["state"] != HookDone {
			s.Logger.Warn("a hook did not end well", "session", j.claim.Session, "hook", hook, "state", n.Data["state"])
		}
		notes = append(notes, n)
	}
	return notes
}

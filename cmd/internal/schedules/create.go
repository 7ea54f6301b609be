package schedules

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
)

// Catchup is how late a missed start may be, by default.
const Catchup = 10 * time.Minute

// CheckName refuses what cannot be the name of a schedule.
func CheckName(name string) error {
	if err := errkind.CheckName("schedule name", name); err != nil {
		return err
	}
	if len(name) > protocol.MaxScheduleName {
		return errkind.Usage("schedule name %s: at most %d characters, since the ids of its sessions and batches begin with it", name, protocol.MaxScheduleName)
	}
	return nil
}

// Folder names a new folder in the store for what each firing needs.
func Folder(name string) string {
	return owned.Owner{Kind: owned.Schedule, ID: name}.NewFolder()
}

// A New schedule is checked as far as that needs nobody.
type New struct {
	Name    string
	Options client.ScheduleOptions
	When    []string // in words
	Zone    string   // of the workflow that a firing starts
	Note    protocol.ScheduleNote
	// Check refuses unknown names. Pack keeps what every firing needs.
	Check func(context.Context) error
	Pack  func(context.Context, *schedule.FireInput) error
}

// Create creates a schedule. It checks all names first.
func (h Hand) Create(ctx context.Context, n New) (v protocol.ScheduleView, err error) {
	name, opts, doing := n.Name, n.Options, "create schedule "+n.Name
	if err := n.Check(ctx); err != nil {
		return v, err
	}
	taken := errkind.Refused("%s: a schedule of that name exists", doing).Hinted("`ctl schedule delete %s` removes it", name)
	if _, _, err := Describe(ctx, h.Conn, doing, name); err == nil {
		return v, taken
	} else if errkind.ExitCode(err) != errkind.ExitNotFound {
		return v, err
	}
	in := schedule.FireInput{Schedule: name}
	if err := n.Pack(ctx, &in); err != nil {
		return v, err
	}
	signed, err := h.Side.Sign(ctx, doing, command.Start, opts.ID, protocol.TypeFire, []any{in})
	if err != nil {
		return v, err
	}
	opts.Action = &client.ScheduleWorkflowAction{
		ID: opts.ID, Workflow: protocol.TypeFire, TaskQueue: protocol.TaskQueueOf(n.Zone), Args: signed,
		StaticSummary: "schedule " + name,
	}
	note := n.Note
	note.When, note.By = n.When, h.By
	opts.Memo = map[string]any{protocol.MemoSchedule: note}
	if err := OnRecord(ctx, h.Conn, h.By, doing, name, n.Zone, protocol.ScheduleCreate, aboutNew(opts, n.When, signed[0])); err != nil {
		return v, err
	}
	bctx, cancel := h.Bounded(ctx, flows.AnswerWait)
	defer cancel()
	s, err := h.ScheduleClient().Create(bctx, opts)
	if errors.Is(err, temporalsdk.ErrScheduleAlreadyRunning) {
		return v, taken.Because(err)
	}
	if err := Explain(bctx, h.Conn, doing, err); err != nil {
		return v, err
	}
	if v, err = Show(ctx, h.Conn, name, false); err != nil {
		return v, err
	}
	if len(v.Next) == 0 {
		// Only Temporal combines calendars, exceptions and limits, so only an existing
		// schedule shows its times.
		if err := Explain(bctx, h.Conn, doing, s.Delete(bctx)); err != nil {
			return v, err
		}
		return v, errkind.Usage("%s: none of its times is in the future", doing).Hinted("look at years, --except, --from and --until")
	}
	return v, nil
}

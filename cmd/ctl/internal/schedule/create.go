package schedule

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/cmd/ctl/internal/batch"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/cmd/internal/schedules"
	"fairlead.dev/fairlead/internal/owned"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
	"fairlead.dev/fairlead/workflows/session"
)

func addWhen(c *cobra.Command, f *schedules.When) {
	fl := c.Flags()
	fl.StringArrayVar(&f.Cron, "cron", nil, "when: `EXPR` of cron's five fields (minute hour day month weekday), or @hourly, @daily, @weekly, @monthly; repeatable")
	core.Durations(c, &f.Every, "every", "when: so often, counted from 1970-01-01 UTC; repeatable")
	fl.StringArrayVar(&f.Calendar, "calendar", nil, "when: times that match all of `\"FIELD=VALUES …\"`, of second, minute, hour, day, month, weekday, year: \"weekday=mon-fri hour=22 minute=0,30\"; repeatable")
	fl.StringArrayVar(&f.Except, "except", nil, "but not when this `calendar` matches; without an hour, a minute, a second all of them; repeatable")
	fl.StringVar(&f.TZ, "tz", "UTC", "time `zone` of --cron, --calendar, --except, such as Europe/Berlin")
	fl.StringVar(&f.From, "from", "", "not before this `moment`")
	fl.StringVar(&f.Until, "until", "", "not after this `moment`")
	fl.DurationVar(&f.Jitter, "jitter", 0, "begin up to so much later, by chance, so that not all begins at once")
	fl.DurationVar(&f.Catchup, "catchup", schedules.Catchup, "how late a start may be that was missed because Temporal was down")
}

// A fired is what stands after "--": flags and prompt.
type fired struct {
	flags start.Flags
	with  start.InputFlags
	text  string
	given func(flag string) bool
}

func parseFired(a *core.App, args []string) (*fired, error) {
	f := &fired{}
	c := &cobra.Command{Use: "run"}
	f.flags.Add(c, "")
	f.with.Add(c, false)
	if err := c.ParseFlags(args); err != nil {
		return nil, core.Usage("after --: %v", err).Hinted("flags of `ctl run` and the prompt go there; a session that a schedule begins closes after its turn and has an id of its own")
	}
	rest := c.Flags().Args()
	if len(rest) != 1 {
		return nil, core.Usage("after --: %d prompts are given: want one", len(rest)).Hinted("ctl schedule create nightly --cron '30 22 * * *' -- --host web-1 'run the tests'")
	}
	f.given = c.Flags().Changed
	var err error
	f.text, err = start.Prompt(a, rest[0])
	return f, err
}

func (f *fired) options(a *core.App, name string) (session.Options, start.Extras, error) {
	opt, err := start.Options(a, &f.flags)
	if err != nil {
		return opt, start.Extras{}, err
	}
	for _, flag := range []string{"id", "park-after"} {
		if f.given(flag) {
			return opt, start.Extras{}, core.Usage("--%s: a session that a schedule begins closes after its turn and has an id of its own", flag).
				Hinted("it is %s-<time>; `ctl session list --schedule %s` finds it", name, name)
		}
	}
	x, err := f.with.Look()
	opt.CloseAfter, opt.ParkAfter, opt.Origin = true, 0, protocol.OriginSchedule(name)
	x.Work = &f.flags.Work
	return opt, x, err
}

func createCommand(a *core.App) *cobra.Command {
	var when schedules.When
	var overlap, note, batch string
	var paused, pauseOnFailure bool
	c := &cobra.Command{
		Use: "create NAME --cron EXPR|--every D|--calendar C -- RUN-FLAGS… PROMPT | --batch FILE", Short: "start sessions or batches by the clock",
		Long: `Has Temporal begin a session at each of the times: one of 'ctl run', with the flags
and the prompt after --. Its id is NAME-<time in UTC>; 'ctl session list --schedule NAME'
finds them all. With --batch it is a batch, as of 'ctl batch run FILE', and 'ctl batch
list --schedule NAME' finds those: the file and all that it names are read now, and
each batch begins with what they were. What still runs when the next time comes is
dealt with by --overlap, a batch as a whole. Where cron restricts both the day of the month and the weekday,
either is enough, as in cron; of --calendar all fields have to match. What falls
into an hour that a change of the clocks leaves out does not begin that day.`,
		Example: `  ctl schedule create nightly --cron '30 22 * * 1-5' --tz Europe/Berlin -- --host web-1 --seed team 'run the tests and mend what fails'
  ctl schedule create sweep --every 6h --jitter 10m --overlap buffer-one -- --label os=linux --seed team 'look for new advisories'
  ctl schedule create upgrades --cron '0 1 * * 6' --overlap cancel-other --batch upgrade.yaml
  ctl schedule create weekly --calendar 'weekday=sat hour=4' --except 'month=dec day=24-31' --pause -- --host web-1 - < prompt.txt`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			switch whole := c.ArgsLenAtDash() < 0 && len(args) == 1; {
			case batch != "" && !whole:
				return core.Usage("with --batch FILE, the file describes all that is started: give one NAME, and nothing after --").Hinted("see `ctl schedule create --help`")
			case batch == "" && c.ArgsLenAtDash() != 1:
				return core.Usage("one NAME, then --, flags of `ctl run` and the prompt; or --batch FILE").Hinted("see `ctl schedule create --help`")
			}
			name := args[0]
			if err := schedules.CheckName(name); err != nil {
				return err
			}
			if _, err := schedules.Location(when.TZ); err != nil {
				return core.BadTimeZone(when.TZ)
			}
			spec, err := when.Spec()
			if err != nil {
				return err
			}
			policy, err := schedules.ParseOverlap(overlap)
			if err != nil {
				return err
			}
			what, err := whatIsScheduled(a, name, batch, args[1:])
			if err != nil {
				return err
			}
			opts := client.ScheduleOptions{
				ID: protocol.ScheduleID(name), Spec: spec, Overlap: policy, CatchupWindow: when.Catchup,
				Paused: paused, PauseOnFailure: pauseOnFailure, Note: note,
			}
			return createSchedule(c.Context(), a, name, opts, when.Words(), what)
		},
	}
	addWhen(c, &when)
	c.Flags().StringVar(&overlap, "overlap", "skip", overlapHelp)
	c.Flags().StringVar(&batch, "batch", "", "begin a batch of this `FILE` each time; - is standard input")
	c.Flags().BoolVar(&paused, "pause", false, "create it paused")
	c.Flags().BoolVar(&pauseOnFailure, "pause-on-failure", false, "pause it when a session, its turn or an item of a batch fails")
	c.Flags().StringVar(&note, "note", "", "a `text` that is shown with it")
	return c
}

func whatIsScheduled(a *core.App, name, batch string, args []string) (*scheduled, error) {
	if batch != "" {
		return scheduledBatch(a, batch, name)
	}
	f, err := parseFired(a, args)
	if err != nil {
		return nil, err
	}
	return f.scheduled(a, name)
}

// ofSchedule names a new folder in the store.
func ofSchedule(name string) string {
	return owned.Owner{Kind: owned.Schedule, ID: name}.NewFolder()
}

// A scheduled is what a schedule starts, checked without Temporal.
type scheduled struct {
	zone string // of the workflow that a firing starts
	note protocol.ScheduleNote
	// check refuses unknown names. pack uploads what every firing needs.
	check func(context.Context, *conn.Conn) error
	pack  func(context.Context, *conn.Conn, *schedule.FireInput) error
}

func (f *fired) scheduled(a *core.App, name string) (*scheduled, error) {
	opt, x, err := f.options(a, name)
	if err != nil {
		return nil, err
	}
	return &scheduled{
		zone:  opt.Zone,
		note:  protocol.ScheduleNote{What: core.OneLine(f.text, 200), Zone: opt.Zone},
		check: func(ctx context.Context, t *conn.Conn) error { return t.CheckNames(ctx, &opt) },
		pack: func(ctx context.Context, t *conn.Conn, in *schedule.FireInput) error {
			folder := ofSchedule(name)
			m, err := start.Message(ctx, a, t, folder, f.text, "first")
			if err == nil {
				err = start.Attach(ctx, a, t, folder, x, &m)
			}
			if err == nil {
				err = x.Work.Send(ctx, a, t, batch.UploadName(x.Work.Tree), folder, &opt)
			}
			if err == nil {
				err = start.KeepGiven(ctx, a, t, folder, &opt)
			}
			of := session.NewInput("", opt, &m) // each firing has an id of its own
			in.Session = &of
			return err
		},
	}, nil
}

// scheduledBatch is for a batch of the file as it is now.
func scheduledBatch(a *core.App, path, name string) (*scheduled, error) {
	b, err := batch.Read(a, path)
	if err != nil {
		return nil, err
	}
	if err := b.Named(protocol.LongestFiredID(name)); err != nil {
		return nil, err
	}
	return &scheduled{
		note:  protocol.ScheduleNote{What: core.OneLine(b.Name, 200), Batch: len(b.Items)},
		check: func(ctx context.Context, t *conn.Conn) error { return b.CheckNames(ctx, a, t) },
		pack: func(ctx context.Context, t *conn.Conn, in *schedule.FireInput) error {
			spec, err := b.Pack(ctx, a, t, ofSchedule(name))
			in.Batch, in.By = &spec, core.Person()
			return err
		},
	}, nil
}

func createSchedule(ctx context.Context, a *core.App, name string, opts client.ScheduleOptions, when []string, what *scheduled) error {
	doing := "create schedule " + name
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	by, err := t.By(ctx, doing)
	if err != nil {
		return err
	}
	v, err := schedules.Hand{Conn: t.Conn, By: by, Person: core.Person()}.Create(ctx, schedules.New{
		Name: name, Options: opts, When: when, Zone: what.zone, Note: what.note,
		Check: func(ctx context.Context) error { return what.check(ctx, t) },
		Pack:  func(ctx context.Context, in *schedule.FireInput) error { return what.pack(ctx, t, in) },
	})
	if err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) {
		state := "it is paused"
		if !v.Paused {
			state = "the next is at " + v.Next[0].Format(time.RFC3339)
		}
		p.Printf("schedule %s: %s\n", name, state)
	})
}

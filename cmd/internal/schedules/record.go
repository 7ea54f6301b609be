package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/client"
	temporalsdk "go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/schedule"
)

// MaxAbout bounds, in characters, what a person says about an act.
const MaxAbout = 500

// OnRecord records an act of by on a schedule, before Temporal is asked for it. It returns the refusal of a worker. If no worker is up, Temporal keeps the record, and
// the person goes on. With workers of an older release, the person goes on without a record.
func OnRecord(ctx context.Context, t *flows.Conn, by, doing, name, zone, act, about string) error {
	opts := client.StartWorkflowOptions{
		ID: protocol.ScheduleActID(name, act, protocol.RandomID()), TaskQueue: protocol.TaskQueueOf(zone), StaticSummary: "record of: " + doing,
	}
	if _, err := t.Start(ctx, doing, opts, protocol.TypeFire, schedule.FireInput{Schedule: name, Act: act, About: about, By: by}); err != nil {
		return err
	}
	up := t.Silence.Lasted() == 0
	if up {
		workers, err := t.Pollers(ctx, zone)
		if err != nil {
			return err
		}
		up = len(workers) > 0
	}
	if up {
		bctx, cancel := t.Bounded(ctx, flows.AnswerWait)
		defer cancel()
		err := t.GetWorkflow(bctx, opts.ID, "").Get(bctx, nil)
		if knowsNoActs(err, name) {
			t.Side.Note("%s: this command is not on record, since a worker of an older release answered, which keeps no records of schedules", doing)
			return nil
		}
		if !flows.OutOfTime(bctx, err) {
			return t.Explain(ctx, doing, err)
		}
	}
	t.Side.Note("no worker answers: Temporal keeps the record of this command until one does")
	return nil
}

// knowsNoActs reports whether err is the answer of a worker of a release that put no acts on
// record. Such a worker takes an act for a firing of the schedule. Newer workers never answer so.
func knowsNoActs(err error, name string) bool {
	var app *temporalsdk.ApplicationError
	if !errors.As(err, &app) {
		return false
	}
	switch app.Type() {
	case protocol.RefusedBadInput:
		return strings.Contains(app.Message(), "it does not give exactly one of session and batch")
	case protocol.RefusedForbidden:
		return strings.Contains(app.Message(), fmt.Sprintf("it was signed for %.100q, and this is ", protocol.ScheduleID(name)))
	}
	return false
}

// aboutNew describes a new schedule for its record: when it begins something, and the digest of
// what. The record of each firing has the same digest.
func aboutNew(opts client.ScheduleOptions, when []string, input any) string {
	text := fmt.Sprintf("%s, time zone %s, overlap %s", strings.Join(when, "; "), cmp.Or(opts.Spec.TimeZoneName, "UTC"), OverlapWord(opts.Overlap))
	if opts.Paused {
		text += ", paused"
	}
	if raw, err := json.Marshal(input); err == nil {
		if e, err := command.EvidenceOf(opts.ID, protocol.TypeFire, raw); err == nil {
			return fmt.Sprintf("begins what has the digest %s: %s", e.Args, text)
		}
	}
	return text
}

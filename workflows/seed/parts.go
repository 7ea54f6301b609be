package seed

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

// seedCore holds the data that all parts of a seed use.
type seedCore struct {
	ctx workflow.Context
	// reapEvery is the interval at which the seed checks whether its holders have ended.
	reapEvery time.Duration

	name string
	st   *State
	roll *kit.Rollover
	work bool // something arrived: serve has to look

	asking  bool          // a verification or a refresh goes on
	rolling bool          // this run is about to end: no verification or refresh begins
	rec     *recovery     // the recovery in progress
	read    ruling.Ruling // the seed's policy, parsed
	alarm   *kit.Alarm    // to look after holders; its time is carried, so that no rollover delays it
}

// seed is the workflow while it runs. Its own methods are the loop, the handlers of
// messages, and the change to the next run. Each part does the work for one subject. Its
// fields name the other parts that it calls.
type seed struct {
	*seedCore
	holders  *holdersPart
	saving   *savingPart
	checks   *checksPart
	recovery *recoveryPart
	members  *membersPart

	acq workflow.ReceiveChannel
	rel workflow.ReceiveChannel
	rep workflow.ReceiveChannel
}

// seedOf makes a seed with all its parts around a core.
func seedOf(c *seedCore) *seed {
	c.alarm = kit.NewAlarm(c.ctx, "look after holders")
	s := &seed{seedCore: c, holders: new(holdersPart), saving: new(savingPart), members: &membersPart{seedCore: c}}
	*s.holders = holdersPart{seedCore: c, saving: s.saving, members: s.members}
	*s.saving = savingPart{seedCore: c, holders: s.holders, members: s.members}
	s.checks = &checksPart{seedCore: c, holders: s.holders, saving: s.saving}
	s.recovery = &recoveryPart{seedCore: c, saving: s.saving, again: kit.NewAlarm(c.ctx, "fetch the credential again")}
	return s
}

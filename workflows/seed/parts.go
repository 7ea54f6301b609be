package seed

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/internal/authority"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/ruling"
)

type seedCore struct {
	ctx       workflow.Context
	reapEvery time.Duration

	name string
	st   *State
	roll *kit.Rollover
	work bool // serve has to run

	asking  bool // a verification or refresh runs
	rolling bool // this run is about to end: no verification or refresh begins
	rec     *recovery
	grants  grants
	ledger  *authority.Ledger
	read    ruling.Ruling
	alarm   *kit.Alarm // to check the holders; its time is carried, so that no rollover delays it
}

// seed is the running workflow. Each part has one subject, and names in its fields the
// parts that it calls.
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

func seedOf(c *seedCore) *seed {
	c.alarm = kit.NewAlarm(c.ctx, "look after holders")
	s := &seed{seedCore: c, holders: new(holdersPart), saving: new(savingPart), members: &membersPart{seedCore: c}}
	*s.holders = holdersPart{seedCore: c, saving: s.saving, members: s.members}
	*s.saving = savingPart{seedCore: c, holders: s.holders, members: s.members}
	s.checks = &checksPart{seedCore: c, holders: s.holders, saving: s.saving}
	s.recovery = &recoveryPart{seedCore: c, saving: s.saving, again: kit.NewAlarm(c.ctx, "fetch the credential again")}
	return s
}

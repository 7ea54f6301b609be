package kit

import "go.temporal.io/sdk/temporal"

// Search attributes of sessions: names and states, never what was said, except for
// FairleadProgress.
var (
	AttrState     = temporal.NewSearchAttributeKeyKeyword("FairleadState")
	AttrHost      = temporal.NewSearchAttributeKeyKeyword("FairleadHost")
	AttrSeed      = temporal.NewSearchAttributeKeyKeyword("FairleadSeed")
	AttrThread    = temporal.NewSearchAttributeKeyKeyword("FairleadThread")
	AttrWaits     = temporal.NewSearchAttributeKeyKeyword("FairleadWaits")
	AttrApprovals = temporal.NewSearchAttributeKeyInt64("FairleadApprovals")
	AttrTurn      = temporal.NewSearchAttributeKeyInt64("FairleadTurn")
	// AttrOrigin is that of a batch or a schedule.
	AttrOrigin = temporal.NewSearchAttributeKeyKeyword("FairleadOrigin")
	// AttrProgress is what the model reported.
	AttrProgress = temporal.NewSearchAttributeKeyKeyword("FairleadProgress")
)

// People's choices, set only after such a choice, because not every cluster knows these
// attributes.
var (
	AttrName     = temporal.NewSearchAttributeKeyKeyword("FairleadName")
	AttrArchived = temporal.NewSearchAttributeKeyBool("FairleadArchived")
)

package kit

import "go.temporal.io/sdk/temporal"

// Search attributes to find sessions by. They hold names and states, never what was
// said, except for FairleadProgress.
var (
	AttrState     = temporal.NewSearchAttributeKeyKeyword("FairleadState")
	AttrHost      = temporal.NewSearchAttributeKeyKeyword("FairleadHost")
	AttrSeed      = temporal.NewSearchAttributeKeyKeyword("FairleadSeed")
	AttrThread    = temporal.NewSearchAttributeKeyKeyword("FairleadThread")
	AttrWaits     = temporal.NewSearchAttributeKeyKeyword("FairleadWaits")
	AttrApprovals = temporal.NewSearchAttributeKeyInt64("FairleadApprovals")
	AttrTurn      = temporal.NewSearchAttributeKeyInt64("FairleadTurn")
	// Set for sessions that a batch or a schedule started.
	AttrOrigin = temporal.NewSearchAttributeKeyKeyword("FairleadOrigin")
	// What the model reported, in a session with the tool for that.
	AttrProgress = temporal.NewSearchAttributeKeyKeyword("FairleadProgress")
)

// Search attributes of people's choices. A session sets them only after somebody made such
// a choice, because not every cluster knows them.
var (
	AttrName     = temporal.NewSearchAttributeKeyKeyword("FairleadName")
	AttrArchived = temporal.NewSearchAttributeKeyBool("FairleadArchived")
)

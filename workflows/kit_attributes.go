package workflows

import "go.temporal.io/sdk/temporal"

// Search attributes to find sessions by. They hold names and states, never what was
// said, except for FairleadProgress.
var (
	attrState     = temporal.NewSearchAttributeKeyKeyword("FairleadState")
	attrHost      = temporal.NewSearchAttributeKeyKeyword("FairleadHost")
	attrSeed      = temporal.NewSearchAttributeKeyKeyword("FairleadSeed")
	attrThread    = temporal.NewSearchAttributeKeyKeyword("FairleadThread")
	attrWaits     = temporal.NewSearchAttributeKeyKeyword("FairleadWaits")
	attrApprovals = temporal.NewSearchAttributeKeyInt64("FairleadApprovals")
	attrTurn      = temporal.NewSearchAttributeKeyInt64("FairleadTurn")
	// Set for sessions that a batch or a schedule started.
	attrOrigin = temporal.NewSearchAttributeKeyKeyword("FairleadOrigin")
	// What the model reported, in a session with the tool for that.
	attrProgress = temporal.NewSearchAttributeKeyKeyword("FairleadProgress")
)

// Search attributes of people's choices. A session sets them only after somebody made such
// a choice, because not every cluster knows them.
var (
	attrName     = temporal.NewSearchAttributeKeyKeyword("FairleadName")
	attrArchived = temporal.NewSearchAttributeKeyBool("FairleadArchived")
)

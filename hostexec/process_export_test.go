package hostexec

import "fairlead.dev/fairlead/hostexec/internal/script"

// FencePrologue is for tests that run the same scripts under other shells.
var FencePrologue = fencePrologue

const FenceEpilogue = script.FenceEnd

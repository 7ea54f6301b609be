package hostexec

// For tests that run the same scripts under other shells.
var FencePrologue = fencePrologue

const FenceEpilogue = fenceEpilogue

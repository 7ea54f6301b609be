package hostexec

// FencePrologue is for tests that run the same scripts under other shells.
var FencePrologue = fencePrologue

const FenceEpilogue = fenceEpilogue

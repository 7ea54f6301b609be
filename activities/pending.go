package activities

// Method sets of the activity structs; the bodies move into files of their own
// and this file goes away. Names are global to the task queue.

import "context"

// Hosts does things to hosts that belong to no session.
type Hosts struct{}

func (h *Hosts) CheckHost(ctx context.Context, in CheckHostInput) (CheckHostResult, error) {
	panic("pending")
}
func (h *Hosts) ScanHostKeys(ctx context.Context, in ScanHostKeysInput) (ScanHostKeysResult, error) {
	panic("pending")
}
func (h *Hosts) ProvisionCodex(ctx context.Context, in ProvisionCodexInput) (ProvisionCodexResult, error) {
	panic("pending")
}

// RunExec starts the command once, follows it to its end (any worker can take
// over), stores and streams its output and removes its folder.
func (h *Hosts) RunExec(ctx context.Context, in ExecInput) (ExecResult, error) { panic("pending") }

// Sessions does what one session needs on its host.
type Sessions struct{}

func (s *Sessions) PrepareSession(ctx context.Context, in PrepareSessionInput) (PrepareSessionResult, error) {
	panic("pending")
}
func (s *Sessions) StartServer(ctx context.Context, in StartServerInput) (StartServerResult, error) {
	panic("pending")
}
func (s *Sessions) RunPump(ctx context.Context, in RunPumpInput) (RunPumpResult, error) {
	panic("pending")
}
func (s *Sessions) StopServer(ctx context.Context, in StopServerInput) (StopServerResult, error) {
	panic("pending")
}
func (s *Sessions) CloseSession(ctx context.Context, in CloseSessionInput) (CloseSessionResult, error) {
	panic("pending")
}
func (s *Sessions) RecordNotes(ctx context.Context, in RecordNotesInput) (RecordNotesResult, error) {
	panic("pending")
}

// Seeds looks after seeds in the store.
type Seeds struct{}

func (s *Seeds) DeleteSeedBlobs(ctx context.Context, in DeleteSeedInput) error { panic("pending") }

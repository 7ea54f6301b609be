package hostpool

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
	"fairlead.dev/fairlead/workflows/internal/lease"
)

// Tasks are short workflows, so that they are on record and survive a worker's death.

// ProvisionHost brings the pinned codex to a host.
func ProvisionHost(ctx workflow.Context, in protocol.HostTaskInput) (protocol.ProvisionCodexResult, error) {
	out, err := kit.Do(kit.SetUp(ctx, "provision "+in.Host.Name), hostJobs.ProvisionCodex, hosts.ProvisionCodexInput{Host: in.Host})
	if err != nil {
		recordFailure(ctx, in, "provision", err)
		return out, err
	}
	record(ctx, in, protocol.SetHost{Name: in.Host.Name, Codex: out.Version})
	return out, nil
}

// CheckHost probes a host. If the host cannot run sessions, the result says so, and the
// error is nil.
func CheckHost(ctx workflow.Context, in protocol.HostTaskInput) (protocol.CheckHostResult, error) {
	out, err := kit.Do(kit.SetUp(ctx, "check "+in.Host.Name), hostJobs.CheckHost, hosts.CheckHostInput{Host: in.Host})
	if err != nil {
		recordFailure(ctx, in, "check", err)
		return out, err
	}
	record(ctx, in, protocol.SetHost{Name: in.Host.Name, Check: &out})
	return out, nil
}

// ExecOnHost runs a command on a host as a journaled process.
func ExecOnHost(ctx workflow.Context, in protocol.ExecInput) (protocol.ExecResult, error) {
	return kit.Do(kit.Once(ctx, "exec on "+in.Host.Name), hostJobs.RunExec, in)
}

// ScanHostKeys returns a host's keys without trusting them.
func ScanHostKeys(ctx workflow.Context, in protocol.ScanHostKeysInput) (protocol.ScanHostKeysResult, error) {
	return kit.Do(kit.SetUp(ctx, "scan "+in.Host.Address), hostJobs.ScanHostKeys, in)
}

func recordFailure(ctx workflow.Context, in protocol.HostTaskInput, doing string, err error) {
	if f := kit.FailureOf(doing, err); hosts.HostFault(f.Kind) {
		record(ctx, in, protocol.SetHost{Name: in.Host.Name, Failed: f})
	}
}

// record tells the pool, which ignores a host that it does not know.
func record(ctx workflow.Context, in protocol.HostTaskInput, set protocol.SetHost) {
	err := workflow.SignalExternalWorkflow(ctx, protocol.PoolID(in.Zone), "", lease.SignalFound, set).Get(ctx, nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("pool not told", "host", in.Host.Name, "error", err)
	}
}

package authority

import (
	"maps"
	"slices"

	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/payload"
	"fairlead.dev/fairlead/internal/protocol"
)

// A Class says from whom a message, a query or a start counts.
type Class int

// The classes. What is in no class counts from workers only.
const (
	Internal Class = iota // a worker wrote it
	Person                // a principal signed it
	Either                // a principal signed it, or a worker wrote it
	Harmless              // it changes nothing that others rely on
)

// signals has the signals of all workflows.
var signals = map[string]Class{
	// of sessions and batches
	protocol.SignalMessage:     Person,
	protocol.SignalDecide:      Person,
	protocol.SignalInterrupt:   Person,
	protocol.SignalBudget:      Person,
	protocol.SignalSet:         Person,
	protocol.SignalUnsend:      Person,
	protocol.SignalModels:      Person,
	protocol.SignalArchive:     Person,
	protocol.SignalUnarchive:   Person,
	protocol.SignalPark:        Person,
	protocol.SignalResume:      Person,
	protocol.SignalSnapshot:    Person,
	protocol.SignalRetryBatch:  Person,
	protocol.SignalClose:       Either, // a batch or a firing closes its sessions
	protocol.SignalCancelBatch: Either, // a firing cancels its batch
	// between sessions, pools and seeds
	"acquire": Internal,
	"release": Internal,
	"lease":   Internal,
	"leave":   Internal,
	"call":    Internal,
	"holds":   Internal,
	"report":  Internal,
	"look":    Internal,
	"member":  Internal,
	// from tasks on hosts, and from activities that watch hosts and processes
	"found":                 Internal,
	protocol.SignalRenew:    Internal,
	"folders":               Internal,
	"stirred":               Internal,
	"host_back":             Internal,
	protocol.SignalHostAway: Internal,
	protocol.SignalProgress: Internal,
	// to batches, firings and other programs
	protocol.SignalSessionEnded: Internal,
}

// updates has the updates of all workflows, with the verb that a principal needs. Those
// without a verb are admitted by the workflow itself.
var updates = map[string]rule{
	protocol.UpdatePutHost:    {Person, access.HostWrite},
	protocol.UpdatePutHosts:   {Person, access.HostWrite},
	protocol.UpdateRemoveHost: {Person, access.HostWrite},
	protocol.UpdateSetHost:    {Person, access.HostWrite},
	protocol.UpdateSetPool:    {Person, access.HostWrite},
	protocol.UpdatePausePool:  {Person, access.HostWrite},
	protocol.UpdatePutSeed:    {Person, access.SeedWrite}, // a worker signs for the person who captures a login
	protocol.UpdateSetSeed:    {Person, access.SeedWrite},
	protocol.UpdateReviveSeed: {Person, access.SeedWrite},
	protocol.UpdateDeleteSeed: {Person, access.SeedWrite},
	protocol.UpdateExportSeed: {Person, access.SeedExport},
	protocol.UpdateVerifySeed: {Either, access.SeedWrite}, // maintenance verifies old seeds
	protocol.UpdateTestNotify: {Person, access.NotifyTest},
	// by activities that install, refresh and save logins
	protocol.UpdateSaveSeed:    {Internal, ""},
	protocol.UpdateRotatedSeed: {Internal, ""},
	protocol.UpdateRefreshSeed: {Internal, ""},
	protocol.UpdateAdoptSeed:   {Internal, ""}, // by the activity of ctl recover, whose start was judged
	// of sessions
	protocol.SignalMessage:   {Person, ""},
	protocol.SignalDecide:    {Person, ""},
	protocol.SignalInterrupt: {Person, ""},
	protocol.SignalClose:     {Person, ""},
	protocol.SignalBudget:    {Person, ""},
	protocol.SignalSet:       {Person, ""},
	protocol.SignalUnsend:    {Person, ""},
	protocol.SignalModels:    {Person, ""},
	protocol.SignalArchive:   {Person, ""},
	protocol.SignalUnarchive: {Person, ""},
	protocol.SignalPark:      {Person, ""},
	protocol.SignalResume:    {Person, ""},
	protocol.SignalSnapshot:  {Person, ""},
	protocol.UpdatePush:      {Person, ""},
}

// slowUpdates has the updates of persons whose handlers wait for an activity.
var slowUpdates = map[string]bool{protocol.UpdatePush: true, protocol.UpdateVerifySeed: true}

// starts has the types of workflows that are started at the root, neither as a child nor by
// a run that continues as new: only workers start those two. A Harmless start is one
// without a carried state: it begins with nothing.
var starts = map[string]rule{
	protocol.TypeSession:        {Person, ""}, // a worker signs for the person who runs a batch
	protocol.TypeProvision:      {Person, access.HostWrite},
	protocol.TypeCheck:          {Either, access.HostWrite}, // maintenance checks hosts
	protocol.TypeScan:           {Person, access.HostWrite},
	protocol.TypeExec:           {Person, access.HostExec},
	protocol.TypeCapture:        {Person, access.SeedWrite},
	protocol.TypeLogin:          {Person, access.SeedWrite},
	protocol.TypeRotate:         {Person, access.SeedWrite},
	protocol.TypeRecover:        {Person, access.SeedWrite},
	protocol.TypePrune:          {Person, access.SnapshotWrite},
	protocol.TypeCheckSnapshots: {Person, access.SnapshotWrite},
	protocol.TypeBatch:          {Person, access.BatchRun},
	protocol.TypeFire:           {Person, access.ScheduleWrite},
	protocol.TypeMaintenance:    {Internal, ""}, // Schedules of workers
	protocol.TypeHostPool:       {Harmless, ""}, // workers when they begin
	protocol.TypeSeed:           {Harmless, ""}, // the first put_seed
	protocol.TypeSeedPool:       {Harmless, ""}, // a child of a seed
	protocol.TypeToolCall:       {Internal, ""}, // pumps
	protocol.TypeOutbox:         {Internal, ""}, // workers with notification rules, when they begin
	protocol.TypeClaimKey:       {Harmless, ""}, // keeps an idempotency key taken
}

// within are the types that our workflows start as a child or continue as new.
var within = map[string]bool{
	protocol.TypeSession: true, protocol.TypeBatch: true, // also by a firing
	protocol.TypeHostPool: true, protocol.TypeSeed: true, protocol.TypeSeedPool: true,
	protocol.TypeOutbox: true,
	protocol.TypePrune:  true, // by maintenance
}

// queries change nothing. The worker's API says who may read.
var queries = []string{
	protocol.QueryState, protocol.QueryApprovals, protocol.QueryTurn, protocol.QueryDetail, protocol.QueryAsks, protocol.QueryObject,
	protocol.QueryModels, protocol.QueryPolicy, protocol.QueryHosts, protocol.QueryHost, protocol.QueryPool, protocol.QueryPlace,
	protocol.QueryLeft, protocol.QueryFolders, protocol.QuerySeed, protocol.QuerySeedNow, protocol.QuerySeedPool,
	protocol.QueryBatch, protocol.QueryBatchResults, protocol.QueryAudit,
	protocol.QueryNotices, protocol.QueryNotifyRules,
}

type rule struct {
	class Class
	verb  access.Verb
}

// IsInternal reports whether a message counts from workers only.
func IsInternal(m payload.Message) bool {
	if m.Update {
		return updates[m.Name].class == Internal
	}
	return signals[m.Name] == Internal
}

// Named lists what has a class: lines such as "signal close".
func Named() (lines []string) {
	for _, of := range []struct {
		kind  string
		names []string
	}{
		{"signal", slices.Collect(maps.Keys(signals))}, {"update", slices.Collect(maps.Keys(updates))},
		{"workflow", slices.Collect(maps.Keys(starts))}, {"query", queries},
	} {
		for _, name := range of.names {
			lines = append(lines, of.kind+" "+name)
		}
	}
	slices.Sort(lines)
	return lines
}

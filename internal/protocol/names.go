package protocol

// QueryFolders asks a pool which sessions may have a folder on a host: →
// []inquiry.LeftThere. Unlike QueryLeft, it includes folders kept because their content
// exists nowhere else.
const QueryFolders = "folders"

// QueryLeft asks a pool which sessions may have left data: → []inquiry.LeftThere.
const QueryLeft = "left"

// SignalHostAway tells a pool of a host that cannot be reached, or that sends too much:
// HostAway.
const SignalHostAway = "host_away"

// Updates and queries of a Seed workflow by activities.
const (
	UpdateSaveSeed    = "save_seed"    // SaveSeed → SeedNow
	UpdateRotatedSeed = "rotated_seed" // RotatedSeed → SeedNow
	UpdateRefreshSeed = "refresh_seed" // RefreshSeed → SeedNow
	UpdateVerifySeed  = "verify_seed"  // VerifySeed → SeedView
	QuerySeedNow      = "seed_now"     // → SeedNow
)

// SignalProgress tells a session's workflow the model's last report of progress while the
// pump is attached. It is for Temporal's own lists; the worker's API and the pump's
// heartbeat show a report at once. It costs five events, so it is sent at most every 45 s,
// and less often the longer the pump stays, down to 6 times an hour.
const SignalProgress = "progress"

// Names that other programs rely on.
const (
	// TaskQueue is that of zone "default".
	TaskQueue = "fairlead"

	SignalMessage   = "message"
	SignalDecide    = "decide"
	SignalInterrupt = "interrupt"
	SignalClose     = "close"
	SignalBudget    = "budget"

	QueryState     = "state"     // → SessionView
	QueryApprovals = "approvals" // → []Approval, open ones first
	QueryTurn      = "turn"      // TurnQuery → TurnView
	QueryDetail    = "detail"    // → SessionDetail
	QueryAsks      = "asks"      // → SessionAsks
	QueryObject    = "object"    // → access.Object, what conditions of the access file see

	// Of a pool workflow.
	UpdatePutHost    = "put_host"    // PutHost → HostView
	UpdatePutHosts   = "put_hosts"   // PutHosts → PutHostsDone
	UpdateRemoveHost = "remove_host" // RemoveHost → HostView
	UpdateSetHost    = "set_host"    // SetHost → HostView
	QueryHosts       = "hosts"       // → []HostView
	QueryHost        = "host"        // name → HostView

	// Of a seed workflow.
	UpdatePutSeed    = "put_seed"    // PutSeed → SeedView
	UpdateSetSeed    = "set_seed"    // SetSeed → SeedView
	UpdateReviveSeed = "revive_seed" // ReviveSeed → SeedView
	UpdateDeleteSeed = "delete_seed" // DeleteSeed → SeedView
	QuerySeed        = "seed"        // → SeedView

	// Of a seed pool workflow.
	QuerySeedPool = "seed_pool" // → SeedPoolView
)

// Signals of a session that do not go to codex.
const (
	SignalSet       = "set"       // Set → SessionView
	SignalUnsend    = "unsend"    // Unsend → SessionView
	SignalModels    = "models"    // AskModels → ModelsView; later QueryModels
	SignalArchive   = "archive"   // Archive → SessionView
	SignalUnarchive = "unarchive" // Archive → SessionView

	QueryModels = "models_listed" // → ModelsView
)

// Signals about snapshots and the session's place.
const (
	SignalSnapshot = "snapshot" // TakeSnapshot → SnapshotAccepted
	SignalPark     = "park"     // Park → SessionView
	SignalResume   = "resume"   // Resume → SessionView
)

// SignalSessionEnded carries a SessionEnded to the workflow in the options' Notify, when
// the session has cleaned up and given back host and seed. If the first attempt to clean up
// fails, the session signals then, and also the schedule firing that started it, so that
// neither waits for a host.
const SignalSessionEnded = "session_ended"

// SignalRenew asks a workflow to continue as new soon: Renew. Workers that have come to
// require authority send it to the runs that began before, which take unsigned signals.
const SignalRenew = "renew"

// QueryPolicy returns the session's policies, for a fork.
const QueryPolicy = "policy" // → PolicyTexts

// Updates and queries of a pool, not about hosts.
const (
	UpdateSetPool   = "set_pool"   // SetPool → PoolView
	UpdatePausePool = "pause_pool" // PausePool → PoolView
	QueryPool       = "pool"       // → PoolView
	QueryPlace      = "place"      // PlaceQuery → PlaceView
)

// UpdatePush commits and pushes a session's work: Push → PushWorkspaceResult.
const UpdatePush = "push"

// UpdateExportSeed permits the export of the view's Ref, encrypted for a person's key:
// ExportSeed → SeedView. The seed records the person and the recipient.
const UpdateExportSeed = "export_seed"

// Workflow types.
const (
	TypeSession   = "Session"
	TypeHostPool  = "HostPool"
	TypeSeed      = "Seed"
	TypeSeedPool  = "SeedPool"
	TypeProvision = "ProvisionHost"
	TypeCheck     = "CheckHost"
	TypeExec      = "ExecOnHost"
	TypeScan      = "ScanHostKeys"

	TypeMaintenance = "Maintenance"
	TypeCapture     = "CaptureSeed"
	TypeLogin       = "LoginSeed"
	TypeRotate      = "RotateKeys"

	TypeClaimKey = "ClaimKey"

	TypePrune          = "PruneSnapshots"
	TypeCheckSnapshots = "CheckSnapshots"
)

// Names of a batch workflow.
const (
	TypeBatch = "Batch"

	QueryBatch        = "batch"         // → BatchView
	QueryBatchResults = "batch_results" // from → BatchResults

	SignalCancelBatch = "cancel" // CancelBatch
	SignalRetryBatch  = "retry"  // RetryBatch
	SignalSetBatch    = "set"    // SetBatch
)

// TypeFire is the workflow that a schedule starts.
const TypeFire = "Fire"

// MemoCreated has a session's creation time, set when its first run ends: a workflow list
// shows only the start of the newest run.
const MemoCreated = "created_at"

// MemoClaim has a KeyClaim, in a key's workflow and in what was started under the key. It
// can be read without a worker and after the workflow's end.
const MemoClaim = "claim"

// MemoSchedule has a schedule's ScheduleNote.
const MemoSchedule = "schedule"

// MaintenanceID is the id of the Schedule and its workflows.
const MaintenanceID = "maintenance"

// TidyStoreID is the Schedule that tidies the store.
const TidyStoreID = MaintenanceID + "/store"

// MaintainHostsID is a zone's Schedule for hosts.
func MaintainHostsID(zone string) string {
	return MaintenanceID + "/hosts/" + ZoneOf(TaskQueueOf(zone))
}

// MaintainLeftoversID is a zone's Schedule for leftovers.
func MaintainLeftoversID(zone string) string {
	return MaintenanceID + "/leftovers/" + ZoneOf(TaskQueueOf(zone))
}

// Workflows for a store's recipients. At most one of each runs.
const (
	RotateKeysID = "store/rotate-keys"
	CheckKeysID  = "store/check-keys"
)

// Workflows for a store's snapshots. At most one of each runs.
const (
	PruneSnapshotsID = "store/prune-snapshots"
	LookPruneID      = "store/prune-snapshots/dry-run" // only lists
	CheckSnapshotsID = "store/check-snapshots"
	MaintainStoreID  = "maintenance/snapshots" // Schedule that prunes
)

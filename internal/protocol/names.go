package protocol

// QueryFolders asks the pool workflow of a zone which sessions have, or may have, a folder
// on a host: → []LeftThere. Unlike QueryLeft, it includes folders that are kept because
// their content exists nowhere else.
const QueryFolders = "folders"

// QueryLeft asks the pool workflow of a zone which sessions may have left data on its
// hosts: → []LeftThere.
const QueryLeft = "left"

// A Seed workflow owns the pointer to a seed's newest generation and the leases
// on it. Activities speak to it through Temporal, under these names.
const (
	UpdateSaveSeed    = "save_seed"    // SaveSeed → SeedNow
	UpdateRotatedSeed = "rotated_seed" // RotatedSeed → SeedNow
	UpdateRefreshSeed = "refresh_seed" // RefreshSeed → SeedNow
	UpdateVerifySeed  = "verify_seed"  // VerifySeed → SeedView
	QuerySeedNow      = "seed_now"     // → SeedNow
)

// SignalProgress tells a session's workflow the model's last report of progress, while the
// pump is attached. The worker's API and the pump's heartbeat show the report at once. The
// signal is for Temporal's own lists, and costs five events. So it is sent at most every
// soonestReport, and less often the longer the pump stays: some 30 times in the first hour,
// 8 times in the second, and then 6 times an hour.
const SignalProgress = "progress"

// Names that other programs rely on.
const (
	// TaskQueue is the task queue of zone "default". TaskQueueOf returns the others.
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

	// Of a pool workflow.
	UpdatePutHost    = "put_host"    // PutHost → HostView; adds or changes
	UpdatePutHosts   = "put_hosts"   // PutHosts → PutHostsDone; all or none
	UpdateRemoveHost = "remove_host" // RemoveHost → HostView
	UpdateSetHost    = "set_host"    // SetHost (cordon, uncordon, …) → HostView
	QueryHosts       = "hosts"       // → []HostView
	QueryHost        = "host"        // name → HostView

	// Of a seed workflow.
	UpdatePutSeed    = "put_seed"    // PutSeed → SeedView
	UpdateSetSeed    = "set_seed"    // SetSeed → SeedView
	UpdateReviveSeed = "revive_seed" // ReviveSeed → SeedView
	UpdateDeleteSeed = "delete_seed" // DeleteSeed → SeedView
	QuerySeed        = "seed"        // → SeedView

	// Of the workflow of a pool of seeds.
	QuerySeedPool = "seed_pool" // → SeedPoolView
)

// Messages that control a session and do not go to codex.
const (
	SignalSet       = "set"       // Set → SessionView
	SignalUnsend    = "unsend"    // Unsend → SessionView
	SignalModels    = "models"    // AskModels → ModelsView; query QueryModels for the answer
	SignalArchive   = "archive"   // Archive → SessionView
	SignalUnarchive = "unarchive" // Archive → SessionView

	QueryModels = "models_listed" // → ModelsView
)

// Signals about snapshots, and about where a session runs.
const (
	SignalSnapshot = "snapshot" // TakeSnapshot → SnapshotAccepted
	SignalPark     = "park"     // Park → SessionView
	SignalResume   = "resume"   // Resume → SessionView
)

// SignalSessionEnded carries a SessionEnded. A session sends it to the workflow that its
// options name in Notify, when it has cleaned up and given back its host and seed. If the
// first attempt to clean up fails, the session already sends the signal at that time, also
// to the schedule firing that started it. So neither waits for a host.
const SignalSessionEnded = "session_ended"

// QueryPolicy returns the texts of the session's policies, which a fork takes over.
const QueryPolicy = "policy" // → PolicyTexts

// Updates and queries of a pool that are not about its hosts.
const (
	UpdateSetPool   = "set_pool"   // SetPool → PoolView
	UpdatePausePool = "pause_pool" // PausePool → PoolView
	QueryPool       = "pool"       // → PoolView
	QueryPlace      = "place"      // PlaceQuery → PlaceView
)

// UpdatePush commits and pushes a session's work: Push → PushWorkspaceResult.
const UpdatePush = "push"

// UpdateExportSeed permits the export of a seed to a person, encrypted for a key of that
// person: ExportSeed → SeedView. A worker may export the generation in the view's Ref. The
// seed records the person and the recipient.
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

// TypeFire is the workflow that a schedule starts at each of its times.
const TypeFire = "Fire"

// MemoCreated is the memo field with a session's creation time, set when its first run
// ends. A workflow list shows only the start of the newest run.
const MemoCreated = "created_at"

// MemoClaim is the memo field that holds a KeyClaim, in the workflow of a key and in
// the session or batch that was started under the key. It can be read even when no
// worker runs, and after the workflow's end.
const MemoClaim = "claim"

// MemoSchedule is the field of a schedule's memo that holds its ScheduleNote.
const MemoSchedule = "schedule"

// MaintenanceID is the id of the Schedule, and of the workflows that it starts.
const MaintenanceID = "maintenance"

// TidyStoreID is the id of the Schedule that tidies the store.
const TidyStoreID = MaintenanceID + "/store"

// MaintainHostsID returns the id of a zone's Schedule for its hosts.
func MaintainHostsID(zone string) string {
	return MaintenanceID + "/hosts/" + ZoneOf(TaskQueueOf(zone))
}

// MaintainLeftoversID returns the id of a zone's Schedule for leftovers on hosts.
func MaintainLeftoversID(zone string) string {
	return MaintenanceID + "/leftovers/" + ZoneOf(TaskQueueOf(zone))
}

// RotateKeysID and CheckKeysID are the ids of the workflows that maintain a store's
// recipients. At most one of each runs at a time.
const (
	RotateKeysID = "store/rotate-keys"
	CheckKeysID  = "store/check-keys"
)

// The ids of the workflows that maintain a store's snapshots. At most one of each runs at a
// time.
const (
	PruneSnapshotsID = "store/prune-snapshots"
	LookPruneID      = "store/prune-snapshots/dry-run" // only lists what would be deleted
	CheckSnapshotsID = "store/check-snapshots"
	MaintainStoreID  = "maintenance/snapshots" // id of the Schedule that prunes
)

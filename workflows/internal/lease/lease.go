package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities/overseer"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Leases are requested and granted by signal, so that no handler blocks: acquire → granted
// (or queued, or refused) … release. All these signals are idempotent by the holder's name.
const (
	SignalAcquire = "acquire"
	SignalRelease = "release"
	SignalLease   = "lease"  // to the holder of a lease
	SignalFound   = "found"  // to a pool: result of a host task
	SignalReport  = "report" // to a seed
	SignalMember  = "member" // to a pool of seeds: state of a member
	SignalLook    = "look"   // to a pool of seeds, with an Acquire: would it lend one now? An older pool does not read it
)

// Acquire requests a slot from a pool, or the use of a seed.
type Acquire struct {
	Holder string            `json:"holder"`
	Host   string            `json:"host,omitempty"`
	Prefer string            `json:"prefer,omitempty"` // host to take if it has a free slot
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"` // conditions for the host
	Rather []string          `json:"rather,omitempty"`
	// Elsewhere says that the worker's own machine will not do.
	Elsewhere bool   `json:"elsewhere,omitempty"`
	Seed      string `json:"seed,omitempty"` // to a pool: to be planted
	Run       string `json:"run,omitempty"`  // first run of the holder's workflow

	// To a pool of hosts: whom the slot counts for (default "default"), the priority among
	// that tenant's requests (1 first, 5 last, 0 is 3), and when the holder first asked.
	Tenant   string    `json:"tenant,omitempty"`
	Priority int       `json:"priority,omitempty"`
	AskedAt  time.Time `json:"asked_at,omitzero"`
	// Begun says that the session has run, or was in the line. If nothing suits it, it
	// waits and is not refused.
	Begun bool `json:"begun,omitempty"`

	// To a seed: where the credential will be, with the generation of the session's claim.
	At   *protocol.HostSpec `json:"at,omitempty"`
	Zone string             `json:"zone,omitempty"`
	// Generation, to a pool, is the lowest that the session's claim can have.
	Generation int64 `json:"generation,omitempty"`
	// Brokered says that no file of the seed will be there.
	Brokered bool `json:"brokered,omitempty"`

	// Pool is the pool of seeds that asks a seed on the holder's behalf. The seed then
	// grants the lease now or not at all; with Again, only one that the holder already has.
	// If Holder is empty, the pool asks for the seed's state.
	Pool  string `json:"pool,omitempty"`
	Again bool   `json:"again,omitempty"`

	// Look, in a SignalLook, only asks a pool of seeds whether it would lend one now, other
	// than Not. The answer has Free, or Queued and perhaps RetryAfter.
	Look bool   `json:"look,omitempty"`
	Not  string `json:"not,omitempty"`
}

// TooLarge reports whether a request is too large for a line. Pool and Again do not count,
// so a seed accepts what a pool accepted.
func (a Acquire) TooLarge() bool {
	a.Pool, a.Again = "", false
	return kit.Encoded(a) > MaxHost
}

// Decline refuses a request that is TooLarge.
func (a Acquire) Decline(from string) Letter {
	return Letter{a.Holder, Granted{From: from, Run: a.Run, Refused: &protocol.Failure{Kind: protocol.RefusedBadInput,
		Message: fmt.Sprintf("the request to %s has %d bytes of labels, addresses and keys; at most %d are allowed", from, kit.Encoded(a), MaxHost),
		Hint:    "ask with fewer labels, or give the host fewer keys"}}}
}

// Release gives back a slot or a seed, or takes back a request.
type Release struct {
	Holder string `json:"holder"`
	Run    string `json:"run,omitempty"`
	// Failed is the host's fault that kept the session from working, or nil.
	Failed *protocol.Failure `json:"failed,omitempty"`
	// To a pool: Left is what could not be cleaned up. Warm is the folder that a parked
	// session keeps.
	Left *LeftBehind `json:"left,omitempty"`
	Warm *LeftBehind `json:"warm,omitempty"`
	// Generation is that of the newest acquire. The release also takes back older acquires
	// that are still unread.
	Generation int64 `json:"generation,omitempty"`

	// Epoch, to a seed, is 0 if the holder took no lease.
	Epoch int64 `json:"epoch,omitempty"`
	// Clean says that the credential was verified to be gone, and that a renewed login is
	// saved.
	Clean bool `json:"clean,omitempty"`
	// At and Zone say where the login of a lost lease is; see seed.fetchFrom.
	At   *protocol.HostSpec `json:"at,omitempty"`
	Zone string             `json:"zone,omitempty"`
	// Discarded says that somebody gave up what could not be saved.
	Discarded bool `json:"discarded,omitempty"`
	// Proven is the start of the newest turn that codex completed with the seed.
	Proven time.Time `json:"proven,omitzero"`
	// Use, to a seed, is what the holder saw of the use of its account.
	Use *protocol.SeedUse `json:"use,omitempty"`
	// Served, to a seed, is what the model gateway did for the holder since it was granted the seed.
	Served *protocol.ModelUse `json:"served,omitempty"`
}

// Report tells a seed what its holder observed.
type Report struct {
	Holder  string    `json:"holder"`
	Epoch   int64     `json:"epoch"`
	Verdict string    `json:"verdict"`
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	Began   time.Time `json:"began,omitzero"` // start of the turn that proves the seed
}

// Verdicts about a seed.
const (
	VerdictSuspect = "suspect"
	VerdictAlive   = "alive"
)

// Granted answers an Acquire: it grants a lease, says what the holder waits for, or
// refuses.
type Granted struct {
	From    string            `json:"from"`
	Run     string            `json:"run,omitempty"` // first run of the session
	Pool    string            `json:"pool,omitempty"`
	Queued  string            `json:"queued,omitempty"`
	Refused *protocol.Failure `json:"refused,omitempty"`
	// RetryAfter says when to ask again, if the refusal is only for now.
	RetryAfter time.Duration      `json:"retry_after,omitempty"`
	Epoch      int64              `json:"epoch,omitempty"`
	Spec       *protocol.HostSpec `json:"spec,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"` // for policies: only those that people set, never those that a probe found
	Seed       *protocol.SeedRef  `json:"seed,omitempty"`
	Policy     string             `json:"policy,omitempty"` // of the seed
	Amend      bool               `json:"amend,omitempty"`
	Bounds     *protocol.Ceiling  `json:"bounds,omitempty"` // of the seed
	// Credentials is the seed's default of how sessions get its credential.
	Credentials string `json:"credentials,omitempty"`
	// Free is the seed that a pool would lend now; nothing is lent.
	Free string `json:"free,omitempty"`
}

// people may be offered amendments
func NotThere(from string, err error) *protocol.Failure {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &unknown) {
		return &protocol.Failure{Kind: protocol.ErrTypeInternal, Message: fmt.Sprintf("ask %s for a lease: %v", from, err)}
	}
	if name, ok := strings.CutPrefix(from, "seed/"); ok {
		return &protocol.Failure{Kind: "seed_not_found", Message: fmt.Sprintf("there is no seed %q", name),
			Hint: "`ctl seed list` shows those there are; `ctl seed import` makes one"}
	}
	if name, ok := strings.CutPrefix(from, "seedpool/"); ok {
		return &protocol.Failure{Kind: "seed_pool_not_found", Message: fmt.Sprintf("there is no seed pool %q", name),
			Hint: fmt.Sprintf("`ctl seed list` shows the pools that seeds are in; `ctl seed set NAME --pool %s` puts one into it", name)}
	}
	return &protocol.Failure{Kind: kit.KindNoPool, Message: fmt.Sprintf("no worker has ever served %s", from),
		Hint: "start a worker of that zone"}
}

// Letter is an answer to a session.
type Letter struct {
	To   string
	Text Granted
}

// Post sends the letters, and returns the holders whose workflows do not exist. After any
// other failure the holder keeps its lease. Temporal allows 2,000 pending signals.
func Post(ctx workflow.Context, letters []Letter) (gone []string) {
	for batch := range slices.Chunk(letters, 500) {
		sent := make([]workflow.Future, 0, len(batch))
		for _, l := range batch {
			sent = append(sent, workflow.SignalExternalWorkflow(ctx, protocol.SessionID(l.To), "", SignalLease, l.Text))
		}
		for i, fut := range sent {
			if err := fut.Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("holder not told", "holder", batch[i].To, "error", err)
				var unknown *temporal.UnknownExternalWorkflowExecutionError
				if errors.As(err, &unknown) {
					gone = append(gone, batch[i].To)
				}
			}
		}
	}
	return gone
}

// Who identifies one session among those of the same name. Run is the first run of its
// workflow, or empty if not known.
type Who struct{ Holder, Run string }

// Is reports whether w may mean other: an empty w.Run matches any.
func (w Who) Is(other Who) bool {
	return w.Holder == other.Holder && (w.Run == "" || w.Run == other.Run)
}

// FindEnded returns the holders that ended without a release. It fails if the run must end
// before a worker has looked.
func FindEnded(ctx workflow.Context, roll *kit.Rollover, holders []Who) ([]Who, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	in := overseer.FindEndedInput{}
	for _, h := range holders {
		in.Holders = append(in.Holders, overseer.Holder{WorkflowID: protocol.SessionID(h.Holder), FirstRun: h.Run})
	}
	slices.SortFunc(in.Holders, func(a, b overseer.Holder) int {
		return cmp.Or(strings.Compare(a.WorkflowID, b.WorkflowID), strings.Compare(a.FirstRun, b.FirstRun))
	})
	in.Holders = slices.Compact(in.Holders)
	actx, callBack := workflow.WithCancel(kit.SetUp(ctx, "look for holders that have ended"))
	defer callBack()
	var out overseer.FindEndedResult
	fut := workflow.ExecuteActivity(actx, askJobs.FindEnded, in)
	err := workflow.Await(ctx, func() bool { return fut.IsReady() || roll.Overdue() })
	if err == nil && !fut.IsReady() {
		err = errors.New("no worker checked for ended sessions before the workflow had to continue as new")
	}
	if err == nil {
		err = fut.Get(ctx, &out)
	}
	if err != nil {
		return nil, err
	}
	var ended []Who
	for _, h := range out.Ended {
		ended = append(ended, Who{strings.TrimPrefix(h.WorkflowID, protocol.SessionID("")), h.FirstRun})
	}
	return ended, nil
}

// SignalStirred tells a session that something happened to its process.
const SignalStirred = "stirred"

// SignalLooked tells a pool what was found on a host.
const SignalLooked = "folders"

// SignalHostBack tells a pool that a host was reached again.
const SignalHostBack = "host_back"

// LeftBehind is a session's report about a host that is not clean when it gives back the
// slot.
type LeftBehind struct {
	Host       string            `json:"host,omitempty"` // if not that of the lease
	Why        string            `json:"why"`
	Generation int64             `json:"generation"`
	Seed       *protocol.SeedRef `json:"seed,omitempty"`
	Layout     *protocol.Layout  `json:"layout,omitempty"`
	ThreadID   string            `json:"thread_id,omitempty"`
	Discard    bool              `json:"discard,omitempty"`
	// Wiped says that the credential was verified to be gone.
	Wiped bool `json:"wiped,omitempty"`
	// Snapshot says how the work is kept, and names the newest snapshot.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
}

// TenantName returns the tenant or the default.
func (a *Acquire) TenantName() string { return cmp.Or(a.Tenant, protocol.DefaultTenant) }

// Answers reports whether g answers a request to the workflow asked, perhaps on behalf of a
// pool of seeds.
func (g Granted) Answers(asked string) bool {
	return g.From == asked || g.Pool != "" && protocol.SeedPoolID(g.Pool) == asked
}

// Rotates reports whether codex renews logins of a kind.
func Rotates(kind string) bool { return kind == "chatgpt" }

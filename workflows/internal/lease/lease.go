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
	SignalFound   = "found"  // to a pool: the result of a host task
	SignalReport  = "report" // to a seed: what its holder observed
	SignalMember  = "member" // to a pool of seeds: the state of a member
)

// Acquire requests a slot from a pool, or the use of a seed.
type Acquire struct {
	Holder string            `json:"holder"` // a session
	Host   string            `json:"host,omitempty"`
	Prefer string            `json:"prefer,omitempty"` // a host, taken if it has a free slot
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"` // further conditions that the host must meet
	Rather []string          `json:"rather,omitempty"` // conditions that are preferred
	Seed   string            `json:"seed,omitempty"`   // to a pool: the seed that will be planted
	Run    string            `json:"run,omitempty"`    // first run id of the holder's workflow

	// To a pool of hosts: the tenant that the slot counts for (default "default"), the priority
	// among that tenant's requests (1 first, 5 last, 0 is 3), and when the holder first asked.
	Tenant   string    `json:"tenant,omitempty"`
	Priority int       `json:"priority,omitempty"`
	AskedAt  time.Time `json:"asked_at,omitzero"`
	// Begun says that the session has run before, or was in the line already. If nothing
	// suits it, the session waits for a change and is not refused.
	Begun bool `json:"begun,omitempty"`

	// To a seed: the place of the credential, told before the credential is there. It is a
	// host, its zone and the generation of the session's claim on the host.
	At   *protocol.HostSpec `json:"at,omitempty"`
	Zone string             `json:"zone,omitempty"`
	// Generation, to a pool, is the lowest generation that the session's claim can have.
	Generation int64 `json:"generation,omitempty"`
	// Brokered says that no file of the seed will be on the host.
	Brokered bool `json:"brokered,omitempty"`

	// Pool is the pool of seeds that asks a seed on the holder's behalf. The seed then
	// grants the lease now or not at all. With Again, the seed grants only a lease that the
	// holder already has. If Holder is empty, the pool asks for the seed's state.
	Pool  string `json:"pool,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// TooLarge reports whether a request is too large for a line. Pool and Again do not count, so a
// seed accepts whatever a pool of seeds accepted.
func (a Acquire) TooLarge() bool {
	a.Pool, a.Again = "", false
	return kit.Encoded(a) > MaxHost
}

// Decline returns the letter that refuses a request which is too large.
func (a Acquire) Decline(from string) Letter {
	return Letter{a.Holder, Granted{From: from, Run: a.Run, Refused: &protocol.Failure{Kind: protocol.RefusedBadInput,
		Message: fmt.Sprintf("%s was asked with %d bytes of labels, addresses and keys, and takes %d", from, kit.Encoded(a), MaxHost),
		Hint:    "ask with fewer labels, or give the host fewer keys"}}}
}

// Release gives back a slot or a seed, or takes back a request.
type Release struct {
	Holder string `json:"holder"`
	Run    string `json:"run,omitempty"` // as in Acquire
	// Failed is the fault of the host that kept the session from working there; nil if the
	// host had no fault.
	Failed *protocol.Failure `json:"failed,omitempty"`
	// Left, to a pool, says what the session could not clean up on the host. Warm is the
	// folder that a parked session keeps on the host.
	Left *LeftBehind `json:"left,omitempty"`
	Warm *LeftBehind `json:"warm,omitempty"`
	// Generation is that of the newest acquire. The release also takes back an older
	// acquire that is still unread, but not a newer one.
	Generation int64 `json:"generation,omitempty"`

	// To a seed. Epoch is that of the lease; 0 says that the holder took no lease.
	Epoch int64 `json:"epoch,omitempty"`
	// Clean says that the credential was verified to be gone from the host, and that the
	// login is saved if codex renewed it.
	Clean bool `json:"clean,omitempty"`
	// At and Zone say where the login is if the lease on it was lost; see seed.fetchFrom.
	At   *protocol.HostSpec `json:"at,omitempty"`
	Zone string             `json:"zone,omitempty"`
	// Discarded says that somebody gave up what could not be saved.
	Discarded bool `json:"discarded,omitempty"`
	// Proven is the start of the newest turn that codex completed with the seed.
	Proven time.Time `json:"proven,omitzero"`
}

// Report tells a seed what its holder observed.
type Report struct {
	Holder  string    `json:"holder"`
	Epoch   int64     `json:"epoch"`
	Verdict string    `json:"verdict"` // suspect, alive
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	Began   time.Time `json:"began,omitzero"` // start of the turn that shows that the seed works
}

// Verdicts of a holder about its seed.
const (
	VerdictSuspect = "suspect"
	VerdictAlive   = "alive"
)

// Granted answers an Acquire: it grants a lease, says what the holder waits for, or
// refuses.
type Granted struct {
	From    string            `json:"from"`           // the workflow that answers
	Run     string            `json:"run,omitempty"`  // first run id of the session that the answer is for
	Pool    string            `json:"pool,omitempty"` // the pool of seeds that asked on the holder's behalf
	Queued  string            `json:"queued,omitempty"`
	Refused *protocol.Failure `json:"refused,omitempty"`
	// RetryAfter says when to ask again if the request was refused only for now.
	RetryAfter time.Duration      `json:"retry_after,omitempty"`
	Epoch      int64              `json:"epoch,omitempty"`
	Spec       *protocol.HostSpec `json:"spec,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"` // labels of the host, for policies: only those that people set, never those that a probe found
	Seed       *protocol.SeedRef  `json:"seed,omitempty"`
	Policy     string             `json:"policy,omitempty"` // of the seed
	Amend      bool               `json:"amend,omitempty"`  // people may be offered amendments in sessions of this seed
}

// NotThere returns the failure of a request to a workflow that could not be signalled.
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

// Letter is an answer and the session that it goes to.
type Letter struct {
	To   string
	Text Granted
}

// Post sends the letters, and returns the holders whose workflows do not exist any more. If
// a signal fails for another reason, the holder keeps its lease. Post sends 500 signals at
// a time, because Temporal allows 2,000 pending ones.
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

// Who identifies one session among those of the same name. Run is the first run id of its
// workflow, or empty if it is not known.
type Who struct{ Holder, Run string }

// Is reports whether w may mean other: an empty Run matches any.
func (w Who) Is(other Who) bool {
	return w.Holder == other.Holder && (w.Run == "" || w.Run == other.Run)
}

// FindEnded returns the holders whose workflows have ended without a release. It returns an
// error if the run must end soon and no worker has looked for them yet.
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
		err = errors.New("nobody looked before the run had to end")
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

// SignalLooked tells a pool what a look at a host found.
const SignalLooked = "folders"

// SignalHostBack tells a pool that a host was reached again.
const SignalHostBack = "host_back"

// SignalHostAway tells a pool that the watch of a host cannot reach it.
const SignalHostAway = "host_away"

// LeftBehind is a session's report about its host if it gives back the slot before the host
// is clean.
type LeftBehind struct {
	Host       string            `json:"host,omitempty"` // set if it is not the host of the lease
	Why        string            `json:"why"`
	Generation int64             `json:"generation"`
	Seed       *protocol.SeedRef `json:"seed,omitempty"`
	Layout     *protocol.Layout  `json:"layout,omitempty"`
	ThreadID   string            `json:"thread_id,omitempty"`
	Discard    bool              `json:"discard,omitempty"`
	// Wiped says that the credential was verified to be gone.
	Wiped bool `json:"wiped,omitempty"`
	// Snapshot says how the session's work is kept, and names the newest snapshot.
	Snapshot *snaps.SnapshotSpec `json:"snapshot,omitempty"`
}

// TenantName returns the tenant that a request counts for.
func (a *Acquire) TenantName() string { return cmp.Or(a.Tenant, protocol.DefaultTenant) }

// Answers reports whether g answers a request to the workflow asked. A pool of seeds lets
// one of its seeds answer.
func (g Granted) Answers(asked string) bool {
	return g.From == asked || g.Pool != "" && protocol.SeedPoolID(g.Pool) == asked
}

// Rotates reports whether codex renews credentials of a kind.
func Rotates(kind string) bool { return kind == "chatgpt" }

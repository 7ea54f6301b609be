package workflows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// Leases are asked for and given by signal, so that nobody blocks a handler:
// acquire → granted (or queued, or refused) … release. All are idempotent by
// the holder's name.
const (
	signalAcquire = "acquire"
	signalRelease = "release"
	signalLease   = "lease"  // to the holder
	signalFound   = "found"  // to a pool: what a host task found out
	signalReport  = "report" // to a seed: what its holder saw of it
	signalMember  = "member" // to a pool of seeds: how one of them is
)

// acquire asks a pool for a slot, or a seed for its use.
type acquire struct {
	Holder string            `json:"holder"` // a session
	Host   string            `json:"host,omitempty"`
	Prefer string            `json:"prefer,omitempty"` // a host, if it is free
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"` // what the host must meet beyond them
	Rather []string          `json:"rather,omitempty"` // what it had better meet
	Seed   string            `json:"seed,omitempty"`   // to a pool: what it will plant
	Run    string            `json:"run,omitempty"`    // of the holder's workflow, the first

	// Of a pool of hosts: for whom it counts there (default "default"), which of
	// his it is (1 first, 5 last, 0 is 3), and since when it asks.
	Tenant   string    `json:"tenant,omitempty"`
	Priority int       `json:"priority,omitempty"`
	AskedAt  time.Time `json:"asked_at,omitzero"`
	// Begun says that it has work behind it: where there is nothing for it, it
	// waits until something changes instead of being refused.
	Begun bool `json:"begun,omitempty"`

	// Of a seed it says where the credential will be, before it is there: a
	// host, its zone and the generation of the session's claim on it.
	At   *activities.HostSpec `json:"at,omitempty"`
	Zone string               `json:"zone,omitempty"`
	// Generation is, of a pool, the lowest that the claim can have.
	Generation int64 `json:"generation,omitempty"`
	// Brokered says that nothing of the seed will be on the host.
	Brokered bool `json:"brokered,omitempty"`

	// Pool is the pool of seeds that asks a seed for the holder: it is granted
	// now or not at all. Again: only what the holder has already. With no holder
	// the pool asks how the seed is.
	Pool  string `json:"pool,omitempty"`
	Again bool   `json:"again,omitempty"`
}

// tooLarge says that one who asks says more than a line has room for. What a
// pool of seeds lets through a seed takes from it, with what the pool adds.
func (a acquire) tooLarge() bool {
	a.Pool, a.Again = "", false
	return encoded(a) > maxHost
}

// decline refuses that.
func (a acquire) decline(from string) letter {
	return letter{a.Holder, granted{From: from, Run: a.Run, Refused: &Failure{Kind: RefusedBadInput,
		Message: fmt.Sprintf("%s was asked with %d bytes of labels, addresses and keys, and takes %d", from, encoded(a), maxHost),
		Hint:    "ask with fewer labels, or give the host fewer keys"}}}
}

// release gives back whatever the holder has.
type release struct {
	Holder string `json:"holder"`
	Run    string `json:"run,omitempty"` // as in acquire
	// Failed is why nothing could be begun on the host, where that is its fault.
	Failed *Failure `json:"failed,omitempty"`
	// Left is told to a pool by a session that could not clean up, Warm by one
	// that is parked: of the folder that waits for it.
	Left *leftBehind `json:"left,omitempty"`
	Warm *leftBehind `json:"warm,omitempty"`
	// Generation is that of the newest acquire: an older one that lies unread is
	// taken back with it, a newer one is not.
	Generation int64 `json:"generation,omitempty"`

	// Of a seed. Epoch is the lease's; 0 says that the holder took none.
	Epoch int64 `json:"epoch,omitempty"`
	// Clean says that the credential is gone from the host, which was looked
	// at, and that what codex made of it is saved.
	Clean bool `json:"clean,omitempty"`
	// Discarded says that somebody gave up what could not be saved.
	Discarded bool `json:"discarded,omitempty"`
	// Proven is when the last turn began that codex completed with it.
	Proven time.Time `json:"proven,omitzero"`
}

// report is what a holder saw of its seed.
type report struct {
	Holder  string    `json:"holder"`
	Epoch   int64     `json:"epoch"`
	Verdict string    `json:"verdict"` // suspect, alive
	Reason  string    `json:"reason,omitempty"`
	Hint    string    `json:"hint,omitempty"`
	Began   time.Time `json:"began,omitzero"` // what shows that it is alive
}

// What a holder can say of its seed.
const (
	VerdictSuspect = "suspect"
	VerdictAlive   = "alive"
)

// granted is the answer to the holder.
type granted struct {
	From    string               `json:"from"`           // the workflow that answers
	Run     string               `json:"run,omitempty"`  // the first of the holder's workflow: it is nobody else's
	Pool    string               `json:"pool,omitempty"` // of seeds, by which it was asked for
	Queued  string               `json:"queued,omitempty"`
	Refused *Failure             `json:"refused,omitempty"`
	Epoch   int64                `json:"epoch,omitempty"`
	Spec    *activities.HostSpec `json:"spec,omitempty"`
	Labels  map[string]string    `json:"labels,omitempty"` // of that host, for policies: those that people gave it, never what it says of itself
	Seed    *activities.SeedRef  `json:"seed,omitempty"`
	Policy  string               `json:"policy,omitempty"` // of that seed
	Amend   bool                 `json:"amend,omitempty"`  // its sessions may be offered amendments
}

// notThere says why a lease cannot even be asked for.
func notThere(from string, err error) *Failure {
	var unknown *temporal.UnknownExternalWorkflowExecutionError
	if !errors.As(err, &unknown) {
		return &Failure{Kind: activities.ErrTypeInternal, Message: fmt.Sprintf("ask %s for a lease: %v", from, err)}
	}
	if name, ok := strings.CutPrefix(from, "seed/"); ok {
		return &Failure{Kind: "seed_not_found", Message: fmt.Sprintf("there is no seed %q", name),
			Hint: "`ctl seed list` shows those there are; `ctl seed import` makes one"}
	}
	if name, ok := strings.CutPrefix(from, "seedpool/"); ok {
		return &Failure{Kind: "seed_pool_not_found", Message: fmt.Sprintf("there is no seed pool %q", name),
			Hint: fmt.Sprintf("`ctl seed list` shows the pools that seeds are in; `ctl seed set NAME --pool %s` puts one into it", name)}
	}
	return &Failure{Kind: "no_pool", Message: fmt.Sprintf("no worker has ever served %s", from),
		Hint: "start a worker of that zone"}
}

// letter is an answer on its way.
type letter struct {
	to   string
	text granted
}

// post answers holders and names those who are gone: they have no use for a
// lease. One that could not be told for another reason has what it has. Temporal takes 2,000 such signals at a time.
func post(ctx workflow.Context, letters []letter) (gone []string) {
	for batch := range slices.Chunk(letters, 500) {
		sent := make([]workflow.Future, 0, len(batch))
		for _, l := range batch {
			sent = append(sent, workflow.SignalExternalWorkflow(ctx, SessionID(l.to), "", signalLease, l.text))
		}
		for i, fut := range sent {
			if err := fut.Get(ctx, nil); err != nil {
				workflow.GetLogger(ctx).Warn("holder not told", "holder", batch[i].to, "error", err)
				var unknown *temporal.UnknownExternalWorkflowExecutionError
				if errors.As(err, &unknown) {
					gone = append(gone, batch[i].to)
				}
			}
		}
	}
	return gone
}

// reapEvery is how often those who hold a lease are looked at: whether they
// still live.
var reapEvery = 5 * time.Minute

// A who is one session among those that had the same name: Run is the first of
// its workflow, empty where that is not known.
type who struct{ Holder, Run string }

// is says whether somebody may be meant: where no run is known, any is.
func (w who) is(other who) bool {
	return w.Holder == other.Holder && (w.Run == "" || w.Run == other.Run)
}

func (t ticket) who() who { return who{t.Holder, t.Run} }

// findEnded names those whose workflows have ended without a release.
func findEnded(ctx workflow.Context, holders []who) ([]who, error) {
	if len(holders) == 0 {
		return nil, nil
	}
	in := activities.FindEndedInput{}
	for _, h := range holders {
		in.Holders = append(in.Holders, activities.Holder{WorkflowID: SessionID(h.Holder), FirstRun: h.Run})
	}
	slices.SortFunc(in.Holders, func(a, b activities.Holder) int {
		return cmp.Or(strings.Compare(a.WorkflowID, b.WorkflowID), strings.Compare(a.FirstRun, b.FirstRun))
	})
	in.Holders = slices.Compact(in.Holders)
	out, err := do(setUp(ctx, "look for holders that have ended"), engine.FindEnded, in)
	if err != nil {
		return nil, err
	}
	var ended []who
	for _, h := range out.Ended {
		ended = append(ended, who{strings.TrimPrefix(h.WorkflowID, SessionID("")), h.FirstRun})
	}
	return ended, nil
}

package workflows

import (
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/activities"
)

// SeedInput starts a Seed workflow.
type SeedInput struct {
	Name  string     `json:"name"`
	Carry *seedState `json:"carry,omitempty"`
}

// seedState is all that a seed carries across continue-as-new.
type seedState struct {
	Ref     *activities.SeedRef `json:"ref,omitempty"`
	Files   []SeedFile          `json:"files,omitempty"`
	Blobs   []string            `json:"blobs,omitempty"` // every generation's, for a purge
	Epoch   int64               `json:"epoch"`
	Holders []string            `json:"holders,omitempty"`
	Queue   []ticket            `json:"queue,omitempty"`
	PutAt   time.Time           `json:"put_at"`
	ReapAt  time.Time           `json:"reap_at"`
	Deleted bool                `json:"deleted,omitempty"`
	Purge   bool                `json:"purge,omitempty"` // its blobs too
}

// Seed names the newest generation of a credential and who holds it. It ends
// when the seed is deleted.
func Seed(ctx workflow.Context, in SeedInput) error {
	s := &seed{ctx: ctx, name: in.Name, st: in.Carry, alarm: newAlarm(ctx, "look after holders"), roll: newRollover(ctx)}
	if s.st == nil {
		s.st = &seedState{}
	}
	if err := s.listen(); err != nil {
		return err
	}
	for !s.st.Deleted {
		s.serve()
		if len(s.st.Holders) > 0 {
			if s.st.ReapAt.IsZero() {
				s.st.ReapAt = workflow.Now(s.ctx).Add(reapEvery)
			}
			s.alarm.set(s.st.ReapAt)
		}
		err := workflow.Await(ctx, func() bool {
			s.drain()
			return s.work || s.st.Deleted || s.alarm.due() || s.roll.due()
		})
		if err != nil {
			return err
		}
		if s.alarm.off() {
			s.st.ReapAt = time.Time{}
			s.reap()
		}
		if s.roll.due() && !s.work && !s.st.Deleted {
			return s.rollOver()
		}
	}
	return s.bury()
}

// bury purges a deleted seed. Whoever asks for it meanwhile is told.
func (s *seed) bury() error {
	var purged workflow.Future
	if s.st.Purge {
		purged = workflow.ExecuteActivity(untilDone(s.ctx, "purge seed "+s.name), seeds.DeleteSeedBlobs,
			activities.DeleteSeedInput{Name: s.name, Blobs: s.st.Blobs})
	}
	for {
		s.serve()
		done := func() bool {
			return (purged == nil || purged.IsReady()) && workflow.AllHandlersFinished(s.ctx)
		}
		if err := workflow.Await(s.ctx, func() bool { s.drain(); return s.work || done() }); err != nil {
			return err
		}
		switch {
		case s.work:
		case purged != nil:
			return purged.Get(s.ctx, nil)
		default:
			return nil
		}
	}
}

type seed struct {
	ctx  workflow.Context
	name string
	st   *seedState
	acq  workflow.ReceiveChannel
	rel  workflow.ReceiveChannel
	work bool

	alarm *alarm // for the holders; its time is carried, so that no rollover puts it off
	roll  *rollover
}

func (s *seed) listen() error {
	s.acq = workflow.GetSignalChannel(s.ctx, signalAcquire)
	s.rel = workflow.GetSignalChannel(s.ctx, signalRelease)
	return firstError(
		workflow.SetQueryHandler(s.ctx, QuerySeed, func() (SeedView, error) { return s.view(), nil }),
		workflow.SetUpdateHandlerWithOptions(s.ctx, UpdatePutSeed, s.put,
			workflow.UpdateHandlerOptions{Validator: s.checkPut}),
		workflow.SetUpdateHandlerWithOptions(s.ctx, UpdateDeleteSeed, s.remove,
			workflow.UpdateHandlerOptions{Validator: func(_ workflow.Context, _ DeleteSeed) error {
				switch {
				case s.st.Ref == nil || s.st.Deleted:
					return refuse(RefusedNotFound, "there is no seed %q", s.name)
				case len(s.st.Holders) > 0:
					return refuse(RefusedState, "seed %s is held by %s", s.name, strings.Join(s.st.Holders, ", "))
				}
				return nil
			}}),
	)
}

func (s *seed) checkPut(_ workflow.Context, in PutSeed) error {
	switch {
	case !NamePattern.MatchString(in.Name) || in.Name != s.name:
		return refuse(RefusedBadInput, "seed name %q: use a-z, 0-9, dot, dash, underscore; at most 63, the first a letter or a digit", in.Name)
	case s.st.Deleted:
		return refuse(RefusedState, "seed %s is being deleted: try again in a moment", in.Name)
	case in.Ref.Blob == "" || in.Ref.Digest == "":
		return refuse(RefusedBadInput, "seed %s: the bundle is not in the store", in.Name)
	case in.Expect != 0 && (s.st.Ref == nil || s.st.Ref.Generation != in.Expect):
		return refuse(RefusedState, "seed %s is not at generation %d any more", in.Name, in.Expect)
	case s.exclusive() && len(s.st.Holders) > 0:
		return refuse(RefusedState, "seed %s is a login that rotates and is held by %s", in.Name, strings.Join(s.st.Holders, ", "))
	}
	return nil
}

func (s *seed) put(_ workflow.Context, in PutSeed) (SeedView, error) {
	s.roll.took()
	gen := int64(1)
	if s.st.Ref != nil {
		gen = s.st.Ref.Generation + 1
	}
	ref := in.Ref
	ref.Name, ref.Generation = s.name, gen
	s.st.Ref, s.st.Files, s.st.PutAt = &ref, in.Files, workflow.Now(s.ctx)
	if !slices.Contains(s.st.Blobs, ref.Blob) {
		s.st.Blobs = append(s.st.Blobs, ref.Blob)
	}
	s.work = true
	return s.view(), nil
}

// remove takes effect at once; the blobs follow.
func (s *seed) remove(_ workflow.Context, in DeleteSeed) (SeedView, error) {
	s.roll.took()
	s.st.Deleted, s.st.Purge = true, in.Purge
	s.work = true
	return s.view(), nil
}

// exclusive says that only one session may hold the seed: its refresh token
// can be used once, and two holders would burn it.
func (s *seed) exclusive() bool { return s.st.Ref != nil && s.st.Ref.Kind == "chatgpt" }

func (s *seed) enqueue(holder string) {
	// One that asks again keeps its place and is told again.
	if i := slices.IndexFunc(s.st.Queue, func(t ticket) bool { return t.Holder == holder }); i >= 0 {
		s.st.Queue[i].Told = ""
	} else {
		s.st.Queue = append(s.st.Queue, ticket{acquire: acquire{Holder: holder}})
	}
	s.work = true
}

func (s *seed) drop(holder string) {
	s.st.Holders = slices.DeleteFunc(s.st.Holders, func(h string) bool { return h == holder })
	s.st.Queue = slices.DeleteFunc(s.st.Queue, func(t ticket) bool { return t.Holder == holder })
	s.work = true
}

// serve grants in the order of asking; all is decided before anybody is told.
func (s *seed) serve() {
	s.work = false
	var letters []letter
	say := func(holder string, g granted) {
		g.From = SeedID(s.name)
		letters = append(letters, letter{holder, g})
	}
	var left []ticket
	for _, t := range s.st.Queue {
		held := slices.Contains(s.st.Holders, t.Holder)
		switch {
		case s.st.Ref == nil || s.st.Deleted:
			say(t.Holder, granted{Refused: &Failure{
				Kind: "seed_not_found", Message: "seed " + s.name + " has no content", Hint: "import it again"}})
		case !held && s.exclusive() && len(s.st.Holders) > 0:
			left = append(left, t)
			if why := "seed " + s.name + ", held by " + s.st.Holders[0]; t.Told != why {
				left[len(left)-1].Told = why
				say(t.Holder, granted{Queued: why})
			}
		default:
			if !held {
				s.st.Epoch++
				s.st.Holders = append(s.st.Holders, t.Holder)
			}
			ref := *s.st.Ref
			say(t.Holder, granted{Epoch: s.st.Epoch, Seed: &ref})
		}
	}
	s.st.Queue = left
	for _, holder := range post(s.ctx, letters) {
		s.drop(holder)
	}
}

func (s *seed) reap() {
	ended, err := findEnded(s.ctx, s.st.Holders)
	if err != nil {
		workflow.GetLogger(s.ctx).Warn("holders not looked at", "error", err)
		return
	}
	for _, h := range ended {
		s.drop(h)
	}
}

func (s *seed) rollOver() error {
	err := workflow.Await(s.ctx, func() bool { s.drain(); return workflow.AllHandlersFinished(s.ctx) })
	if err != nil {
		return err
	}
	s.drain()
	return workflow.NewContinueAsNewError(s.ctx, Seed, SeedInput{Name: s.name, Carry: s.st})
}

// drain takes the signals that lie unread; see session.drain for why so.
func (s *seed) drain() {
	for {
		var a acquire
		if !s.acq.ReceiveAsync(&a) {
			break
		}
		if NamePattern.MatchString(a.Holder) {
			s.enqueue(a.Holder)
		}
	}
	for {
		var r release
		if !s.rel.ReceiveAsync(&r) {
			break
		}
		s.drop(r.Holder)
	}
}

func (s *seed) view() SeedView {
	v := SeedView{Name: s.name, Health: "unknown", HeldBy: append([]string{}, s.st.Holders...), Epoch: s.st.Epoch,
		Files: s.st.Files, Ref: s.st.Ref, Deleted: s.st.Deleted}
	if s.st.Ref != nil {
		v.Kind, v.Generation = s.st.Ref.Kind, s.st.Ref.Generation
	}
	if v.Files == nil {
		v.Files = []SeedFile{}
	}
	return v
}

package activities

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
)

// away has a host of its own, a pump's input for it, and a clock that tests set.
type away struct {
	*bed
	sshd *hosttest.SSHD
	in   pumps.RunPumpInput
	now  time.Time
	last pumps.PumpBeat // given to the next attempt
}

func newAway(t *testing.T) *away {
	sshd := hosttest.StartSSHD(t, hosttest.Options{})
	w := &away{bed: newBed(t, sshd.Spec()), sshd: sshd, now: time.Unix(1_700_000_000, 0)}
	w.at(w.bed)
	l := folder.LayoutOf(filepath.Join(sshd.Home, "root"), "away")
	w.in = pumps.RunPumpInput{Claim: protocol.Claim{Session: "away", Host: w.spec, Generation: 1, Pump: 1}, Layout: l, LostAfter: time.Minute}
	w.in.Pump = conversation.PumpInput{Session: "away", Prefix: "g1.p1", Thread: conversation.ThreadSpec{CWD: l.WorkDir, Sandbox: "read-only", ApprovalPolicy: "never"}}
	w.in.Pump.State.Cursor.Incarnation = 1
	if _, err := hosts.EnterRoot(t.Context(), w.host(), l.Root, ""); err != nil {
		t.Fatal(err)
	}
	return w
}

// at makes a worker use the test's clock.
func (w *away) at(b *bed) { b.set.site.Now = func() time.Time { return w.now } }

// try runs one attempt on a worker, which gets the last heartbeat of the attempt
// before.
func (w *away) try(on *bed, n int32) (pumps.RunPumpResult, error) {
	w.t.Helper()
	a := pumps.Attempt{N: n, Last: w.last, Beat: func(b pumps.PumpBeat) { w.last = b }}
	return pumps.RunPump(w.t.Context(), on.set.Pump.Site, w.in, a)
}

// goes stops the host. comes starts it again.
func (w *away) goes() {
	w.t.Helper()
	if err := w.sshd.Stop(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *away) comes() {
	w.t.Helper()
	if err := w.sshd.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// The next attempt, on another worker, knows since when a host is out of reach. If the
// host was reached in between, the time begins again.
func TestAHostIsLostAfterItWasAwayForSoLongOnWhateverWorker(t *testing.T) {
	w := newAway(t)
	other := w.another()
	w.at(other)
	w.goes()
	began := w.now
	for i, on := range []*bed{w.bed, other, w.bed} {
		out, err := w.try(on, int32(i+1))
		if kindOfError(err) != protocol.ErrTypeUnreachable || out.HostLost != nil {
			t.Fatalf("attempt %d: %+v, %v", i+1, out, err)
		}
		if w.last.Away == nil || !w.last.Away.Since.Equal(began) || !w.last.Away.Last.Equal(w.now) {
			t.Errorf("attempt %d says %+v; it is away since %v", i+1, w.last.Away, began)
		}
		w.now = w.now.Add(20 * time.Second)
	}
	// A worker that has just started knows only what the heartbeat says.
	third := w.another()
	w.at(third)
	out, err := w.try(third, 4)
	if err != nil || out.HostLost == nil || !out.HostLost.Since.Equal(began) || out.HostLost.Why == "" {
		t.Fatalf("after a minute: %+v, %v", out, err)
	}
	w.comes()
	if out, err := w.try(w.bed, 5); err != nil || out.HostLost != nil || out.Pump.Reason != conversation.ProcessEnded {
		t.Fatalf("the host is back: %+v, %v", out, err)
	}
	if still := w.set.site.Reach.Now(w.spec); still != nil {
		t.Errorf("it is still said to be away: %+v", still)
	}
	w.last = pumps.PumpBeat{}
	w.goes()
	if out, err := w.try(w.bed, 6); kindOfError(err) != protocol.ErrTypeUnreachable || out.HostLost != nil || !w.last.Away.Since.Equal(w.now) {
		t.Errorf("away again: %+v, %v, %+v", out, err, w.last.Away)
	}
}

// Time without a try does not count as out of reach.
func TestAHostIsNotLostWhileNobodyTried(t *testing.T) {
	w := newAway(t)
	w.goes()
	if _, err := w.try(w.bed, 1); kindOfError(err) != protocol.ErrTypeUnreachable {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	out, err := w.try(w.bed, 2)
	if kindOfError(err) != protocol.ErrTypeUnreachable || out.HostLost != nil || !w.last.Away.Since.Equal(w.now) {
		t.Errorf("an hour later: %+v, %v, %+v", out, err, w.last.Away)
	}
}

// Temporal keeps the heartbeat: RunPump uses what the attempt before it reported.
func TestAPumpIsGivenWhatTheAttemptBeforeKnew(t *testing.T) {
	w := newAway(t)
	w.goes()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(patience)
	w.set.Register(env)
	since := w.now.Add(-2 * time.Minute)
	env.SetHeartbeatDetails(pumps.PumpBeat{Away: &site.OutOfReach{Since: since, Last: w.now.Add(-5 * time.Second), Why: "no answer"}})
	val, err := env.ExecuteActivity(w.set.Pump.RunPump, w.in)
	if err != nil {
		t.Fatal(err)
	}
	var out pumps.RunPumpResult
	if err := val.Get(&out); err != nil || out.HostLost == nil || !out.HostLost.Since.Equal(since) {
		t.Errorf("%+v, %v", out, err)
	}
}

// A host that answers is not lost, even if it refuses. A fault of the worker's own
// machine does not count against the host.
func TestOnlyAHostThatDoesNotAnswerIsLost(t *testing.T) {
	w := newAway(t)
	w.in.LostAfter = time.Nanosecond
	for what, change := range map[string]func(*pumps.RunPumpInput){
		"it refuses our keys": func(in *pumps.RunPumpInput) { in.Claim.Host.Identity = strange(t) },
		"its key is another": func(in *pumps.RunPumpInput) {
			in.Claim.Host.HostKeys = []string{hosttest.StartSSHD(t, hosttest.Options{}).HostKey()}
		},
		"it knows a newer one": func(in *pumps.RunPumpInput) { in.Claim.Generation = 0 },
	} {
		in := w.in
		change(&in)
		in.Claim.Host.Name = what // each with connections of its own
		if what == "it knows a newer one" {
			if _, err := places.MakeFolders(t.Context(), w.host(), in.Layout, folder.FolderMark{Generation: 5}, folder.FenceOf(protocol.Claim{Generation: 5}, in.Layout.Dir, 1)); err != nil {
				t.Fatal(err)
			}
			if _, err := process.Start(t.Context(), w.host(), process.Spec{
				Dir: folder.ServerDir(in.Layout, 1), Fence: folder.FenceOf(protocol.Claim{Generation: 5}, in.Layout.Dir, 1), Argv: []string{"true"}, WorkDir: "/"}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := pumps.RunPump(t.Context(), w.set.Pump.Site, in, quiet(1))
		if err == nil || out.HostLost != nil || kindOfError(err) == protocol.ErrTypeUnreachable {
			t.Errorf("%s: %+v, %v", what, out, err)
		}
	}
	dial := func(err error) error {
		return fmt.Errorf("%w: %w", hostexec.ErrUnreachable, &net.OpError{Op: "dial", Net: "tcp", Err: err})
	}
	for err, lost := range map[error]bool{
		dial(os.NewSyscallError("connect", syscall.ENETUNREACH)):                         false,
		dial(os.NewSyscallError("socket", syscall.EMFILE)):                               false,
		dial(&net.DNSError{Err: "server misbehaving", Name: "web-1", IsTemporary: true}): false,
		dial(&net.DNSError{Err: "no such host", Name: "web-1", IsNotFound: true}):        true,
		dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)):                        true,
		dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)):                        true,
		dial(os.ErrDeadlineExceeded):                                                     true,
		fmt.Errorf("%w: cut", conversation.ErrWireLost):                                  true,
		fmt.Errorf("%w: cut", hostexec.ErrOutcomeUnknown):                                true,
		kit.ErrHandOver: false,
	} {
		if got := site.IsOutOfReach(err); got != lost {
			t.Errorf("%v: out of reach is %v", err, got)
		}
	}
}

// strange returns a key that no host knows.
func strange(t *testing.T) string {
	return hosttest.StartSSHD(t, hosttest.Options{}).Identity()
}

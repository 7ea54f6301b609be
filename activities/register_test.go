package activities

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/activities/slots"
)

// A registry records what is registered, and passes it on to a real worker, which
// refuses what is not an activity.
type registry struct {
	worker.ActivityRegistry
	names []string
}

func (r *registry) RegisterActivity(a any) {
	r.ActivityRegistry.RegisterActivity(a)
	for i := range reflect.TypeOf(a).NumMethod() {
		r.names = append(r.names, reflect.TypeOf(a).Method(i).Name)
	}
}

func (r *registry) RegisterActivityWithOptions(any, activity.RegisterOptions) { panic("not foreseen") }

func TestEveryActivityIsRegisteredUnderANameOfItsOwn(t *testing.T) {
	c, err := client.NewLazyClient(client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := &registry{ActivityRegistry: worker.New(c, "test", worker.Options{})}
	New(site.Deps{Temporal: c}).Register(r)
	slices.Sort(r.names)
	want := "CaptureSeed CheckHost CheckOldHosts CheckSnapshots ClaimStart CloseSession DeleteSeedBlobs FindEnded FindLeftovers FindSessions FindSilent ForgetLogin HoldBlobs MakeLogin ParkSession PinSnapshot PlanTest PrepareSession ProbeHosts ProvisionCodex PruneSnapshots PushWorkspace PutSeed RecordLost RecordNotes RecordResults RecoverSeed RecoverSeeds RefreshSeed RemoveLogin RotateKeys RunExec RunPump ScanHostKeys SendNotice StartItems StartServer StopServer TakeSnapshot TidyStore VerifySeed VerifySeeds WatchEvents WatchHost WipeLeftover WriteAudit"
	if got := strings.Join(r.names, " "); got != want {
		t.Errorf("registered %s, want %s", got, want)
	}
	for _, name := range slots.Long() {
		if !slices.Contains(r.names, name) {
			t.Errorf("%s has a class of slots, and is no activity", name)
		}
	}
}

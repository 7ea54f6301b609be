package slots

import "fmt"

// A Class is a kind of activity, by how long the activities take.
type Class string

// The classes.
const (
	Pumps    Class = "pumps"
	Watches  Class = "watches"
	Bulk     Class = "bulk"
	Commands Class = "commands"
	Short    Class = "short"
)

// Classes returns all classes.
func Classes() []Class { return []Class{Pumps, Watches, Bulk, Commands, Short} }

// of has the class of each activity that is not short.
var of = map[string]Class{
	"RunPump": Pumps,

	"WatchHost": Watches, "WatchEvents": Watches,

	"PrepareSession": Bulk, "CloseSession": Bulk, "ParkSession": Bulk, "TakeSnapshot": Bulk, "ProvisionCodex": Bulk, "PushWorkspace": Bulk,
	"CaptureSeed": Bulk, "RecordLost": Bulk, "WipeLeftover": Bulk, "PruneSnapshots": Bulk, "CheckSnapshots": Bulk, "TidyStore": Bulk, "RotateKeys": Bulk,

	"RunExec": Commands,
}

// ClassOf returns the class of an activity.
func ClassOf(activity string) Class {
	if c, ok := of[activity]; ok {
		return c
	}
	return Short
}

// Long returns the activities that are not short.
func Long() []string {
	var all []string
	for name := range of {
		all = append(all, name)
	}
	return all
}

// Limits are the slots of each class.
type Limits map[Class]int

// check returns an error if a class has no slots.
func (l Limits) check() error {
	for _, c := range Classes() {
		if l[c] < 1 {
			return fmt.Errorf("%d slots for %s: at least 1", l[c], c)
		}
	}
	return nil
}

// all returns how many activities may run at once.
func (l Limits) all() int {
	n := 0
	for _, c := range Classes() {
		n += l.most(c)
	}
	return n
}

// most returns how many activities of a class may run at once.
func (l Limits) most(c Class) int {
	if c == Pumps {
		return l[c] + spare(l[c])
	}
	return l[c]
}

// spare is how many pumps beyond the limit may bring decisions of people to codex.
func spare(limit int) int { return limit/10 + 1 }

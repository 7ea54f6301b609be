package inquiry

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/protocol"
)

// A LeftDesk has FindLeftovers' calls to Temporal.
type LeftDesk interface {
	Hosts(ctx context.Context, pool string) ([]HostNow, error)
	Known(ctx context.Context, pool string) ([]LeftThere, error)
	Owner(ctx context.Context, session string, generation int64) (FolderOwner, error)
	Tell(ctx context.Context, pool, signal string, what HostsLooked) error
}

// TemporalLeft is the LeftDesk of a client.
type TemporalLeft struct{ Client client.Client }

func (d TemporalLeft) Hosts(ctx context.Context, pool string) ([]HostNow, error) {
	return HostsOf(ctx, d.Client, pool)
}

func (d TemporalLeft) Known(ctx context.Context, pool string) ([]LeftThere, error) {
	return askPool(ctx, d.Client, pool, protocol.QueryFolders)
}

func (d TemporalLeft) Owner(ctx context.Context, session string, generation int64) (FolderOwner, error) {
	return AskFolderOwner(ctx, d.Client, session, generation)
}

func (d TemporalLeft) Tell(ctx context.Context, pool, signal string, what HostsLooked) error {
	return d.Client.SignalWorkflow(ctx, pool, "", signal, what)
}

// HostsLooked tells a pool of the folders on its hosts.
type HostsLooked struct {
	Hosts []HostLooked `json:"hosts"`
}

// HostLooked is what was found on a host.
type HostLooked struct {
	Host protocol.HostSpec `json:"host"` // as reached
	At   time.Time         `json:"at"`
	Dir  string            `json:"dir"`
	// Ended are folders of ended sessions. The pool wipes those that it does not know.
	Ended []FoundFolder `json:"ended,omitempty"`
	// Unknown are folders not known to be ours, Others the number of more. Nobody touches
	// them.
	Unknown []FoundFolder `json:"unknown,omitempty"`
	Others  int           `json:"others,omitempty"`
}

// UnknownText describes the unknown folders.
func (l HostLooked) UnknownText(n int) string {
	text, sep := fmt.Sprintf("%d folders in %s are not known to be of sessions of ours, and are left alone", n, l.Dir), ": "
	for _, f := range l.Unknown[:min(len(l.Unknown), 3)] {
		text += sep + f.Session + " (" + f.Why + ")"
		sep = ", "
	}
	return text + "; `ctl host show " + l.Host.Name + "` says more"
}

// A FoundFolder is a session's folder on a host.
type FoundFolder struct {
	Session    string    `json:"session"`
	Generation int64     `json:"generation"` // 0 if not recorded
	Since      time.Time `json:"since,omitzero"`
	Why        string    `json:"why,omitempty"` // why it is not known to be ours
}

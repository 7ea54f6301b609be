package flows

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// Stayers lists a host's sessions. One that does not answer, and may have ended, has no
// Why.
func (t *Conn) Stayers(ctx context.Context, h protocol.HostView) []protocol.Stayer {
	left := []protocol.Stayer{}
	for _, id := range h.Holders {
		s := protocol.Stayer{Session: id}
		var v protocol.SessionView
		if err := t.Query(ctx, "ask session "+id, protocol.SessionID(id), protocol.QueryState, &v); err == nil {
			s.State, s.Why = v.State, staysFor(v)
		}
		left = append(left, s)
	}
	return left
}

func staysFor(v protocol.SessionView) string {
	switch {
	case v.State == protocol.Closing:
		return "it closes"
	case len(v.Requests) > 0:
		return fmt.Sprintf("turn %d waits for a decision on %s", v.Turn.N, v.Requests[0].ID)
	case v.Turn != nil && v.Turn.Status == "inProgress":
		return fmt.Sprintf("turn %d runs", v.Turn.N)
	case v.Options["snapshot_when"] == protocol.SnapshotOff:
		return "it takes no snapshots, so it cannot leave: close it"
	case v.Error != nil:
		return v.Error.Message
	}
	return "it leaves"
}

// SetHost changes a host. Updates with the same id count as one; an empty id means a random
// one.
func (t *Conn) SetHost(ctx context.Context, doing, zone, id string, in protocol.SetHost) (v protocol.HostView, err error) {
	if err := errkind.CheckName("host name", in.Name); err != nil {
		return v, err
	}
	err = t.Update(ctx, doing, protocol.PoolID(zone), protocol.UpdateSetHost, id, &v, in)
	return v, NoZone(zone, err)
}

// CheckHost finds out whether sessions can run on a host.
func (t *Conn) CheckHost(ctx context.Context, zone, name string) (out protocol.CheckHostResult, err error) {
	doing := "check host " + name
	h, err := t.Host(ctx, doing, zone, name)
	if err != nil {
		return out, err
	}
	err = t.HostTask(ctx, doing, zone, protocol.HostTaskID(h.Name, "check"), protocol.TypeCheck, protocol.HostTaskInput{Zone: zone, Host: *h.Spec}, &out)
	return out, err
}

// Pools shows each zone.
func (t *Conn) Pools(ctx context.Context) ([]protocol.PoolView, error) {
	zones, err := t.Zones(ctx)
	if err != nil {
		return nil, err
	}
	pools := []protocol.PoolView{}
	for _, zone := range zones {
		v, err := t.Pool(ctx, zone)
		if errkind.ExitCode(err) == errkind.ExitNotFound && err != nil {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		pools = append(pools, v)
	}
	return pools, nil
}

// CheckHostKey refuses what cannot be pinned.
func CheckHostKey(key string) error {
	bad := func(why string) error {
		return errkind.Usage("--host-key %q %s", key, why).
			Hinted("'type base64' as in known_hosts, or SHA256:… as ssh-keygen -l prints; `ssh-keyscan ADDRESS` prints keys, compare the fingerprint with one you trust")
	}
	if sum, ok := strings.CutPrefix(key, "SHA256:"); ok {
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(sum, "="))
		if err != nil || len(raw) != 32 {
			return bad("is not a fingerprint: it must be 43 letters of base64")
		}
		return nil
	}
	fields := strings.Fields(key)
	if len(fields) < 2 {
		return bad("is neither a key nor a fingerprint")
	}
	// A binary key begins with the length and name of its type.
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(blob) < 4+len(fields[0]) || string(blob[4:4+len(fields[0])]) != fields[0] {
		return bad("is not a key: its base64 part is invalid, cut off, or of another type")
	}
	return nil
}

package records

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// A Handover is the stored outcome of a call of deliver, the same for each repeat.
type Handover struct {
	protocol.Deliverable
	Content string `json:"content,omitempty"` // its key in the store
	Refused string `json:"refused,omitempty"` // the reason that the model got
}

// DeliverablesPrefix begins the keys of a session's deliverables.
func DeliverablesPrefix(session string) string { return "deliverables/" + session + "/" }

// HandoverKey is the key of a call's outcome.
func HandoverKey(session, call string) string { return DeliverablesPrefix(session) + "calls/" + call }

// ContentKey is the key of a delivered file.
func ContentKey(session, name string) string { return DeliverablesPrefix(session) + "content/" + name }

var callPattern = regexp.MustCompile(`^i[0-9]{1,9}\.[0-9]{1,18}$`)

// ListHandovers lists a session's handovers, the oldest first.
func ListHandovers(ctx context.Context, st *store.Store, session string) ([]Handover, error) {
	if err := kit.CheckID("session", session); err != nil {
		return nil, err
	}
	infos, err := st.List(ctx, DeliverablesPrefix(session)+"calls/")
	if err != nil {
		return nil, fmt.Errorf("list what session %s delivered: %w", session, err)
	}
	var all []Handover
	for _, info := range infos {
		h, err := ReadHandover(ctx, st, info.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	slices.SortStableFunc(all, func(a, b Handover) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(len(a.Call), len(b.Call)), strings.Compare(a.Call, b.Call))
	})
	return all, nil
}

// ReadHandover reads a call's outcome.
func ReadHandover(ctx context.Context, st *store.Store, key string) (h Handover, err error) {
	data, err := st.Get(ctx, key)
	if err != nil {
		return h, fmt.Errorf("read what was delivered: %w", err)
	}
	if err := json.Unmarshal(data, &h); err != nil {
		return h, fmt.Errorf("%s: %w", key, err)
	}
	return h, nil
}

// ListDeliverables lists what a session delivered, the oldest first.
func ListDeliverables(ctx context.Context, st *store.Store, session string) ([]protocol.Deliverable, error) {
	all, err := ListHandovers(ctx, st, session)
	if err != nil {
		return nil, err
	}
	var out []protocol.Deliverable
	verdicts, err := listVerdicts(ctx, st, session)
	if err != nil {
		return nil, err
	}
	last := map[string]int{}
	for _, h := range all {
		if h.Refused != "" {
			continue
		}
		d := h.Deliverable
		if v, ok := verdicts[d.Call]; ok {
			d.Verdict = &v
		}
		d.Version, d.Newest = 1, true
		if i, ok := last[d.Name]; ok {
			d.Version, out[i].Newest = out[i].Version+1, false
		}
		last[d.Name] = len(out)
		out = append(out, d)
	}
	return out, nil
}

// OpenDeliverable opens the file of a call. Its bytes can be trusted only after io.EOF.
func OpenDeliverable(ctx context.Context, st *store.Store, session, call string) (protocol.Deliverable, io.ReadCloser, error) {
	if err := kit.CheckID("session", session); err != nil {
		return protocol.Deliverable{}, nil, err
	}
	if !callPattern.MatchString(call) {
		return protocol.Deliverable{}, nil, kit.BadInput("%q is no call of session %s", call, session)
	}
	h, err := ReadHandover(ctx, st, HandoverKey(session, call))
	if err == nil && h.Refused != "" {
		err = fmt.Errorf("call %s of session %s delivered nothing: %w", call, session, store.ErrNotFound)
	}
	if err != nil {
		return protocol.Deliverable{}, nil, err
	}
	r, err := st.NewReader(ctx, h.Content)
	return h.Deliverable, r, err
}

// Reply returns the model's answer, the same each time.
func (h Handover) Reply() conversation.ToolReply {
	if h.Refused != "" {
		return conversation.ToolReply{Text: "The file was not delivered: " + h.Refused}
	}
	d := h.Deliverable
	return conversation.ToolReply{OK: true, Delivered: &d, Text: fmt.Sprintf("Delivered %s: %d bytes, SHA-256 %s.", h.Name, h.Bytes, h.Digest)}
}

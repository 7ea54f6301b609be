package apiflows

import (
	"context"
	"strings"

	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/errkind"
	"fairlead.dev/fairlead/internal/protocol"
)

// withRequest returns a command with the id of its request, if its session can know the id.
func withRequest(msg any, request string) any {
	switch m := msg.(type) {
	case protocol.Interrupt:
		m.Request = request
		return m
	case protocol.Park:
		m.Request = request
		return m
	case protocol.Resume:
		m.Request = request
		return m
	case protocol.TakeSnapshot:
		m.Request = request
		return m
	case protocol.Decide:
		m.Request = request
		return m
	}
	return msg
}

// sendOnce sends a command that may have the id of a request. If it has one, the session takes
// it once, so it may be sent again. A worker of an earlier release refuses the field. Then the
// command goes without it: there a repetition counts as the same one in one run of the workflow
// only.
func sendOnce(ctx context.Context, t *flows.Conn, d flows.Delivery, request string, plain any, seen protocol.SessionDetail, live bool, lookErr error, out any) (kept bool, err error) {
	if request == "" {
		return d.Send(ctx, t, seen, live, lookErr, out)
	}
	once := d
	once.Again = true
	kept, err = once.Send(ctx, t, seen, live, lookErr, out)
	if !tooNew(err) {
		return kept, err
	}
	d.Msg = plain
	return d.Send(ctx, t, seen, live, lookErr, out)
}

// tooNew reports whether a session refused a command because its worker does not know ids of
// requests.
func tooNew(err error) bool {
	return err != nil && errkind.ExitCode(err) == errkind.ExitUsage && strings.Contains(err.Error(), `unknown field "request"`)
}

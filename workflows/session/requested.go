package session

import (
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// requestState is what a session remembers of requests with an id. A repetition changes nothing
// and gets an answer, also when the state would not permit the command any more.
type requestState struct {
	Requests []protocol.TakenRequest `json:"requests,omitempty"` // newest last
}

func (st *State) took(r protocol.TakenRequest) {
	st.Requests = append(st.Requests, r)
	if n := len(st.Requests) - protocol.KeepRequests; n > 0 {
		st.Requests = st.Requests[n:]
	}
}

// checkingOnce is checking for a command that may have the id of a request.
func checkingOnce[In protocol.Requested](s *session, name string, check func(In) error) func([]byte) error {
	return checking(func(in In) error {
		by, request := in.Asked()
		if err := kit.Short([]kit.Text{{What: "request", Is: request, Max: kit.MaxWord}}); err != nil {
			return kit.Refuse(protocol.RefusedBadInput, "%s: %v", name, err)
		}
		//workflowcheck:ignore // a digest is a pure function
		if protocol.Took(s.st.Requests, name, by, request) != nil {
			return nil
		}
		return check(in)
	})
}

// takingOnce is taking for a command that may have the id of a request. again answers a
// repetition, and number returns what is to be known for that; number may be nil.
func takingOnce[In protocol.Requested, Out any](s *session, name string, take func(In) (Out, error), again func(In, protocol.TakenRequest) (Out, error), number func(Out) int) func([]byte) (any, error) {
	return taking(func(in In) (Out, error) {
		by, request := in.Asked()
		//workflowcheck:ignore // a digest is a pure function
		if was := protocol.Took(s.st.Requests, name, by, request); was != nil {
			return again(in, *was)
		}
		out, err := take(in)
		if err == nil && request != "" {
			//workflowcheck:ignore // a digest is a pure function
			now := protocol.TakenRequest{ID: protocol.RequestID(name, by, request)}
			if number != nil {
				now.N = number(out)
			}
			s.st.took(now)
		}
		return out, err
	})
}

func viewAgain[In any](s *session) func(In, protocol.TakenRequest) (protocol.SessionView, error) {
	return func(In, protocol.TakenRequest) (protocol.SessionView, error) { return s.view(), nil }
}

// snapshotAgain answers with the number of the snapshot that the request asked for.
func (s *session) snapshotAgain(_ protocol.TakeSnapshot, was protocol.TakenRequest) (protocol.SnapshotAccepted, error) {
	return protocol.SnapshotAccepted{Session: s.id, N: was.N}, nil
}

// decideAgain answers with the approval as it is now.
func (s *session) decideAgain(d protocol.Decide, _ protocol.TakenRequest) (protocol.Approval, error) {
	for _, v := range s.approvals.approvalViews() {
		if v.ID == d.Approval {
			return v, nil
		}
	}
	return protocol.Approval{}, kit.Refuse(protocol.RefusedState, "decide %.100q: decided long ago (see the transcript)", d.Approval)
}

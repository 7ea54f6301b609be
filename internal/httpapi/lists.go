package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/api"
)

// A list of sessions or of their approvals can mean a question to each of hundreds of workflows.
const (
	// mostLists is how many of these a principal may have in progress at a worker.
	mostLists = 4
	// mostTransfers is how many archives a principal may send or receive at a time: each reads or
	// writes the store, or a host, to its end.
	mostTransfers = 8
	// listTime bounds one of them.
	listTime = time.Minute
)

// lists counts the lists in progress by principal.
type lists struct{ inProgress }

func (l *lists) enter(ctx context.Context) (leave func(), err error) {
	return l.begin(ctx, mostLists, fmt.Sprintf("this worker already makes %d lists of sessions or approvals for you", mostLists),
		"wait for the end of one; /v1/sessions/{id}/events follows a session without asking again and again")
}

// transfers counts the archives that are on their way, by principal.
type transfers struct{ inProgress }

func (l *transfers) enter(ctx context.Context) (leave func(), err error) {
	return l.begin(ctx, mostTransfers, fmt.Sprintf("this worker already sends or receives %d archives for you", mostTransfers), "wait for the end of one")
}

// inProgress counts requests by principal.
type inProgress struct {
	mu      sync.Mutex
	running map[string]int
}

// begin refuses one request too many. Without an authority, all callers count as one. leave may be
// called more than once.
func (l *inProgress) begin(ctx context.Context, most int, detail, hint string) (leave func(), err error) {
	who, _, _ := api.Principal(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[who] >= most {
		p := problem(http.StatusTooManyRequests, "busy", detail, hint)
		p.after = time.Second
		return nil, p
	}
	if l.running == nil {
		l.running = map[string]int{}
	}
	l.running[who]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[who]--; l.running[who] == 0 {
			delete(l.running, who)
		}
	}), nil
}

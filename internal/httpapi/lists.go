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
	// listTime bounds one of them.
	listTime = time.Minute
)

// lists counts the lists in progress by principal.
type lists struct {
	mu      sync.Mutex
	running map[string]int
}

// enter refuses one list too many. Without an authority, all callers count as one.
func (l *lists) enter(ctx context.Context) (leave func(), err error) {
	who, _, _ := api.Principal(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[who] >= mostLists {
		p := problem(http.StatusTooManyRequests, "busy", fmt.Sprintf("this worker already makes %d lists of sessions or approvals for you", mostLists), "wait for the end of one; /v1/sessions/{id}/events follows a session without asking again and again")
		p.after = time.Second
		return nil, p
	}
	if l.running == nil {
		l.running = map[string]int{}
	}
	l.running[who]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running[who]--; l.running[who] == 0 {
			delete(l.running, who)
		}
	}, nil
}

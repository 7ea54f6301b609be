package main

import (
	"fmt"
	"net/http"
	"sync/atomic"

	"fairlead.dev/fairlead/internal/api"
)

// A health answers the probes of whatever runs the worker. It has no secrets, so it asks for
// no credential.
type health struct {
	status atomic.Pointer[func() api.Status]
}

// of sets the function that returns the worker's status. Until then the worker waits for its store.
func (h *health) of(status func() api.Status) { h.status.Store(&status) }

// live says that the process serves requests. A worker that waits for Temporal or for its
// store is alive: a restart would not help.
func (h *health) live(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// ready says whether the worker takes work now.
func (h *health) ready(w http.ResponseWriter, _ *http.Request) {
	waits := "the store"
	if status := h.status.Load(); status != nil {
		st := (*status)()
		if st.Ready {
			fmt.Fprintln(w, "ok")
			return
		}
		waits = st.Waits
	}
	http.Error(w, "the worker waits for "+waits, http.StatusServiceUnavailable)
}

package main

import (
	"errors"
	"net/http"
	"testing"

	"fairlead.dev/fairlead/internal/api"
)

// The API answers before there is a pool of connections. Who asks for a host then is to ask again.
func TestAHostIsNotYetReachedWhileTheWorkerStarts(t *testing.T) {
	_, err := (&lateHosts{temporal: &lateClient{}}).Open(t.Context(), "web-1")
	var e *api.Error
	if !errors.As(err, &e) || e.Kind != api.ErrStore || e.Status != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
}

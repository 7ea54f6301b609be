package scriptedauth

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// A Device is a device code that waits for somebody to enter it.
type Device struct {
	UserCode string `json:"user_code"`
	// Polls is how often the client polled.
	Polls int    `json:"polls"`
	State string `json:"state"` // waiting, approved, denied, done
}

type device struct {
	Device
	id, code, verifier string
	account            Account
}

// Devices lists all issued codes, oldest first.
func (s *Server) Devices() []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Device, 0, len(s.devices))
	for _, d := range s.devices {
		out = append(out, d.Device)
	}
	return out
}

// AwaitDevice waits for a code in the state waiting and returns the first.
func (s *Server) AwaitDevice(ctx context.Context) (Device, error) {
	var found Device
	err := s.await(ctx, "no code waits", func() bool {
		i := slices.IndexFunc(s.devices, func(d *device) bool { return d.State == "waiting" })
		if i >= 0 {
			found = s.devices[i].Device
		}
		return i >= 0
	})
	return found, err
}

// Approve acts as a person who entered a code and is logged in as an account.
func (s *Server) Approve(userCode string, a Account) error {
	return s.decide(userCode, "approved", a)
}

// Deny acts as a person who entered a code and refused.
func (s *Server) Deny(userCode string) error { return s.decide(userCode, "denied", Account{}) }

func (s *Server) decide(userCode, state string, a Account) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if d.UserCode == userCode && d.State == "waiting" {
			d.State, d.account = state, a.filled()
			return nil
		}
	}
	return fmt.Errorf("scripted auth: no code %s waits", userCode)
}

// usercode serves POST /api/accounts/deviceauth/usercode.
func (s *Server) usercode(w http.ResponseWriter, r *http.Request) {
	entry := s.record(r, EndpointUserCode)
	var in struct {
		Client string `json:"client_id"`
	}
	if !s.read(w, r, entry, &in) {
		return
	}
	if in.Client != ClientID {
		s.surprise(w, entry, "a client that is not codex: %s", in.Client)
		return
	}
	if fault := s.fault(EndpointUserCode); s.obstruct(r.Context(), w, fault) {
		s.amend(entry, func(e *Request) { e.Answer = fault.Kind })
		return
	}
	s.mu.Lock()
	n := strings.ToUpper(token("")[:8])
	d := &device{Device: Device{UserCode: n[:4] + "-" + n[4:], State: "waiting"}, id: token("device"), code: token("code"), verifier: token("verifier")}
	s.devices = append(s.devices, d)
	s.changed()
	s.mu.Unlock()
	s.amend(entry, func(e *Request) { e.Answer = "ok" })
	// codex reads the interval as a string.
	writeJSON(w, http.StatusOK, map[string]any{"device_auth_id": d.id, "user_code": d.UserCode, "interval": "1"})
}

// poll serves POST /api/accounts/deviceauth/token.
func (s *Server) poll(w http.ResponseWriter, r *http.Request) {
	entry := s.record(r, EndpointPoll)
	var in struct {
		ID   string `json:"device_auth_id"`
		Code string `json:"user_code"`
	}
	if !s.read(w, r, entry, &in) {
		return
	}
	if fault := s.fault(EndpointPoll); s.obstruct(r.Context(), w, fault) {
		s.amend(entry, func(e *Request) { e.Answer = fault.Kind })
		return
	}
	s.mu.Lock()
	i := slices.IndexFunc(s.devices, func(d *device) bool { return d.id == in.ID && d.UserCode == in.Code })
	var d device
	if i >= 0 {
		s.devices[i].Polls++
		d = *s.devices[i]
	}
	s.mu.Unlock()
	switch d.State {
	case "":
		s.surprise(w, entry, "a code that was not given out")
	case "approved":
		s.amend(entry, func(e *Request) { e.Answer = "ok" })
		writeJSON(w, http.StatusOK, map[string]any{"authorization_code": d.code, "code_challenge": "challenge", "code_verifier": d.verifier})
	case "denied":
		s.amend(entry, func(e *Request) { e.Answer = "denied" })
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": "denied", "code": "access_denied"}})
	default:
		s.amend(entry, func(e *Request) { e.Answer = "pending" })
		writeJSON(w, http.StatusForbidden, map[string]any{"error": map[string]any{"message": "pending", "code": "deviceauth_authorization_unknown"}})
	}
}

// exchange exchanges the code of a login for its first tokens.
func (s *Server) exchange(w http.ResponseWriter, entry int, g grant) {
	s.mu.Lock()
	i := slices.IndexFunc(s.devices, func(d *device) bool {
		return d.State == "approved" && d.code == g.Code && d.verifier == g.Verifier && g.Redirect == s.url+"/deviceauth/callback"
	})
	var f *family
	if i >= 0 {
		s.devices[i].State = "done"
		f = s.newFamily(s.devices[i].account)
	}
	s.changed()
	s.mu.Unlock()
	if f == nil {
		s.surprise(w, entry, "a code that was not approved, or was used")
		return
	}
	s.amend(entry, func(e *Request) { e.Answer, e.Family, e.N = "ok", f.id, 1 })
	writeJSON(w, http.StatusOK, f.newest)
}

// read decodes a JSON body; an invalid body or an unknown field is a surprise.
func (s *Server) read(w http.ResponseWriter, r *http.Request, entry int, v any) bool {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		s.surprise(w, entry, "%s %s: the body is not as codex writes it: %v", r.Method, r.URL.Path, err)
		return false
	}
	return true
}

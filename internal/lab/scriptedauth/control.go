package scriptedauth

import (
	"fmt"
	"net/http"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /oauth/token", s.token)
	s.mux.HandleFunc("POST /api/accounts/deviceauth/usercode", s.usercode)
	s.mux.HandleFunc("POST /api/accounts/deviceauth/token", s.poll)
	s.mux.HandleFunc("GET "+usagePath, s.usage)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.surprise(w, s.record(r, "unknown"), "nothing is served at %s %s", r.Method, r.URL.Path)
	})

	ok := map[string]any{"ok": true}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, ok) })
	s.mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, append([]Request{}, s.Requests()...))
	})
	s.mux.HandleFunc("GET /surprises", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, append([]string{}, s.Surprises()...))
	})
	s.mux.HandleFunc("GET /control/devices", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Devices())
	})
	s.mux.HandleFunc("POST /control/login", func(w http.ResponseWriter, r *http.Request) {
		var a Account
		if s.read(w, r, -1, &a) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(s.Login(a).AuthJSON())
		}
	})
	// The other commands take a JSON object and answer ok or an error.
	type order struct {
		Account
		UserCode string `json:"user_code"`
	}
	command := func(path string, do func(order) error) {
		s.mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			var o order
			if r.ContentLength != 0 && !s.read(w, r, -1, &o) {
				return
			}
			answer(w, do(o), ok)
		})
	}
	s.mux.HandleFunc("POST /control/fail", func(w http.ResponseWriter, r *http.Request) {
		var f Fault
		if s.read(w, r, -1, &f) {
			answer(w, s.fail(f), ok)
		}
	})
	command("/control/release", func(order) error { s.Release(); return nil })
	command("/control/expire", func(o order) error { s.Expire(o.ID); return nil })
	command("/control/revoke", func(o order) error { s.Revoke(o.ID); return nil })
	command("/control/approve", func(o order) error { return s.Approve(o.UserCode, o.Account) })
	command("/control/deny", func(o order) error { return s.Deny(o.UserCode) })
	command("/reset", func(order) error { s.Reset(); return nil })
}

func answer(w http.ResponseWriter, err error, ok map[string]any) {
	if err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"message": fmt.Sprint(err)}})
		return
	}
	writeJSON(w, http.StatusOK, ok)
}

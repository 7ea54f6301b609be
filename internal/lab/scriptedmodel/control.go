package scriptedmodel

import (
	"fmt"
	"io"
	"net/http"
)

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("POST /v1/responses", s.responses)
	s.mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		entry := s.record.add(r, nil)
		s.record.update(func() { entry.Answer = "ok" })
		// Both shapes: OpenAI's own, and that of codex's catalogue.
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{}, "models": []any{}})
	})
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.surprise(w, s.record.add(r, nil), fmt.Sprintf("nothing is served at %s %s", r.Method, r.URL.Path))
	})

	ok := map[string]any{"ok": true}
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, ok)
	})
	s.mux.HandleFunc("PUT /script", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var script Script
		if err == nil {
			script, err = Parse(text)
		}
		if err == nil {
			err = s.SetScript(script)
		}
		if err != nil {
			writeError(w, http.StatusBadRequest, apiError{Message: err.Error()})
			return
		}
		writeJSON(w, http.StatusOK, ok)
	})
	s.mux.HandleFunc("GET /requests", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, s.record.list(r.URL.Query().Get("conversation")))
	})
	s.mux.HandleFunc("GET /surprises", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, append([]Surprise{}, s.Surprises()...))
	})
	s.mux.HandleFunc("GET /waiting", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Waiting())
	})
	s.mux.HandleFunc("POST /release/{gate}", func(w http.ResponseWriter, r *http.Request) {
		s.Release(r.PathValue("gate"))
		writeJSON(w, http.StatusOK, ok)
	})
	s.mux.HandleFunc("POST /hold/{gate}", func(w http.ResponseWriter, r *http.Request) {
		s.Hold(r.PathValue("gate"))
		writeJSON(w, http.StatusOK, ok)
	})
	s.mux.HandleFunc("POST /reset", func(w http.ResponseWriter, _ *http.Request) {
		s.Reset()
		writeJSON(w, http.StatusOK, ok)
	})
}

package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// StoredSeed is a seed in the store, ready for the seed's workflow.
type StoredSeed struct {
	Ref      seeds.Ref      `json:"ref"`
	Manifest seeds.Manifest `json:"manifest"`
}

func (s *Server) seed(w http.ResponseWriter, r *http.Request) {
	name, err := named(r, "seed name", "name")
	if err == nil && !s.secure {
		err = problem(http.StatusForbidden, ErrRefused, "a seed holds credentials: this API takes them over a unix socket or TLS only").
			hinted("set api.listen to unix:///path, or give it a certificate")
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	generation, err := number(r, "generation", 0)
	if err != nil {
		s.fail(w, err)
		return
	}
	data, err := readBody(w, r, MaxSeed, "a seed")
	if err != nil {
		s.fail(w, err)
		return
	}
	bundle, err := seeds.Unpack(data)
	if err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "seed %s: %v", name, err))
		return
	}
	ref, err := seeds.Save(r.Context(), s.opts.Store, name, generation, bundle)
	if err != nil {
		s.fail(w, storeProblem(err, "the store is gone"))
		return
	}
	manifest := bundle.Manifest()
	manifest.Name = name
	s.log.Info("seed stored", "seed", name, "kind", string(ref.Kind), "blob", ref.Blob)
	s.reply(w, StoredSeed{Ref: ref, Manifest: manifest})
}

// ExportSeed requests one generation of a seed for one recipient.
type ExportSeed struct {
	Blob      string `json:"blob"`
	Digest    string `json:"digest"`
	Recipient string `json:"recipient"` // age1…
	By        string `json:"by"`
}

// export never sends a seed in the clear.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	name, err := named(r, "seed name", "name")
	if err == nil && !s.secure {
		err = problem(http.StatusForbidden, ErrRefused, "a seed holds credentials: this API hands them out over a unix socket or TLS only").
			hinted("set api.listen to unix:///path, or give it a certificate")
	}
	var in ExportSeed
	var body []byte
	if err == nil {
		body, err = readBody(w, r, 64<<10, "an export")
	}
	if err == nil && json.Unmarshal(body, &in) != nil {
		err = problem(http.StatusBadRequest, ErrBadInput, "the request body is not JSON with blob, digest and recipient")
	}
	if err == nil && !strings.HasPrefix(in.Blob, "seeds/"+name+"/") {
		err = problem(http.StatusBadRequest, ErrBadInput, "%q is not a generation of seed %s", in.Blob, name)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	to, err := store.ParseRecipients(in.Recipient)
	if err != nil || len(to) != 1 {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "a seed is exported for one age recipient (age1…): %v", err))
		return
	}
	bundle, err := seeds.Load(r.Context(), s.opts.Store, in.Blob)
	if err != nil {
		s.fail(w, storeProblem(err, "that generation of seed %s is not in the store any more", name))
		return
	}
	if bundle.Manifest().Digest() != in.Digest {
		s.fail(w, problem(http.StatusConflict, ErrRefused, "seed %s changed meanwhile", name).hinted("try again"))
		return
	}
	data, err := seeds.Export(bundle, to[0])
	if err != nil {
		s.fail(w, err)
		return
	}
	s.log.Warn("seed exported", "seed", name, "kind", string(bundle.Kind()), "recipient", in.Recipient, "by", in.By)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(data) // a truncated file does not decrypt
}

package api

import (
	"net/http"

	"fairlead.dev/fairlead/seeds"
)

// StoredSeed is a seed that is in the store, for the seed's workflow to take.
type StoredSeed struct {
	Ref      seeds.Ref      `json:"ref"`
	Manifest seeds.Manifest `json:"manifest"`
}

// seed checks, encrypts and keeps a packed seed. Which generation it becomes is
// the seed's workflow's to say.
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

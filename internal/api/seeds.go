package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"filippo.io/age"

	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/internal/teamtool"
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
	if _, err := bundle.FollowUps(); err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "seed %s: %v", name, err))
		return
	}
	file, err := bundle.Tools()
	if err == nil {
		_, err = teamtool.OfSeed(file)
	}
	if err != nil {
		s.fail(w, problem(http.StatusBadRequest, ErrBadInput, "seed %s: tools: %v", name, err))
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

// Seeds asks the workflows of seeds.
type Seeds interface {
	// Export asks a seed for its permission to hand out its newest generation, which the seed
	// keeps on record. The view has that generation. A refusal is an *Error.
	Export(ctx context.Context, seed string, in protocol.ExportSeed) (protocol.SeedView, error)
}

// ExportSeed requests the newest generation of a seed for one recipient.
type ExportSeed struct {
	Recipient string `json:"recipient"` // age1…
	By        string `json:"by"`        // who asks; the seed keeps it on record
	// Digest, if set, must be that of the newest generation.
	Digest string `json:"digest,omitempty"`
}

// maxBy bounds the name of a person, in bytes.
const maxBy = 256

// A SeedExport is an exported seed.
type SeedExport struct {
	Kind       string
	Generation int64
	Data       []byte // encrypted for the recipient
}

// Headers of an export.
const (
	headerKind       = "Fairlead-Seed-Kind"
	headerGeneration = "Fairlead-Seed-Generation"
)

func (s *Server) exportRequest(w http.ResponseWriter, r *http.Request) (name string, in ExportSeed, to age.Recipient, err error) {
	if name, err = named(r, "seed name", "name"); err != nil {
		return name, in, nil, err
	}
	if !s.secure {
		return name, in, nil, problem(http.StatusForbidden, ErrRefused, "a seed holds credentials: this API hands them out over a unix socket or TLS only").
			hinted("set api.listen to unix:///path, or give it a certificate")
	}
	body, err := readBody(w, r, 64<<10, "an export")
	if err != nil {
		return name, in, nil, err
	}
	if json.Unmarshal(body, &in) != nil {
		return name, in, nil, problem(http.StatusBadRequest, ErrBadInput, "the request body is not JSON with recipient and by")
	}
	recipients, err := store.ParseRecipients(in.Recipient)
	if err != nil || len(recipients) != 1 {
		return name, in, nil, problem(http.StatusBadRequest, ErrBadInput, "a seed is exported for one age recipient (age1…): %v", err)
	}
	if in.By = by(r.Context(), in.By); in.By == "" || len(in.By) > maxBy {
		return name, in, nil, problem(http.StatusBadRequest, ErrBadInput, "the request does not say in by who asks for seed %s, in at most %d bytes", name, maxBy)
	}
	return name, in, recipients[0], nil
}

// export never sends a seed in the clear, and none that the seed's workflow did not permit.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	name, in, to, err := s.exportRequest(w, r)
	if err != nil {
		s.fail(w, err)
		return
	}
	if s.opts.Seeds == nil {
		s.fail(w, problem(http.StatusServiceUnavailable, ErrStore, "this worker cannot ask seed %s for its permission", name))
		return
	}
	v, err := s.opts.Seeds.Export(r.Context(), name, protocol.ExportSeed{By: in.By, Recipient: in.Recipient})
	if err != nil {
		s.fail(w, err)
		return
	}
	if v.Ref == nil || !seeds.Owns(name, v.Ref.Blob) {
		s.fail(w, problem(http.StatusNotFound, ErrNotFound, "seed %s has no generation", name))
		return
	}
	bundle, err := seeds.Load(r.Context(), s.opts.Store, v.Ref.Blob)
	if err != nil {
		s.fail(w, storeProblem(err, "that generation of seed %s is not in the store any more", name))
		return
	}
	if digest := bundle.Manifest().Digest(); digest != v.Ref.Digest || in.Digest != "" && digest != in.Digest {
		s.fail(w, problem(http.StatusConflict, ErrRefused, "seed %s changed meanwhile", name).hinted("try again"))
		return
	}
	data, err := seeds.Export(bundle, to)
	if err != nil {
		s.fail(w, err)
		return
	}
	s.log.Warn("seed exported", "seed", name, "kind", string(bundle.Kind()), "recipient", in.Recipient, "by", in.By)
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Cache-Control", "no-store")
	h.Set(headerKind, v.Kind)
	h.Set(headerGeneration, strconv.FormatInt(v.Generation, 10))
	_, _ = w.Write(data) // a truncated file does not decrypt
}

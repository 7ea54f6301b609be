package site

import (
	"context"
	"slices"
	"sync"

	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// Secrets finds a seed's secrets in texts. The zero value finds none.
type Secrets struct {
	All  *seeds.Redactor        // in every form
	Pump *conversation.Redactor // in streams, even split over pieces
	Auth []byte

	shared *Secrets // the seed's own, if these are an extended copy
}

// Add also hides the secrets of an auth.json.
func (s Secrets) Add(auth []byte) {
	if s.shared != nil {
		s.shared.Add(auth)
	}
	found := seeds.AuthSecrets(auth)
	if s.All == nil || len(found) == 0 {
		return
	}
	s.All.Add(found)
	s.Pump.Add(seeds.Forms(found)...)
}

// Own returns a copy that finds the same secrets. AddText may add to it for as long as it is in
// use.
func (s Secrets) Own(seed string) Secrets { return s.with(seed, nil) }

// AddText also hides a text, if s was returned by Own.
func (s Secrets) AddText(text string) {
	if s.shared == nil {
		return
	}
	found := []seeds.Secret{seeds.NewSecret(text)}
	s.All.Add(found)
	s.Pump.Add(seeds.Forms(found)...)
}

// And finds what s or o finds.
func (s Secrets) And(o Secrets) Secrets {
	if s.All == nil {
		return o
	}
	found := append(s.All.Secrets(), o.All.Secrets()...)
	return Secrets{All: seeds.NewRedactor("", found), Pump: conversation.NewRedactor(seeds.Forms(found)...)}
}

// Masker makes maskers for snapshots; nil without known secrets.
func (s Secrets) Masker() func() chunks.Masker {
	if s.All == nil {
		return nil
	}
	return func() chunks.Masker { return s.All.MaskStream() }
}

// Fingerprints names the known secrets. Only a holder of the store's key can compute the
// names.
func (s Secrets) Fingerprints(st *store.Store) ([]string, error) {
	var out []string
	for _, secret := range s.All.Secrets() {
		name, err := st.Name([]byte(secret.Reveal()))
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// Hiding returns a seed's secrets, usable even after the recall drops them.
func Hiding(ctx context.Context, s *Site, ref *protocol.SeedRef) (Secrets, error) {
	if ref == nil {
		return Secrets{}, nil
	}
	if known, ok := s.Recall.find(ref.Blob); ok {
		return known, nil
	}
	b, err := s.Bundle(ctx, ref)
	if err != nil {
		return Secrets{}, err
	}
	found := seeds.KnownSecrets(b)
	known := Secrets{
		All:  seeds.NewRedactor(ref.Name, found),
		Pump: conversation.NewRedactor(seeds.Forms(found)...),
		Auth: b.Auth(),
	}
	if err := hideOthers(ctx, s, known, ref); err != nil {
		return Secrets{}, err
	}
	s.Recall.keep(ref.Blob, known)
	return known, nil
}

// generationsHidden limits a seed's hidden generations: a token is worthless some days
// after its rotation.
const generationsHidden = 16

// hideOthers adds other generations: older ones because their output is read again, the
// newest because it may be on the host before the session knows of it.
func hideOthers(ctx context.Context, s *Site, known Secrets, ref *protocol.SeedRef) error {
	blobs, err := seeds.Newest(ctx, s.Store, ref.Name, generationsHidden)
	if err != nil {
		return &kit.SeedError{Name: ref.Name, Err: err}
	}
	for _, blob := range blobs {
		if blob == ref.Blob {
			continue
		}
		b, err := seeds.Load(ctx, s.Store, blob)
		if err != nil {
			// Damage of a generation that is not in use stops nobody.
			s.Logger.Warn("secrets of another generation are not hidden", "seed", ref.Name, "blob", blob, "error", err)
			continue
		}
		known.All.Add(seeds.KnownSecrets(b))
		known.Pump.Add(seeds.Forms(seeds.KnownSecrets(b))...)
	}
	return nil
}

// MaxRecalled limits the seeds in memory, so that a worker does not know every secret it
// ever saw.
const MaxRecalled = 64

type recall struct {
	mu   sync.Mutex
	Last []recalled // guarded by mu; the most recently used is last
}

type recalled struct {
	blob string
	Secrets
}

func (r *recall) find(blob string) (Secrets, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.Last, func(x recalled) bool { return x.blob == blob })
	if i < 0 {
		return Secrets{}, false
	}
	x := r.Last[i]
	r.Last = append(slices.Delete(r.Last, i, i+1), x)
	return x.Secrets, true
}

func (r *recall) keep(blob string, known Secrets) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Two callers may have read the same seed.
	r.Last = slices.DeleteFunc(r.Last, func(x recalled) bool { return x.blob == blob })
	if len(r.Last) == MaxRecalled {
		r.Last = slices.Delete(r.Last, 0, 1)
	}
	r.Last = append(r.Last, recalled{blob, known})
}

// Knowing returns s with a token to hide.
func (s Secrets) Knowing(token string) Secrets {
	if token == "" {
		return s
	}
	return s.with("git", []seeds.Secret{seeds.NewSecret(token)})
}

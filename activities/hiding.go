package activities

import (
	"context"
	"slices"
	"sync"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
	"fairlead.dev/fairlead/snapshots/chunks"
)

// secrets find a seed's secrets in texts. The zero value finds none.
type secrets struct {
	all  *seeds.Redactor        // in every form in which they travel
	pump *conversation.Redactor // in streams, also across pieces
	auth []byte                 // the seed's auth.json; nil if it has none

	shared *secrets // the seed's secrets, which these extend; nil if these are the seed's
}

// add also hides what an auth.json holds, from now on.
func (s secrets) add(auth []byte) {
	if s.shared != nil {
		s.shared.add(auth)
	}
	found := seeds.AuthSecrets(auth)
	if s.all == nil || len(found) == 0 {
		return
	}
	s.all.Add(found)
	s.pump.Add(seeds.Forms(found)...)
}

// and returns secrets that find what either finds.
func (s secrets) and(o secrets) secrets {
	if s.all == nil {
		return o
	}
	found := append(s.all.Secrets(), o.all.Secrets()...)
	return secrets{all: seeds.NewRedactor("", found), pump: conversation.NewRedactor(seeds.Forms(found)...)}
}

// masker returns what overwrites secrets in a snapshot; nil if none are known.
func (s secrets) masker() func() chunks.Masker {
	if s.all == nil {
		return nil
	}
	return func() chunks.Masker { return s.all.MaskStream() }
}

// fingerprints say which secrets are known, but only to a holder of the store's key.
func (s secrets) fingerprints(st *store.Store) ([]string, error) {
	var out []string
	for _, secret := range s.all.Secrets() {
		name, err := st.Name([]byte(secret.Reveal()))
		if err != nil {
			return nil, err
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// hiding returns what hides a seed's secrets. The caller keeps it while it works, even if
// the worker forgets it meanwhile.
func (s *site) hiding(ctx context.Context, ref *protocol.SeedRef) (secrets, error) {
	if ref == nil {
		return secrets{}, nil
	}
	if known, ok := s.recall.find(ref.Blob); ok {
		return known, nil
	}
	b, err := s.bundle(ctx, ref)
	if err != nil {
		return secrets{}, err
	}
	found := seeds.KnownSecrets(b)
	known := secrets{
		all:  seeds.NewRedactor(ref.Name, found),
		pump: conversation.NewRedactor(seeds.Forms(found)...),
		auth: b.Auth(),
	}
	if err := s.hideOthers(ctx, known, ref); err != nil {
		return secrets{}, err
	}
	s.recall.keep(ref.Blob, known)
	return known, nil
}

// generationsHidden is how many of a seed's generations are hidden: a token is worthless
// some days after it was rotated away.
const generationsHidden = 16

// hideOthers also hides a seed's other generations. What a command printed before a
// rotation, or before a person gave the seed another key, is read again later; and the
// newest generation may be on the host before the session is told of it.
func (s *site) hideOthers(ctx context.Context, known secrets, ref *protocol.SeedRef) error {
	blobs, err := seeds.Newest(ctx, s.Store, ref.Name, generationsHidden)
	if err != nil {
		return &seedError{ref.Name, err}
	}
	for _, blob := range blobs {
		if blob == ref.Blob {
			continue
		}
		b, err := seeds.Load(ctx, s.Store, blob)
		if err != nil {
			// It is not the one in use: if it is damaged or purged, that stops nobody.
			s.Logger.Warn("secrets of another generation are not hidden", "seed", ref.Name, "blob", blob, "error", err)
			continue
		}
		known.all.Add(seeds.KnownSecrets(b))
		known.pump.Add(seeds.Forms(seeds.KnownSecrets(b))...)
	}
	return nil
}

// maxRecalled is how many seeds' secrets a worker remembers beyond those in use. Reading
// one again takes a moment, and a worker that kept all would know every secret it ever
// saw.
const maxRecalled = 64

// A recall keeps what hides the secrets of the seeds used last.
type recall struct {
	mu   sync.Mutex
	last []recalled // guarded by mu; the one asked for last comes last
}

type recalled struct {
	blob string // of the seed
	secrets
}

func (r *recall) find(blob string) (secrets, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.last, func(x recalled) bool { return x.blob == blob })
	if i < 0 {
		return secrets{}, false
	}
	x := r.last[i]
	r.last = append(slices.Delete(r.last, i, i+1), x)
	return x.secrets, true
}

func (r *recall) keep(blob string, known secrets) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Two callers may have read it at once.
	r.last = slices.DeleteFunc(r.last, func(x recalled) bool { return x.blob == blob })
	if len(r.last) == maxRecalled {
		r.last = slices.Delete(r.last, 0, 1)
	}
	r.last = append(r.last, recalled{blob, known})
}

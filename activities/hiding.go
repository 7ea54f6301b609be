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

// secrets finds a seed's secrets in texts. The zero value finds none.
type secrets struct {
	all  *seeds.Redactor        // in every form in which secrets appear
	pump *conversation.Redactor // in streams, also if a secret is split over pieces
	auth []byte                 // the seed's auth.json; nil if it has none

	shared *secrets // the seed's own secrets, if these are an extended copy; otherwise nil
}

// add makes s also hide the secrets in an auth.json.
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

// and returns secrets that find whatever s or o finds.
func (s secrets) and(o secrets) secrets {
	if s.all == nil {
		return o
	}
	found := append(s.all.Secrets(), o.all.Secrets()...)
	return secrets{all: seeds.NewRedactor("", found), pump: conversation.NewRedactor(seeds.Forms(found)...)}
}

// masker returns a function that makes maskers, which overwrite secrets in a snapshot;
// nil if no secrets are known.
func (s secrets) masker() func() chunks.Masker {
	if s.all == nil {
		return nil
	}
	return func() chunks.Masker { return s.all.MaskStream() }
}

// fingerprints returns names of the known secrets that only a holder of the store's key
// can compute.
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

// hiding returns the secrets of a seed. The caller can use them for as long as it works,
// even if the worker's recall drops them meanwhile.
func hiding(ctx context.Context, s *site, ref *protocol.SeedRef) (secrets, error) {
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
	if err := hideOthers(ctx, s, known, ref); err != nil {
		return secrets{}, err
	}
	s.recall.keep(ref.Blob, known)
	return known, nil
}

// generationsHidden is how many of a seed's generations are hidden: a token is worthless
// some days after it was rotated away.
const generationsHidden = 16

// hideOthers adds the secrets of the seed's other generations. Older ones are needed
// because output that a command printed before a rotation, or before a person gave the
// seed another key, is read again later. The newest one is needed because it may be on
// the host before the session knows of it.
func hideOthers(ctx context.Context, s *site, known secrets, ref *protocol.SeedRef) error {
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
			// This generation is not in use, so nobody is stopped if it is damaged or
			// purged.
			s.Logger.Warn("secrets of another generation are not hidden", "seed", ref.Name, "blob", blob, "error", err)
			continue
		}
		known.all.Add(seeds.KnownSecrets(b))
		known.pump.Add(seeds.Forms(seeds.KnownSecrets(b))...)
	}
	return nil
}

// maxRecalled is how many seeds' secrets a worker remembers beyond those in use. It can
// read a seed again in a moment. A worker that kept all of them would know every secret
// that it ever saw.
const maxRecalled = 64

// A recall keeps the secrets of the seeds that were used last.
type recall struct {
	mu   sync.Mutex
	last []recalled // guarded by mu; the most recently used one is last
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
	// Two callers may have read the same seed at once.
	r.last = slices.DeleteFunc(r.last, func(x recalled) bool { return x.blob == blob })
	if len(r.last) == maxRecalled {
		r.last = slices.Delete(r.last, 0, 1)
	}
	r.last = append(r.last, recalled{blob, known})
}

// knowing returns s with a token to hide in addition.
func (s secrets) knowing(token string) secrets {
	if token == "" {
		return s
	}
	return s.with("git", []seeds.Secret{seeds.NewSecret(token)})
}

package activities

import (
	"context"
	"slices"
	"sync"

	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/seeds"
)

// secrets are what finds a seed's secrets in texts. The zero value finds none.
type secrets struct {
	all  *seeds.Redactor        // in every form in which they travel
	pump *conversation.Redactor // in what streams by, also across pieces
}

// hiding gives what hides a seed's secrets. Who asked holds it for as long as he
// works, whatever is forgotten meanwhile.
func (s *site) hiding(ctx context.Context, ref *SeedRef) (secrets, error) {
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
	var texts []string
	for _, sec := range seeds.KnownSecrets(b) {
		texts = append(texts, sec.Reveal())
	}
	known := secrets{
		all:  seeds.NewRedactor(ref.Name, seeds.KnownSecrets(b)),
		pump: conversation.NewRedactor(texts...),
	}
	s.recall.keep(ref.Blob, known)
	return known, nil
}

// maxRecalled is of how many seeds a worker knows the secrets beyond those that
// its activities work with: reading one again takes a moment, and a worker that
// kept all would know every secret it ever saw.
const maxRecalled = 64

// A recall keeps what hides the secrets of the seeds that were asked for last.
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
	// Two may have read it at once.
	r.last = slices.DeleteFunc(r.last, func(x recalled) bool { return x.blob == blob })
	if len(r.last) == maxRecalled {
		r.last = slices.Delete(r.last, 0, 1)
	}
	r.last = append(r.last, recalled{blob, known})
}

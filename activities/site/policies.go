package site

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"fairlead.dev/fairlead/internal/policy"
	"fairlead.dev/fairlead/internal/store"
)

type policies struct {
	mu    sync.Mutex
	known map[string]*policy.Policy
}

func (p *policies) get(digest string) *policy.Policy {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[digest]
}

func (p *policies) put(digest string, parsed *policy.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known == nil || len(p.known) >= maxPolicies {
		p.known = map[string]*policy.Policy{}
	}
	p.known[digest] = parsed
}

const maxPolicies = 64

// A PolicyRef names a policy and its owner.
type PolicyRef struct {
	Digest string `json:"digest"` // SHA-256 of its text, in hex
	Of     string `json:"of"`     // session or seed
}

// PolicyDigest names a policy by its text.
func PolicyDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

var digestRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

const PoliciesPrefix = "policies/"

// KeepPolicies stores policies for pumps.
func KeepPolicies(ctx context.Context, s *Site, texts []string) error {
	for _, text := range texts {
		key := PoliciesPrefix + PolicyDigest(text)
		if err := s.Store.Create(ctx, key, []byte(text)); errors.Is(err, store.ErrExists) {
			// The stored text may be torn or different.
			if there, err := s.Store.Get(ctx, key); err == nil && string(there) == text {
				continue
			}
			if err := s.Store.Put(ctx, key, []byte(text)); err != nil {
				return fmt.Errorf("keep the policy: %w", err)
			}
		} else if err != nil {
			return fmt.Errorf("keep the policy: %w", err)
		}
	}
	return nil
}

// ReadPolicy returns a policy, or one that refuses everything if it cannot be used. It
// fails only if the store does; another attempt may succeed.
func ReadPolicy(ctx context.Context, s *Site, digest string) (*policy.Policy, error) {
	if p := s.policies.get(digest); p != nil {
		return p, nil
	}
	refusing := func(text []byte, why string, args ...any) (*policy.Policy, error) {
		p := policy.Refusing(text, fmt.Sprintf(why, args...))
		p.Digest = digest // not that of the text found
		return p, nil
	}
	if !digestRule.MatchString(digest) {
		return refusing(nil, "%.70q is not the digest of a policy", digest)
	}
	text, err := s.Store.Get(ctx, PoliciesPrefix+digest)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refusing(nil, "its text is not in the store")
	case errors.Is(err, store.ErrTorn), errors.Is(err, store.ErrTooLarge):
		return refusing(nil, "its text in the store is damaged")
	case err != nil:
		return nil, fmt.Errorf("read the policy: %w", err)
	case PolicyDigest(string(text)) != digest:
		return refusing(text, "the stored policy text does not match the digest")
	}
	p, err := policy.Parse(text)
	if err != nil {
		return refusing(text, "%v", err)
	}
	s.policies.put(digest, p)
	return p, nil
}

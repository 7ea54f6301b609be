package console

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

const (
	// linkPurpose separates the signatures of links from any other use of the key.
	linkPurpose = "fairlead console link v1\n"
	// LinkLife is how long a link counts.
	LinkLife = 5 * time.Minute
	// LinkPath is where a link leads.
	LinkPath = "/login/link"

	linkHead     = 16 + 8
	maxPrincipal = 256
)

// NewLink returns the token of a one-time link, which logs in whom it names. It is base64url of
//
//	nonce     16 bytes, random
//	end       8 bytes, big endian, in seconds since 1970
//	principal the rest but the last 32 bytes; empty for the owner of the stack
//	signature HMAC-SHA256 of linkPurpose and what comes before, with the key
func NewLink(key []byte, principal string, now time.Time) (token string, end time.Time) {
	end = now.Add(LinkLife).Truncate(time.Second)
	raw := make([]byte, 16, linkHead+len(principal)+sha256.Size)
	rand.Read(raw)
	raw = binary.BigEndian.AppendUint64(raw, uint64(end.Unix()))
	raw = append(raw, principal...)
	return base64.RawURLEncoding.EncodeToString(append(raw, signLink(key, raw)...)), end
}

func signLink(key, signed []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(linkPurpose))
	mac.Write(signed)
	return mac.Sum(nil)
}

// errLink says nothing about what is wrong with a link.
var errLink = errors.New("this link does not count: it was used, it is older than five minutes, or it is none")

// links redeem one-time links. The store has those that were used, so a link works once at all
// workers together, also after a restart.
type links struct {
	key   func() ([]byte, error)
	store Blobs
	now   func() time.Time
}

// A onceStore says whether it keeps what is created: if it does not, CreateOnce fails, and no
// link works. *[store.Store] is one.
type onceStore interface {
	CreateOnce(ctx context.Context, key string, data []byte) error
}

var _ onceStore = (*store.Store)(nil)

// usedKept is how long the store has a used link after its end, for workers whose clocks are
// late.
const usedKept = 24 * time.Hour

// redeem returns whom a link logs in.
func (l *links) redeem(ctx context.Context, token string) (principal string, err error) {
	if l.key == nil || len(token) > 2*(linkHead+maxPrincipal+sha256.Size) {
		return "", errLink
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < linkHead+sha256.Size {
		return "", errLink
	}
	key, err := l.key()
	if err != nil {
		return "", err
	}
	signed, signature := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !hmac.Equal(signature, signLink(key, signed)) {
		return "", errLink
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(signed[16:linkHead])), 0)
	if now := l.now(); !now.Before(end) || end.Sub(now) > LinkLife {
		return "", errLink
	}
	used := []byte(end.Add(usedKept).UTC().Format(time.RFC3339) + "\n")
	create := l.store.Create
	if s, ok := l.store.(onceStore); ok {
		create = s.CreateOnce
	}
	switch err := create(ctx, linkKeys+hex.EncodeToString(signed[:16]), used); {
	case errors.Is(err, store.ErrExists):
		return "", errLink
	case err != nil:
		return "", err
	}
	return string(signed[linkHead:]), nil
}

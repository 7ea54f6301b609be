package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

const (
	lookingKeys = "console/looking/"
	// lookingSaid is how often it is said that somebody looks at the inbox.
	lookingSaid = 20 * time.Second
	// lookingFor is how long that counts, for workers whose clocks differ a little, too.
	lookingFor = 50 * time.Second
	maxLooking = 1000
)

// Looking keeps in the store who has the inbox open. All workers read it, and hold back notices
// of new approvals that the person sees there.
type Looking struct {
	blobs Blobs
	now   func() time.Time

	mu   sync.Mutex
	said map[string]time.Time // by key
}

// NewLooking returns a Looking.
func NewLooking(blobs Blobs) *Looking {
	return &Looking{blobs: blobs, now: time.Now, said: map[string]time.Time{}}
}

func lookingKey(who string) string {
	sum := sha256.Sum256([]byte(who))
	return lookingKeys + hex.EncodeToString(sum[:])
}

// Say says that somebody looks at the inbox now. It may be called often. If the store does not
// take it, the person is told as if they did not look.
func (l *Looking) Say(ctx context.Context, who string) {
	key, now := lookingKey(who), l.now()
	l.mu.Lock()
	due := now.Sub(l.said[key]) >= lookingSaid
	if due {
		if len(l.said) >= maxLooking {
			clear(l.said)
		}
		l.said[key] = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	if l.blobs.Put(ctx, key, []byte(now.UTC().Format(time.RFC3339)+"\n")) != nil {
		l.mu.Lock()
		delete(l.said, key)
		l.mu.Unlock()
	}
}

// Looks reports whether a person looks at the inbox. It returns false if the store does not answer.
func (l *Looking) Looks(ctx context.Context, who string) bool {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	raw, err := l.blobs.Get(ctx, lookingKey(who))
	if err != nil {
		return false
	}
	at, ok := unpackLogin(raw)
	age := l.now().Sub(at.until)
	return ok && age < lookingFor && age > -lookingFor
}

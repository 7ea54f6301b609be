package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	endian "encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	// sessionLife is how long a login lasts.
	sessionLife = 12 * time.Hour
	// linkLife bounds the time that a link may be valid, whatever it says.
	linkLife = 10 * time.Minute
	// maxSessions bounds the logins at a time. One more ends the oldest.
	maxSessions = 32
)

// linkPurpose separates the signatures of links from any other use of the key.
const linkPurpose = "fairlead ui link v1\n"

// A login gives sessions for one-time links. A link is good for whoever can read the key
// file: it is base64url of
//
//	nonce     16 bytes, random
//	end       8 bytes, big endian, in seconds since 1970
//	signature 32 bytes, HMAC-SHA256 of linkPurpose, nonce and end, with the key
//
// The key is a new one at each start. So no link is good for two servers.
type login struct {
	key []byte
	now func() time.Time

	mu       sync.Mutex
	used     map[[16]byte]time.Time // nonce to the link's end
	sessions map[[32]byte]session   // by the digest of the cookie
	opened   uint64                 // counts sessions
}

type session struct {
	nr  uint64
	end time.Time
}

// newLogin writes a new key to a file, mode 0600.
func newLogin(file string) (*login, error) {
	key := make([]byte, 32)
	rand.Read(key)
	if err := writePrivate(file, []byte(base64.RawURLEncoding.EncodeToString(key)+"\n")); err != nil {
		return nil, fmt.Errorf("write the key of the UI's login: %w", err)
	}
	return &login{key: key, now: time.Now, used: map[[16]byte]time.Time{}, sessions: map[[32]byte]session{}}, nil
}

func writePrivate(file string, data []byte) error {
	unfinished := file + ".new"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished, file)
}

func signLink(key, nonceAndEnd []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(linkPurpose))
	mac.Write(nonceAndEnd)
	return mac.Sum(nil)
}

// redeem exchanges a link's token for a new cookie. It works once for each token.
func (l *login) redeem(token string) (cookie string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 16+8+sha256.Size {
		return "", false
	}
	signed, signature := raw[:24], raw[24:]
	if !hmac.Equal(signature, signLink(l.key, signed)) {
		return "", false
	}
	nonce := [16]byte(signed[:16])
	end := time.Unix(int64(endian.BigEndian.Uint64(signed[16:])), 0)
	now := l.now()
	if !now.Before(end) || end.Sub(now) > linkLife {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, end := range l.used {
		if !now.Before(end) {
			delete(l.used, n)
		}
	}
	if _, twice := l.used[nonce]; twice {
		return "", false
	}
	l.used[nonce] = end
	return l.open(now), true
}

// open begins a session. The caller holds mu.
func (l *login) open(now time.Time) string {
	for id, s := range l.sessions {
		if !now.Before(s.end) {
			delete(l.sessions, id)
		}
	}
	for len(l.sessions) >= maxSessions {
		oldest, nr := [32]byte{}, uint64(0)
		for id, s := range l.sessions {
			if nr == 0 || s.nr < nr {
				oldest, nr = id, s.nr
			}
		}
		delete(l.sessions, oldest)
	}
	cookie := rand.Text() + rand.Text()
	l.opened++
	l.sessions[sha256.Sum256([]byte(cookie))] = session{l.opened, now.Add(sessionLife)}
	return cookie
}

// knows reports whether a cookie belongs to a session. Only a digest of it is looked up, so
// the time that this takes tells nothing.
func (l *login) knows(cookie string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.sessions[sha256.Sum256([]byte(cookie))]
	return ok && l.now().Before(s.end)
}

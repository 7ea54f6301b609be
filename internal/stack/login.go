package stack

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The server of the UI has the same words (deploy/devserver/login.go, uiguard.go).
const (
	linkPurpose = "fairlead ui link v1\n"
	loginPath   = "/.fairlead/login"
)

// ErrNoLogin means that the stack's UI has no login: the stack is of an earlier version.
var ErrNoLogin = errors.New("the stack is of an earlier version, whose UI has no login")

// Link returns a link that logs a browser in to the stack's UI, once and before its end.
// The link is a secret.
func (i *Info) Link(now time.Time) (link string, end time.Time, err error) {
	if i.Login == "" {
		return "", end, ErrNoLogin
	}
	text, err := secretLine(i.Login)
	if err != nil {
		return "", end, fmt.Errorf("read the key of the UI's login: %w", err)
	}
	key, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(key) < 16 {
		return "", end, fmt.Errorf("read the key of the UI's login: %s holds none", i.Login)
	}
	end = now.Add(linkWithin).Truncate(time.Second)
	token := make([]byte, 16, 16+8+sha256.Size)
	rand.Read(token)
	token = binary.BigEndian.AppendUint64(token, uint64(end.Unix()))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(linkPurpose))
	mac.Write(token)
	token = mac.Sum(token)
	return i.Temporal.UI + loginPath + "?token=" + base64.RawURLEncoding.EncodeToString(token), end, nil
}

// secretLine reads a short file.
func secretLine(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4<<10))
	return strings.TrimSpace(string(data)), err
}

package slackapp

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/store"
)

// Blobs keep links, codes and cards; *[store.Store] implements it.
type Blobs interface {
	Get(ctx context.Context, key string) ([]byte, error)
	Put(ctx context.Context, key string, data []byte) error
	Create(ctx context.Context, key string, data []byte) error
	Delete(ctx context.Context, key string) error
	List(ctx context.Context, prefix string) ([]store.Info, error)
}

// A onceStore says whether it keeps what is created: if it does not, CreateOnce fails, and no code
// works. *[store.Store] is one.
type onceStore interface {
	CreateOnce(ctx context.Context, key string, data []byte) error
}

var _ onceStore = (*store.Store)(nil)

const (
	codeKeys = "slack/codes/"
	usedKeys = "slack/used/"
	linkKeys = "slack/links/"
	// ofKeys and askedKeys have the links and the open codes of each principal. They are there for
	// lists and bounds: links and codes alone count.
	ofKeys    = "slack/of/"
	askedKeys = "slack/asked/"

	// codeLife is how long a code counts.
	codeLife = 10 * time.Minute
	// usedKept is how long the store has a used code, for workers whose clocks are late.
	usedKept = 24 * time.Hour
	// maxAccounts bounds the accounts of one principal.
	maxAccounts = 5
	// maxCodes bounds the open codes of one principal.
	maxCodes = 20
	// maxOf bounds the links of a principal that are read, with those that ended as they were made.
	maxOf      = 100
	storeWait  = 10 * time.Second
	sweepEvery = time.Hour
	sweepWait  = time.Minute
)

// Errors of links. They are shown to the person in Slack.
var (
	errCode     = errors.New("this code does not count: it was used, it is older than 10 minutes, or it is none")
	errAccounts = fmt.Errorf("%d accounts are linked to you already: remove one with `ctl notify link --remove ACCOUNT`", maxAccounts)
)

var slackID = regexp.MustCompile(`^[A-Z0-9]{2,30}$`)

// An account is one of Slack, or of another server at API. Whoever runs that could say any ids, so
// its accounts are not those of Slack.
type account struct{ API, Team, User string }

// apiOf returns the address of a server as accounts have it; it is empty for Slack itself.
func apiOf(address string) string {
	if address = strings.TrimRight(address, "/"); address == "https://slack.com/api" {
		return ""
	}
	return address
}

func (a account) valid() bool { return slackID.MatchString(a.Team) && slackID.MatchString(a.User) }

func (a account) String() string { return a.Team + "/" + a.User }

// Keys of the store are lower case.
func (a account) key() string { return linkKeys + a.digest() }

func (a account) digest() string {
	if a.API == "" {
		return hash("account", a.Team, a.User)
	}
	return hash("account", a.API, a.Team, a.User)
}

func keysOf(prefix, principal string) string { return prefix + hash("principal", principal) + "/" }

func hash(parts ...string) string {
	raw, _ := json.Marshal(parts) // strings have JSON
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// A code is what the store has of one.
type code struct {
	Principal string    `json:"principal"` // empty for the owner of the stack
	Until     time.Time `json:"until"`
}

// A link says whose an account is.
type link struct {
	Principal string    `json:"principal"` // empty for the owner of the stack
	API       string    `json:"api,omitempty"`
	Team      string    `json:"team"`
	User      string    `json:"user"`
	At        time.Time `json:"at"`
}

func (k link) account() account { return account{k.API, k.Team, k.User} }

// ofKey is where the link is among those of its principal.
func (k link) ofKey() string { return keysOf(ofKeys, k.Principal) + k.account().digest() }

// links keeps them in the store.
type links struct {
	blobs Blobs
	now   func() time.Time

	mu     sync.Mutex
	swept  time.Time
	sweeps sync.WaitGroup
}

// newCode gives a code to a principal.
func (l *links) newCode(ctx context.Context, principal string) (text string, until time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	text = rand.Text() // 130 bits
	until = l.now().Add(codeLife).UTC().Truncate(time.Second)
	raw, err := json.Marshal(code{principal, until})
	if err != nil {
		return "", time.Time{}, err
	}
	asked := keysOf(askedKeys, principal)
	open, err := l.blobs.List(ctx, asked)
	if err != nil {
		return "", time.Time{}, err
	}
	open = slices.DeleteFunc(open, func(i store.Info) bool { return l.now().Sub(i.ModTime) > codeLife })
	if len(open) >= maxCodes {
		return "", time.Time{}, api.ErrManyCodes
	}
	id := hash("code", text)
	if err := l.blobs.Put(ctx, asked+id, raw); err != nil {
		return "", time.Time{}, err
	}
	if err := l.blobs.Create(ctx, codeKeys+id, raw); err != nil {
		return "", time.Time{}, err
	}
	l.sweeps.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepWait)
		defer cancel()
		l.sweep(ctx)
	})
	return text, until, nil
}

// redeem links an account to the principal who was given the code. A code works once at all
// workers together. It returns the link that it replaces, too.
func (l *links) redeem(ctx context.Context, text string, a account) (k link, was *link, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	if len(text) > 100 || !a.valid() {
		return k, nil, errCode
	}
	id := hash("code", strings.ToUpper(text))
	raw, err := l.blobs.Get(ctx, codeKeys+id)
	if errors.Is(err, store.ErrNotFound) {
		return k, nil, errCode
	}
	if err != nil {
		return k, nil, err
	}
	var c code
	if json.Unmarshal(raw, &c) != nil || !l.now().Before(c.Until) {
		return k, nil, errCode
	}
	has, err := l.of(ctx, c.Principal)
	if err != nil {
		return k, nil, err
	}
	has = slices.DeleteFunc(has, func(k link) bool { return k.account() == a })
	if len(has) >= maxAccounts {
		return k, nil, errAccounts
	}
	used, err := json.Marshal(code{Until: c.Until.Add(usedKept)})
	if err != nil {
		return k, nil, err
	}
	create := l.blobs.Create
	if s, ok := l.blobs.(onceStore); ok {
		create = s.CreateOnce
	}
	switch err := create(ctx, usedKeys+id, used); {
	case errors.Is(err, store.ErrExists):
		return k, nil, errCode
	case err != nil:
		return k, nil, err
	}
	for _, key := range []string{codeKeys + id, keysOf(askedKeys, c.Principal) + id} {
		_ = l.blobs.Delete(ctx, key) // it is used, whether it is there or not
	}
	old, linked, err := l.find(ctx, a)
	if err != nil {
		return k, nil, err
	}
	if linked {
		was = &old
	}
	k = link{c.Principal, a.API, a.Team, a.User, l.now().UTC()}
	if raw, err = json.Marshal(k); err != nil {
		return k, nil, err
	}
	if err := l.blobs.Put(ctx, k.ofKey(), raw); err != nil {
		return k, nil, err
	}
	if err := l.blobs.Put(ctx, a.key(), raw); err != nil {
		return k, nil, err
	}
	if was != nil && was.Principal != k.Principal {
		_ = l.blobs.Delete(ctx, was.ofKey()) // of looks at the link itself
	}
	return k, was, nil
}

// find returns whose an account is.
func (l *links) find(ctx context.Context, a account) (k link, linked bool, err error) {
	if !a.valid() {
		return k, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	raw, err := l.blobs.Get(ctx, a.key())
	if errors.Is(err, store.ErrNotFound) {
		return k, false, nil
	}
	if err != nil {
		return k, false, err
	}
	if err := json.Unmarshal(raw, &k); err != nil || k.account() != a {
		return link{}, false, nil
	}
	return k, true, nil
}

// of returns the links of a principal.
func (l *links) of(ctx context.Context, principal string) (all []link, err error) {
	infos, err := l.blobs.List(ctx, keysOf(ofKeys, principal))
	if err != nil {
		return nil, err
	}
	for _, info := range infos[:min(len(infos), maxOf)] {
		raw, err := l.blobs.Get(ctx, info.Key)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var k link
		if json.Unmarshal(raw, &k) != nil {
			continue
		}
		now, linked, err := l.find(ctx, k.account())
		switch {
		case err != nil:
			return nil, err
		case linked && now.Principal == principal:
			all = append(all, now)
		case l.now().Sub(k.At) > sweepEvery: // it is not one that is being made
			_ = l.blobs.Delete(ctx, info.Key)
		}
	}
	return all, nil
}

// remove ends a link.
func (l *links) remove(ctx context.Context, k link) error {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	err := l.blobs.Delete(ctx, k.account().key())
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	_ = l.blobs.Delete(ctx, k.ofKey()) // of looks at the link itself
	return nil
}

// sweep deletes codes that have ended, now and then. Failures do no harm: what has ended does not
// count.
func (l *links) sweep(ctx context.Context) {
	l.mu.Lock()
	due := l.now().Sub(l.swept) > sweepEvery
	if due {
		l.swept = l.now()
	}
	l.mu.Unlock()
	if !due {
		return
	}
	for _, prefix := range []string{codeKeys, askedKeys, usedKeys} {
		infos, err := l.blobs.List(ctx, prefix)
		if err != nil {
			return
		}
		for _, info := range infos {
			raw, err := l.blobs.Get(ctx, info.Key)
			if err != nil {
				continue
			}
			var c code
			if json.Unmarshal(raw, &c) != nil || l.now().After(c.Until) {
				_ = l.blobs.Delete(ctx, info.Key)
			}
		}
	}
}

// NewCode implements [api.Slack].
func (a *App) NewCode(ctx context.Context, principal string) (string, time.Time, error) {
	return a.links.newCode(ctx, principal)
}

// Accounts implements [api.Slack].
func (a *App) Accounts(ctx context.Context, principal string) ([]api.SlackAccount, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	all, err := a.links.of(ctx, principal)
	out := []api.SlackAccount{}
	for _, k := range all {
		out = append(out, api.SlackAccount{Account: k.account().String(), LinkedAt: k.At})
	}
	return out, err
}

// Unlink implements [api.Slack].
func (a *App) Unlink(ctx context.Context, principal, text string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	all, err := a.links.of(ctx, principal)
	if err != nil {
		return false, err
	}
	was := false
	for _, k := range all {
		if k.account().String() == text {
			if err := a.links.remove(ctx, k); err != nil {
				return was, err
			}
			was = true
		}
	}
	return was, nil
}

package slackapp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/store"
)

// memory is a store in memory.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func (m *memory) Get(_ context.Context, key string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.m[key]; ok {
		return v, nil
	}
	return nil, store.ErrNotFound
}

func (m *memory) Put(_ context.Context, key string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if key != strings.ToLower(key) {
		return errors.New("keys are lower case")
	}
	if m.m == nil {
		m.m = map[string][]byte{}
	}
	m.m[key] = data
	return nil
}

func (m *memory) Create(ctx context.Context, key string, data []byte) error {
	m.mu.Lock()
	_, is := m.m[key]
	m.mu.Unlock()
	if is {
		return store.ErrExists
	}
	return m.Put(ctx, key, data)
}

func (m *memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.m, key)
	return nil
}

func (m *memory) List(_ context.Context, prefix string) (all []store.Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key := range m.m {
		if strings.HasPrefix(key, prefix) {
			all = append(all, store.Info{Key: key})
		}
	}
	return all, nil
}

func TestACodeLinksOneAccountOnceAndForTenMinutes(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	l := &links{blobs: &memory{}, now: func() time.Time { return now }}
	ann, bob := account{"", "T01", "U01"}, account{"", "T01", "U02"}
	text, until, err := l.newCode(ctx, "ann@example.com")
	if err != nil || until.Sub(now) != codeLife {
		t.Fatalf("it counts until %v (%v)", until, err)
	}
	if k, _, err := l.redeem(ctx, strings.ToLower(text), ann); err != nil || k.Principal != "ann@example.com" {
		t.Fatalf("the link is %+v (%v)", k, err)
	}
	if _, _, err := l.redeem(ctx, text, bob); !errors.Is(err, errCode) {
		t.Errorf("a second time: %v", err)
	}
	if _, linked, err := l.find(ctx, bob); linked || err != nil {
		t.Errorf("bob is linked: %v", err)
	}
	late, _, err := l.newCode(ctx, "ann@example.com")
	if err != nil {
		t.Fatal(err)
	}
	l.sweeps.Wait() // they ask for the time
	now = now.Add(codeLife)
	for _, wrong := range []string{late, "", "x", strings.Repeat("x", 1000)} {
		if _, _, err := l.redeem(ctx, wrong, bob); !errors.Is(err, errCode) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
	// Team and user do not run into each other.
	if _, linked, err := l.find(ctx, account{"", "T0", "1U01"}); linked || err != nil {
		t.Errorf("another account is linked: %v", err)
	}
	if k, linked, err := l.find(ctx, ann); !linked || k.Principal != "ann@example.com" || err != nil {
		t.Errorf("ann's link is %+v (%v)", k, err)
	}
	if err := l.remove(ctx, link{Team: ann.Team, User: ann.User, Principal: "ann@example.com"}); err != nil {
		t.Fatal(err)
	}
	if _, linked, err := l.find(ctx, ann); linked || err != nil {
		t.Errorf("ann is still linked: %v", err)
	}
}

func TestOnePrincipalHasFewAccountsAndCodesAreSwept(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	blobs := &memory{}
	l := &links{blobs: blobs, now: func() time.Time { return now }}
	for i := range maxAccounts + 1 {
		text, _, err := l.newCode(ctx, "ann")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = l.redeem(ctx, text, account{"", "T01", "U0" + string(rune('1'+i))})
		if want := i >= maxAccounts; errors.Is(err, errAccounts) != want || !want && err != nil {
			t.Errorf("account %d: %v", i+1, err)
		}
	}
	l.sweeps.Wait() // they ask for the time
	now = now.Add(2*usedKept + sweepEvery)
	if _, _, err := l.newCode(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	l.sweeps.Wait()
	codes, _ := blobs.List(ctx, codeKeys)
	used, _ := blobs.List(ctx, usedKeys)
	if len(codes) != 1 || len(used) != 0 {
		t.Errorf("%d codes and %d used ones are left", len(codes), len(used))
	}
}

// Lists of one person's accounts do not read everybody's.
func TestThousandsOfLinksOfOthersAreNotRead(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	blobs := &counted{memory: &memory{}}
	l := &links{blobs: blobs, now: func() time.Time { return now }}
	redeem := func(who, team string) (was *link) {
		t.Helper()
		text, _, err := l.newCode(ctx, who)
		if err == nil {
			_, was, err = l.redeem(ctx, text, account{"", team, "U01"})
		}
		if err != nil {
			t.Fatal(err)
		}
		l.sweeps.Wait()
		return was
	}
	for i := range 1000 {
		redeem(fmt.Sprint("person-", i), fmt.Sprintf("T%04d", i))
	}
	blobs.gets = 0
	redeem("ann", "TANN")
	if blobs.gets > 10 {
		t.Errorf("a link needs %d reads", blobs.gets)
	}
	blobs.gets = 0
	if all, err := l.of(ctx, "ann"); len(all) != 1 || err != nil || blobs.gets > 10 {
		t.Errorf("ann has %v (%v), which takes %d reads", all, err, blobs.gets)
	}
	// An account that goes to somebody else is not in the list of its former principal.
	if was := redeem("bob", "TANN"); was == nil || was.Principal != "ann" {
		t.Errorf("the link replaced %+v", was)
	}
	for who, n := range map[string]int{"ann": 0, "bob": 1} {
		if all, err := l.of(ctx, who); len(all) != n || err != nil {
			t.Errorf("%s has %v (%v)", who, all, err)
		}
	}
	// A worker died before it made the link.
	half := link{"ann", "", "THALF", "U01", now}
	raw, err := json.Marshal(half)
	if err == nil {
		err = blobs.Put(ctx, half.ofKey(), raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, kept := range []bool{true, false} {
		if all, err := l.of(ctx, "ann"); len(all) != 0 || err != nil {
			t.Errorf("ann has %v (%v)", all, err)
		}
		if _, err := blobs.Get(ctx, half.ofKey()); (err == nil) != kept {
			t.Errorf("it is kept: %v", err)
		}
		l.sweeps.Wait() // they ask for the time
		now = now.Add(sweepEvery + 1)
		_, _ = l.of(ctx, "ann")
	}
}

// counted is a store that counts reads.
type counted struct {
	*memory
	gets int
}

func (c *counted) Get(ctx context.Context, key string) ([]byte, error) {
	c.gets++
	return c.memory.Get(ctx, key)
}

func TestOnePrincipalHasFewOpenCodes(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	blobs := &aged{memory: &memory{}, at: now}
	l := &links{blobs: blobs, now: func() time.Time { return now }}
	for i := range maxCodes + 5 {
		text, _, err := l.newCode(t.Context(), "ann")
		if errors.Is(err, api.ErrManyCodes) != (i >= maxCodes+2) {
			t.Fatalf("code %d: %v", i+1, err)
		}
		if i < 2 { // a code that was used does not count
			if _, _, err := l.redeem(t.Context(), text, account{"", "T01", "U01"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := l.newCode(t.Context(), "bob"); err != nil {
		t.Errorf("a code for bob: %v", err)
	}
	l.sweeps.Wait() // they ask for the time
	now = now.Add(codeLife + 1)
	if _, _, err := l.newCode(t.Context(), "ann"); err != nil {
		t.Errorf("a code when the others have ended: %v", err)
	}
	l.sweeps.Wait()
}

func TestUnlinkingIsForWhoseAccountItIs(t *testing.T) {
	a := New(Options{Store: &memory{}})
	ctx := t.Context()
	text, _, err := a.NewCode(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.links.redeem(ctx, text, account{"", "T01", "U01"}); err != nil {
		t.Fatal(err)
	}
	if was, err := a.Unlink(ctx, "bob", "T01/U01"); was || err != nil {
		t.Errorf("bob unlinks ann's account: %t, %v", was, err)
	}
	if all, err := a.Accounts(ctx, "bob"); len(all) != 0 || err != nil {
		t.Errorf("bob's accounts are %v (%v)", all, err)
	}
	if all, err := a.Accounts(ctx, "ann"); len(all) != 1 || all[0].Account != "T01/U01" || err != nil {
		t.Errorf("ann's accounts are %v (%v)", all, err)
	}
	if was, err := a.Unlink(ctx, "ann", "T01/U01"); !was || err != nil {
		t.Errorf("ann unlinks her account: %t, %v", was, err)
	}
}

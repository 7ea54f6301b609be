package console

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/store"
)

// forgetful is a store on which several calls of Create may succeed.
type forgetful struct {
	*memory
	once error
}

func (b *forgetful) Create(ctx context.Context, key string, data []byte) error {
	return b.Put(ctx, key, data)
}

func (b *forgetful) CreateOnce(ctx context.Context, key string, data []byte) error {
	if b.once != nil {
		return b.once
	}
	return b.memory.Create(ctx, key, data)
}

func TestALinkWorksOnceOnAStoreThatDoesNotKeepWhatIsCreated(t *testing.T) {
	c := newConsole(&fakeAPI{})
	b := &forgetful{memory: &memory{m: map[string][]byte{}}}
	c.links.store = b
	token, end := NewLink(linkSecret, "ann", time.Now())
	for i, want := range []int{http.StatusSeeOther, http.StatusForbidden} {
		if w := ask(c, "GET", LinkPath+"?token="+token, "", nil); w.Code != want {
			t.Errorf("use %d of the link is answered %d", i+1, w.Code)
		}
	}
	for key, data := range b.m {
		if until := end.Add(24 * time.Hour).UTC().Format(time.RFC3339); strings.TrimSpace(string(data)) != until {
			t.Errorf("%s is kept until %s, want %s", key, data, until)
		}
	}
	b.once = store.ErrNotExclusive
	token, _ = NewLink(linkSecret, "ann", time.Now())
	if w := ask(c, "GET", LinkPath+"?token="+token, "", nil); w.Code != http.StatusServiceUnavailable || len(w.Result().Cookies()) > 0 {
		t.Errorf("where no link can be used up, it is answered %d", w.Code)
	}
}

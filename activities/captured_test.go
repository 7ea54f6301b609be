package activities

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"fairlead.dev/fairlead/activities/logins"
	"fairlead.dev/fairlead/internal/lab/scriptedauth"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// A captured is a login in a person's codex home, with the result of capturing it.
type captured struct {
	*bed
	in   logins.CaptureSeedInput
	kept logins.CaptureSeedResult
}

func newCaptured(t *testing.T) *captured {
	t.Helper()
	c := &captured{bed: newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})}
	c.in = logins.CaptureSeedInput{Name: "team", Host: c.spec, Home: t.TempDir()}
	c.write("auth.json", string(scriptedauth.Serve(t).Login(scriptedauth.Account{}).AuthJSON()))
	c.kept = c.capture()
	return c
}

func (c *captured) path(name string) string { return filepath.Join(c.in.Home, name) }

func (c *captured) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(c.path(name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// holds returns the files in the codex home as "name=text", sorted by name. The text of
// the captured login is replaced by "it".
func (c *captured) holds(it string) string {
	c.t.Helper()
	entries, err := os.ReadDir(c.in.Home)
	if err != nil {
		c.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		data, err := os.ReadFile(c.path(e.Name()))
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, e.Name()+"="+strings.ReplaceAll(string(data), it, "it"))
	}
	return strings.Join(all, " ")
}

func (c *captured) capture() logins.CaptureSeedResult {
	c.t.Helper()
	out, err := logins.CaptureSeed(c.t.Context(), c.set.Login.Site, c.in)
	if err != nil {
		c.t.Fatal(err)
	}
	return out
}

func TestWhatWasCapturedIsReadBackAndFoundAgain(t *testing.T) {
	c := newCaptured(t)
	if again := c.capture(); again.Ref != c.kept.Ref {
		t.Errorf("kept as %+v, then as %+v", c.kept.Ref, again.Ref)
	}
	if b, err := seeds.Load(t.Context(), c.store, c.kept.Ref.Blob); err != nil || seeds.AuthDigest(b.Auth()) != c.kept.Auth {
		t.Errorf("what is kept cannot be used: %v", err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	blind, err := store.Open(t.Context(), store.Options{URL: "file://" + t.TempDir(), Recipients: []age.Recipient{id.Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	c.set.site.Store = blind
	if out, err := logins.CaptureSeed(t.Context(), c.set.Login.Site, c.in); err == nil {
		t.Errorf("kept as %+v, which nobody has read back", out.Ref)
	}
}

// If the store cannot give back a login, nobody is asked for a code.
func TestALoginIsMadeOnlyWhereTheStoreGivesBackWhatItTakes(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	if err := logins.TryStore(t.Context(), b.set.Login.Site, "logins/l"); err != nil {
		t.Fatal(err)
	}
	if left, err := b.store.List(t.Context(), "logins/"); err != nil || len(left) > 0 {
		t.Errorf("left in the store: %v, %v", left, err)
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	blind, err := store.Open(t.Context(), store.Options{URL: "file://" + t.TempDir(), Recipients: []age.Recipient{id.Recipient()}})
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	b.set.site.Store = blind
	if out, err := logins.MakeLogin(t.Context(), b.set.Login.Site, logins.LoginInput{ID: "l", Host: b.spec}); err == nil || !strings.Contains(err.Error(), "try the store") {
		t.Errorf("made %+v, %v", out, err)
	}
	if left, _ := filepath.Glob(filepath.Join(b.spec.Root, "logins", "*")); len(left) > 0 {
		t.Errorf("left on the host: %v", left)
	}
}

func TestOnlyTheLoginThatWasCapturedIsForgotten(t *testing.T) {
	const aside = "auth.json.fairlead-moved"
	for name, c := range map[string]struct {
		file, moved string // "it" is what was captured
		left        string
		fails       string
	}{
		"there":                       {file: "it"},
		"gone":                        {},
		"killed in the middle":        {moved: "it"},
		"killed, and put there again": {file: "it", moved: "it"},
		"changed":                     {file: "newer", left: "auth.json=newer", fails: "has changed"},
		// The file was replaced between the check and the move.
		"another was moved":  {moved: "newer", left: "auth.json=newer", fails: "has changed"},
		"killed, and newer":  {file: "newer", moved: "it", left: "auth.json=newer", fails: "has changed"},
		"another, and newer": {file: "newest", moved: "newer", left: "auth.json=newest " + aside + "=newer", fails: "both stay"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newCaptured(t)
			data, err := os.ReadFile(h.path("auth.json"))
			if err != nil {
				t.Fatal(err)
			}
			it := string(data)
			for file, text := range map[string]string{"auth.json": c.file, aside: c.moved} {
				if err := os.Remove(h.path(file)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				if text != "" {
					h.write(file, strings.ReplaceAll(text, "it", it))
				}
			}
			err = logins.ForgetLogin(t.Context(), h.set.Login.Site, logins.ForgetLoginInput{Host: h.spec, Home: h.in.Home, Auth: h.kept.Auth})
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("it ended with %v, want %q", err, c.fails)
			}
			if got := h.holds(it); got != c.left {
				t.Errorf("left %q, want %q", got, c.left)
			}
		})
	}
}

package activities

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"weak"

	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// A worker runs for months and serves thousands of seeds, so it must not remember all
// their secrets. But the secrets that an activity uses stay hidden.
func TestAWorkerForgetsTheSecretsOfSeedsThatItNoLongerServes(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost})
	secret := func(i int) string { return fmt.Sprintf("sk-made-up-%04d-of-a-test", i) }
	seed := func(i int) *protocol.SeedRef {
		t.Helper()
		dir := t.TempDir()
		auth := fmt.Sprintf(`{"auth_mode":"apikey","OPENAI_API_KEY":%q}`, secret(i))
		if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(auth), 0o600); err != nil {
			t.Fatal(err)
		}
		bundle, err := seeds.Pack(dir)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := seeds.Save(t.Context(), b.store, fmt.Sprintf("seed-%d", i), 1, bundle)
		if err != nil {
			t.Fatal(err)
		}
		return &protocol.SeedRef{Name: ref.Name, Blob: ref.Blob, Digest: ref.Digest}
	}
	hiding := func(ref *protocol.SeedRef) site.Secrets {
		t.Helper()
		known, err := site.Hiding(t.Context(), b.set.site, ref)
		if err != nil {
			t.Fatal(err)
		}
		return known
	}
	hides := func(known site.Secrets, i int) {
		t.Helper()
		text := "before " + secret(i) + " behind"
		for _, got := range []string{known.All.String(text), known.Pump.String(text)} {
			if strings.Contains(got, secret(i)) || !strings.HasPrefix(got, "before ") {
				t.Errorf("secret %d is shown: %s", i, got)
			}
		}
	}

	first, often := seed(0), seed(1)
	held, again := hiding(first), hiding(often)
	var known []weak.Pointer[seeds.Redactor]
	const many = 3 * site.MaxRecalled
	for i := 2; i < many; i++ {
		now := hiding(seed(i))
		hides(now, i)
		known = append(known, weak.Make(now.All))
		if got := hiding(often); got.All != again.All {
			t.Fatalf("what is asked for all the time was forgotten after %d others", i)
		}
	}
	runtime.GC()
	runtime.GC()
	left := 0
	for _, p := range known {
		if p.Value() != nil {
			left++
		}
	}
	if left > site.MaxRecalled || left < site.MaxRecalled/2 {
		t.Errorf("of %d seeds the secrets of %d are known, the bound is %d", many, left, site.MaxRecalled)
	}
	hides(held, 0)
	if got := hiding(first); got.All == held.All {
		t.Error("the first one was never forgotten")
	}
	hides(hiding(first), 0)
}

// Streamed output is shown before any other code has searched it. So a secret in it
// must be found there, in every form that a shell gives it.
func TestWhatStreamsByHidesSecretsInEveryForm(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	sec, err := site.Hiding(t.Context(), b.set.site, b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	if err != nil {
		t.Fatal(err)
	}
	text := "key: " + madeUpKey + "\n"
	for name, form := range map[string]string{"raw": text, "base64": base64.StdEncoding.EncodeToString([]byte(text)), "hex": hex.EncodeToString([]byte(text))} {
		if got := sec.Pump.String(form); got == form {
			t.Errorf("%s is shown: %s", name, got)
		}
	}
}

package live

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	agecrypt "filippo.io/age"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// If a command prints much at once, the store keeps only the newest part. The dropped bytes
// are counted, and reported at the place where they are missing.
func TestOutputThatWasDroppedIsToldInItsPlace(t *testing.T) {
	id, err := agecrypt.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{URL: "file://" + filepath.Join(t.TempDir(), "store"),
		Recipients: []agecrypt.Recipient{id.Recipient()}, Identities: []agecrypt.Identity{id}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	end, err := json.Marshal(protocol.ExecResult{State: "exited", Stdout: 1007, Stderr: 4})
	if err != nil {
		t.Fatal(err)
	}
	for key, data := range map[string]string{
		"exec/e1/stdout-0000000000001000": "the end", "exec/e1/stderr-0000000000000000": "odd\n", "exec/e1/end": string(end),
	} {
		if err := st.Create(t.Context(), key, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	srv, err := api.Serve(api.Options{Listen: "unix://" + filepath.Join(t.TempDir(), "s"), Store: st, Hub: api.NewHub(nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	for _, output := range []string{"text", "json"} {
		c, err := api.NewClient(srv.Address(), api.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		var out, errs bytes.Buffer
		a := &core.App{Out: &out, Err: &errs}
		a.Flags.Output = output
		missing, err := Follow(t.Context(), a, c, "h1", "e1")
		if err != nil || missing != 1000 {
			t.Errorf("%s: %d bytes are missing, %v", output, missing, err)
		}
		if output == "json" {
			if want := `{"at":0,"missing":1000,"stream":"stdout"}`; !strings.Contains(out.String(), want) {
				t.Errorf("json shows %s", out.String())
			}
		} else if out.String() != "the end" || !strings.Contains(errs.String(), "1000 bytes of stdout were dropped") || !strings.Contains(errs.String(), "odd\n") {
			t.Errorf("shown: %q and %q", out.String(), errs.String())
		}
	}
}

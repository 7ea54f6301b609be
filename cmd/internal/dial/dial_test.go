package dial

import (
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/payload"
)

// A stack's payload key is used only for the stack's own server, whichever source names the
// address.
func TestPayloadKeysComeFromTheFirstWhoNamesSome(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	dir := t.TempDir()
	ids := map[string]string{"": ""}
	for _, name := range []string{"config", "stack"} {
		k, err := payload.GenerateKey(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = k.ID()
	}
	conf := func(key string) Source {
		s, err := Config(&config.Config{Temporal: config.Temporal{PayloadKey: key}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stack := Stack("127.0.0.1:7233", "", filepath.Join(dir, "stack"), time.Time{}, nil)
	for name, c := range map[string]struct {
		sources []Source
		want    string
	}{
		"the stack alone":            {[]Source{conf(""), stack}, "stack"},
		"the stack's address, typed": {[]Source{Flags("127.0.0.1:7233", ""), conf(""), stack}, "stack"},
		"another address":            {[]Source{Flags("temporal.example:7233", ""), conf(""), stack}, ""},
		"a config's, and the stack":  {[]Source{conf(filepath.Join(dir, "config")), stack}, "config"},
		"a config's, elsewhere":      {[]Source{Flags("temporal.example:7233", ""), conf(filepath.Join(dir, "config")), stack}, "config"},
	} {
		got, err := Resolve(c.sources...)
		if err != nil {
			t.Fatal(err)
		}
		if id, _ := got.Codec.Encrypts(); id != ids[c.want] || got.DataConverter == nil || got.FailureConverter == nil {
			t.Errorf("%s: key %q, want %q", name, id, ids[c.want])
		}
	}
	if _, err := Resolve(conf(filepath.Join(dir, "none")), stack); err == nil {
		t.Error("a key file that is not there was passed over")
	}
}

func TestAServerOnThisMachineIsSpokenToWithoutCompression(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", t.TempDir()+"/none.toml")
	for address, here := range map[string]bool{
		"127.0.0.1:7233": true, "127.8.0.1:7233": true, "localhost:7233": true, "[::1]:7233": true,
		"10.0.0.1:7233": false, "temporal.example.com:7233": false, "localhost.example.com:7233": false, "dns:///localhost": false,
	} {
		opts, err := Resolve(Flags(address, ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, none := opts.ConnectionOptions.GrpcCompression.(*client.GrpcCompressionNone); none != here {
			t.Errorf("%s: without compression is %v", address, none)
		}
	}
}

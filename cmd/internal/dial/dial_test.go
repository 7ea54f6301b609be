package dial

import (
	"testing"

	"go.temporal.io/sdk/client"
)

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

package fairlead

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// apart are modules of which the Temporal server keeps another version. Little is compiled
// twice for them.
var apart = []string{
	"github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4", "github.com/gorilla/securecookie",
	"github.com/prometheus/client_golang", "github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs",
	"golang.org/x/exp", "github.com/grpc-ecosystem/go-grpc-middleware/v2",
	"github.com/mattn/go-colorable", "github.com/mattn/go-isatty", // of tools
	"google.golang.org/api", "github.com/googleapis/gax-go/v2", // the server does without: deploy/devserver/without
}

// TestTheServerSharesVersionsWithTheRest keeps a build of everything from compiling gRPC,
// protobuf and Temporal's API twice.
func TestTheServerSharesVersionsWithTheRest(t *testing.T) {
	ours, servers := required(t, "go.mod"), required(t, "deploy/devserver/go.mod")
	for module, version := range servers {
		if mine := ours[module]; mine != "" && mine != version && !slices.Contains(apart, module) {
			t.Errorf("go.mod requires %s %s, deploy/devserver/go.mod %s: require the newer in both", module, mine, version)
		}
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require )?\t?([a-z0-9.-]+\.[a-z]+/\S+) (v\S+)`)

func required(t *testing.T, file string) map[string]string {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
		versions[m[1]] = m[2]
	}
	if len(versions) < 10 {
		t.Fatalf("%s requires only %d modules: this test reads it wrongly", file, len(versions))
	}
	return versions
}

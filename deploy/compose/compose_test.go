package compose

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fairlead.dev/fairlead/internal/config"
)

func file(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(v) // as the schema sees it
	if err != nil {
		t.Fatal(err)
	}
	v = nil
	if err := json.Unmarshal(plain, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheFileIsAsTheSpecificationSays(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join("testdata", "compose-spec.json"))
	if err != nil {
		t.Fatal(err)
	}
	f := file(t)
	if err := schema.Validate(f); err != nil {
		t.Error(err)
	}
	f["services"].(map[string]any)["worker"].(map[string]any)["read_olny"] = true
	if schema.Validate(f) == nil {
		t.Error("a key that the specification does not know is taken")
	}
}

func TestTheProgramsRunWithoutRights(t *testing.T) {
	services := file(t)["services"].(map[string]any)
	for _, name := range []string{"prepare", "worker", "api"} {
		s := services[name].(map[string]any)
		drops, _ := s["cap_drop"].([]any)
		if s["read_only"] != true || s["user"] != "65532:65532" || !slices.Contains(drops, any("ALL")) {
			t.Errorf("%s: read_only %v, user %v, cap_drop %v", name, s["read_only"], s["user"], drops)
		}
	}
	for _, name := range []string{"postgresql", "temporal"} {
		image, _ := services[name].(map[string]any)["image"].(string)
		if _, tag, tagged := strings.Cut(image, ":"); !tagged || tag == "latest" {
			t.Errorf("%s has the image %q, which may be another one tomorrow", name, image)
		}
	}
}

func TestTheConfigsAreThoseOfAWorker(t *testing.T) {
	for _, name := range []string{"worker.yaml", "api.yaml"} {
		text, err := os.ReadFile(filepath.Join("fairlead", name))
		if err != nil {
			t.Fatal(err)
		}
		conf, err := config.Parse("/etc/fairlead/"+name, text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if conf.Temporal.Address != "temporal:7233" || conf.Temporal.Namespace != "fairlead" || conf.Authority != config.AuthorityRequired {
			t.Errorf("%s: %+v", name, conf.Temporal)
		}
	}
}

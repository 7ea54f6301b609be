package bom

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"fairlead.dev/fairlead/internal/realparts"
)

func lock(t *testing.T) string { return realparts.Path(t, "deploy", "tools", "package-lock.json") }

// content is what the worker is linked from, and codex. A test's own program names no modules.
func content(t *testing.T) Content {
	t.Helper()
	codex, err := Codex(lock(t), "linux-x64")
	if err != nil {
		t.Fatal(err)
	}
	return Content{Name: "fairlead", Version: "v9", Programs: []string{realparts.Worker(t)}, Packages: []cdx.Component{codex}}
}

func TestABillNamesGoEachModuleAndCodexWithItsDigest(t *testing.T) {
	text, err := Of(content(t), time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"pkg:golang/stdlib@`, `"pkg:golang/go.temporal.io/sdk@v`, `"go:sum"`,
		`"pkg:npm/@openai/codex@`, `-linux-x64"`, `"SHA-512"`, `"Apache-2.0"`, `"2027-01-15T08:00:00Z"`,
	} {
		if !strings.Contains(strings.ReplaceAll(string(text), "%40", "@"), want) {
			t.Errorf("the bill has no %s:\n%s", want, text)
		}
	}
	again, err := Of(content(t), time.Unix(1_800_000_000, 0))
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("two bills of one content differ (%v)", err)
	}
}

// The schemas are those that come with the module that writes bills.
func TestABillIsAsItsSchemaSays(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	for url, file := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		text, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		schema, err := jsonschema.UnmarshalJSON(text)
		text.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(url, schema); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Of(content(t), time.Unix(1_800_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var bill any
	if err := json.Unmarshal(text, &bill); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(bill); err != nil {
		t.Error(err)
	}
	bill.(map[string]any)["bomFormat"] = "something else"
	if schema.Validate(bill) == nil {
		t.Error("the schema takes anything")
	}
}

func TestWhatHasNoBillIsSaid(t *testing.T) {
	if _, err := Codex(lock(t), "plan9-mips"); err == nil || !strings.Contains(err.Error(), "plan9-mips") || !strings.Contains(err.Error(), "pins none") {
		t.Errorf("a platform without codex: %v", err)
	}
	if _, err := Of(Content{Name: "x", Programs: []string{lock(t)}}, time.Unix(0, 0)); err == nil || !strings.Contains(err.Error(), "package-lock.json") {
		t.Errorf("what is no program: %v", err)
	}
}

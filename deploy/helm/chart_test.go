package helm

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"fairlead.dev/fairlead/internal/config"
)

// A resource is one that the chart made.
type resource map[string]any

func (r resource) String() string {
	meta, _ := r["metadata"].(map[string]any)
	return fmt.Sprint(r["kind"], " ", meta["name"])
}

// at returns a value inside, or nil. Steps are keys of maps and indexes of lists.
func (r resource) at(steps ...any) any {
	var v any = map[string]any(r)
	for _, s := range steps {
		switch s := s.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

// rendered returns the resources for each file of values.
func rendered(t *testing.T) map[string][]resource {
	t.Helper()
	files, err := filepath.Glob("testdata/rendered/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files were rendered (%v)", len(files), err)
	}
	all := map[string][]resource{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
			var r map[string]any
			err := d.Decode(&r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			// As a cluster reads it: numbers and maps of JSON.
			plain, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
			if err != nil {
				t.Fatal(err)
			}
			all[filepath.Base(file)] = append(all[filepath.Base(file)], v.(map[string]any))
		}
	}
	return all
}

func TestWhatWasRenderedIsOfThisChart(t *testing.T) {
	text, err := os.ReadFile("testdata/SUMS")
	if err != nil {
		t.Fatal(err)
	}
	var now []string
	for _, root := range []string{"fairlead", "testdata/values"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			now = append(now, fmt.Sprintf("%x  %s", sha256.Sum256(content), filepath.ToSlash(path)))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if was := strings.Split(strings.TrimSpace(string(text)), "\n"); !slices.Equal(was, now) {
		t.Error("the chart or its values changed: run `make chart`")
	}
}

func TestEveryResourceIsAsKubernetesSays(t *testing.T) {
	file, err := os.Open("schemas/kubernetes.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	whole, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kubernetes.json", whole); err != nil {
		t.Fatal(err)
	}
	kinds := whole.(map[string]any)["kinds"].(map[string]any)
	for name, resources := range rendered(t) {
		for _, r := range resources {
			key := strings.ToLower(fmt.Sprint(r["kind"])) + "-" + strings.ReplaceAll(strings.Replace(fmt.Sprint(r["apiVersion"]), ".k8s.io", "", 1), "/", "-")
			definition, is := kinds[key].(string)
			if !is {
				t.Errorf("%s: %s: there is no schema of %s", name, r, key)
				continue
			}
			schema, err := c.Compile("kubernetes.json#/definitions/" + definition)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(map[string]any(r)); err != nil {
				t.Errorf("%s: %s: %v", name, r, err)
			}
			r["sepc"] = map[string]any{}
			if schema.Validate(map[string]any(r)) == nil {
				t.Errorf("%s: %s: a field that Kubernetes does not know is taken", name, r)
			}
		}
	}
}

// templates are the pod templates among resources.
func templates(resources []resource) (pods []resource) {
	for _, r := range resources {
		if t, is := r.at("spec", "template").(map[string]any); is {
			pods = append(pods, t)
		}
	}
	return pods
}

func TestEveryConfigOfTheChartIsOneOfAWorker(t *testing.T) {
	zones := map[string]int{}
	for name, resources := range rendered(t) {
		for _, r := range resources {
			text, is := r.at("data", "worker.yaml").(string)
			if r["kind"] != "ConfigMap" || !is {
				continue
			}
			conf, err := config.Parse("/etc/fairlead/worker.yaml", []byte(text))
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", name, r, err, text)
				continue
			}
			zones[conf.Zone]++
			if conf.Metrics.Listen != "0.0.0.0:9090" || conf.State != "/var/lib/fairlead/state" || !strings.HasPrefix(conf.Store.Identity, "/etc/fairlead/") {
				t.Errorf("%s: %s: metrics at %q, state in %q, identity %q", name, r, conf.Metrics.Listen, conf.State, conf.Store.Identity)
			}
			if has := slices.ContainsFunc(resources, func(o resource) bool { return o.at("data", "access.yaml") != nil }); has != (conf.Access == "/etc/fairlead/access.yaml") {
				t.Errorf("%s: %s: there is an access file: %v; the config has %q", name, r, has, conf.Access)
			}
		}
	}
	for _, zone := range []string{"default", "lab", "build", "prod"} {
		if zones[zone] == 0 {
			t.Errorf("no config is of the zone %s: %v", zone, zones)
		}
	}
}

func TestEveryPodRunsAsNobodyInParticularWithAReadOnlyRoot(t *testing.T) {
	n := 0
	for name, resources := range rendered(t) {
		for _, pod := range templates(resources) {
			n++
			c := resource(pod.at("spec", "containers", 0).(map[string]any))
			for _, is := range []bool{
				pod.at("spec", "securityContext", "runAsNonRoot") == true,
				fmt.Sprint(pod.at("spec", "securityContext", "fsGroup")) == "65532",
				fmt.Sprint(pod.at("spec", "securityContext", "runAsUser")) == "65532",
				pod.at("spec", "automountServiceAccountToken") == false,
				c.at("securityContext", "readOnlyRootFilesystem") == true,
				c.at("securityContext", "allowPrivilegeEscalation") == false,
				c.at("securityContext", "capabilities", "drop", 0) == "ALL",
				c.at("resources", "limits", "memory") != nil,
			} {
				if !is {
					t.Errorf("%s: %s has %v and %v", name, c["name"], pod.at("spec", "securityContext"), c)
					break
				}
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d pods", n)
	}
}

// A selector that no pod has, and a volume that no pod has, are mistakes that no schema finds.
func TestSelectorsAndVolumesFit(t *testing.T) {
	for name, resources := range rendered(t) {
		var labels []map[string]any
		for _, pod := range templates(resources) {
			l, _ := pod.at("metadata", "labels").(map[string]any)
			labels = append(labels, l)
			volumes := map[string]bool{}
			list, _ := pod.at("spec", "volumes").([]any)
			for _, v := range list {
				volumes[fmt.Sprint(v.(map[string]any)["name"])] = true
			}
			for _, r := range resources { // of volumeClaimTemplates
				if r["kind"] == "StatefulSet" && fmt.Sprint(r.at("spec", "template")) == fmt.Sprint(map[string]any(pod)) {
					claims, _ := r.at("spec", "volumeClaimTemplates").([]any)
					for _, c := range claims {
						volumes[fmt.Sprint(resource(c.(map[string]any)).at("metadata", "name"))] = true
					}
				}
			}
			mounts, _ := pod.at("spec", "containers", 0, "volumeMounts").([]any)
			for _, m := range mounts {
				if v := fmt.Sprint(m.(map[string]any)["name"]); !volumes[v] {
					t.Errorf("%s: a pod mounts %s, and has %v", name, v, volumes)
				}
			}
		}
		for _, r := range resources {
			selector, _ := r.at("spec", "selector", "matchLabels").(map[string]any)
			if r["kind"] == "Service" {
				selector, _ = r.at("spec", "selector").(map[string]any)
			}
			if selector == nil {
				continue
			}
			if !slices.ContainsFunc(labels, func(l map[string]any) bool {
				for key, value := range selector {
					if l[key] != value {
						return false
					}
				}
				return true
			}) {
				t.Errorf("%s: %s selects no pod by %v", name, r, selector)
			}
		}
	}
}

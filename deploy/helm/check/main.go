package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yannh/kubeconform/pkg/validator"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chart     = "fairlead"
	values    = "testdata/values"
	rendered  = "testdata/rendered"
	sums      = "testdata/SUMS"
	schemas   = "schemas/kubernetes.json"
	namespace = "fairlead"
)

func main() {
	swagger := flag.String("swagger", "", "`file` api/openapi-spec/swagger.json of a Kubernetes release")
	flag.Parse()
	if err := run(*swagger, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(swagger string, out io.Writer) error {
	if swagger != "" {
		if err := makeSchemas(swagger); err != nil {
			return err
		}
	}
	conforms, clean, err := conformer()
	if err != nil {
		return err
	}
	defer clean()
	files, err := filepath.Glob(filepath.Join(values, "*.yaml"))
	if err != nil || len(files) < 4 {
		return fmt.Errorf("find values in %s: %d files (%w)", values, len(files), err)
	}
	if err := errors.Join(os.RemoveAll(rendered), os.MkdirAll(rendered, 0o755)); err != nil {
		return err
	}
	for _, file := range files {
		text, err := render(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(rendered, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
		n, err := conforms(file, text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		fmt.Fprintf(out, "chart: %s: lint found nothing, %d resources are rendered and conform\n", filepath.Base(file), n)
	}
	return writeSums()
}

// render lints the chart with the values of a file, and renders it.
func render(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := yaml.Unmarshal(text, &given); err != nil {
		return nil, err
	}
	said := lint.RunAll(chart, given, namespace)
	for _, m := range said.Messages {
		if m.Severity > support.InfoSev {
			err = errors.Join(err, fmt.Errorf("lint: %w", m))
		}
	}
	if err != nil {
		return nil, err
	}
	c, err := loader.Load(chart)
	if err != nil {
		return nil, err
	}
	all, err := util.ToRenderValues(c, given, common.ReleaseOptions{Name: "fl", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	made, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(made))
	for name := range made {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		if text := strings.TrimSpace(made[name]); text != "" && strings.HasSuffix(name, ".yaml") {
			fmt.Fprintf(&b, "---\n# Source: %s\n%s\n", name, strings.TrimPrefix(text, "---\n"))
		}
	}
	return b.Bytes(), nil
}

// conformer returns a function that counts the resources of a text and says which of them do
// not conform.
func conformer() (conforms func(name string, text []byte) (int, error), clean func(), err error) {
	dir, err := os.MkdirTemp("", "fairlead-schemas-")
	if err != nil {
		return nil, nil, err
	}
	clean = func() { os.RemoveAll(dir) }
	text, err := os.ReadFile(schemas)
	if err != nil {
		clean()
		return nil, nil, err
	}
	var whole struct {
		Kinds       map[string]string
		Definitions json.RawMessage
	}
	if err := json.Unmarshal(text, &whole); err != nil {
		clean()
		return nil, nil, fmt.Errorf("%s: %w", schemas, err)
	}
	for kind, definition := range whole.Kinds {
		one, err := json.Marshal(map[string]any{"$ref": "#/definitions/" + definition, "definitions": whole.Definitions})
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, kind+".json"), one, 0o600)
		}
		if err != nil {
			clean()
			return nil, nil, err
		}
	}
	v, err := validator.New([]string{filepath.Join(dir, "{{ .ResourceKind }}{{ .KindSuffix }}.json")}, validator.Opts{Strict: true})
	if err != nil {
		clean()
		return nil, nil, err
	}
	return func(name string, text []byte) (n int, err error) {
		for _, r := range v.Validate(name, io.NopCloser(bytes.NewReader(text))) {
			switch r.Status {
			case validator.Valid:
				n++
			case validator.Empty:
			default:
				sig, _ := r.Resource.Signature() // for the message
				err = errors.Join(err, fmt.Errorf("kubeconform: %+v: %v %v", sig, r.Err, r.ValidationErrors))
			}
		}
		return n, err
	}, clean, nil
}

// writeSums writes the digests of the chart and of the values, as sha256sum does.
func writeSums() error {
	var b strings.Builder
	for _, root := range []string{chart, values} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), filepath.ToSlash(path))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return os.WriteFile(sums, []byte(b.String()), 0o644)
}

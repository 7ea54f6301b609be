package httpapi_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/httpapi"
)

var update = flag.Bool("update", false, "write the reference of the API anew")

// The reference page is made from the document that workers serve. It has the requests, and
// only names the views, whose fields are ctl's.
func TestReferenceIsCurrent(t *testing.T) {
	text := reference(httpapi.New(nil, nil).Document())
	file := filepath.Join("..", "..", "docs", "reference", "http-api.md")
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, _ := os.ReadFile(file); string(have) != text {
		t.Errorf("%s is not what the API serves: go test ./internal/httpapi -run TestReferenceIsCurrent -update", file)
	}
}

// staysOut says what ctl does and the API does not.
const staysOut = `
## What stays with ctl

| ctl | why |
| --- | --- |
| ` + "`seed import`, `export`, `capture`, `login`, `rotate-keys`" + ` | secrets go in or out; ctl seals them, and nobody else's program holds them |
| ` + "`host exec`, `provision`, `import`, `export`" + ` | they act on a host beside sessions, or read files of the person's machine. ` + "`POST /v1/hosts/{name}`" + ` adds a host whose keys are known |
| ` + "`approval message`" + `, decisions with a key of one's own | the key stays on the machine of the person who signs; the field ` + "`signature`" + ` of a decision takes what was signed there |
| ` + "`snapshot check`, `prune`" + ` | they look after the whole store; workers do that by themselves |
| ` + "`batch check`" + ` | a start tells all mistakes before it begins anything |
| ` + "`session close`" + ` of a group, ` + "`transcript`" + ` as Markdown or a page | lists, closes and entries are there |
| ` + "`access`, `policy`, `token`, `login`, `notify`, `cluster`, `recover`, `up`, `down`, `doctor`" + ` | they are about who may do what, and about the stack itself, and not about its work |

Secret answers are sealed by a worker: ` + "`POST /v1/sessions/{id}/requests/{digest}/answers`" + ` takes them, and answers with ` + "`answers_blob`" + ` of a decision.
`

// reference is the page for people.
func reference(doc *huma.OpenAPI) string {
	var b strings.Builder
	b.WriteString("# The HTTP API\n\nMade from the OpenAPI document that workers serve at `/openapi.json` . That document also has the fields of each answer, which are those of [ctl's JSON](ctl.md). " +
		"[Use the HTTP API from a program](../how-to/use-the-http-api.md) shows requests.\n\n" +
		"Each `POST` takes the header `Idempotency-Key`. Each list takes `limit` and `cursor`, and has `items` and, if there are more, `cursor`. Each error is a problem (RFC 9457) with `kind`, `detail` and `hint`.\n" + staysOut)
	var paths []string
	for path := range doc.Paths {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	for _, path := range paths {
		for _, of := range []struct {
			method string
			op     *huma.Operation
		}{{"GET", doc.Paths[path].Get}, {"POST", doc.Paths[path].Post}, {"PUT", doc.Paths[path].Put}, {"DELETE", doc.Paths[path].Delete}} {
			if of.op == nil {
				continue
			}
			fmt.Fprintf(&b, "\n## %s %s\n\n%s. %s\n", of.method, path, of.op.Summary, of.op.Description)
			for i, p := range of.op.Parameters {
				if i == 0 {
					b.WriteString("\n| parameter | in | type | |\n| --- | --- | --- | --- |\n")
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Name, p.In, kindOf(p.Schema), cell(p.Description))
			}
			if body := of.op.RequestBody; body != nil {
				for kind, media := range body.Content {
					if kind == "application/json" {
						b.WriteString(table("field of the request", schemaOf(doc, media.Schema)))
					} else {
						fmt.Fprintf(&b, "\nThe body is a file, `%s`.\n", kind)
					}
				}
			}
			for _, status := range []string{"200", "201", "202", "206"} {
				r := of.op.Responses[status]
				if r == nil {
					continue
				}
				for kind, media := range r.Content {
					fmt.Fprintf(&b, "\nStatus %s, `%s`: %s\n", status, kind, answerOf(media.Schema))
				}
			}
		}
	}
	return b.String()
}

func schemaOf(doc *huma.OpenAPI, s *huma.Schema) *huma.Schema {
	if s.Ref != "" {
		return doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	return s
}

func table(title string, s *huma.Schema) string {
	var names []string
	for name := range s.Properties {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "\n| %s | type | |\n| --- | --- | --- |\n", title)
	for _, name := range names {
		p, must := s.Properties[name], ""
		if slices.Contains(s.Required, name) {
			must = "; required"
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", name, kindOf(p), must, cell(p.Description))
	}
	return b.String()
}

func answerOf(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		return "the schema `" + last(s.Ref) + "`"
	case s.Description != "":
		return s.Description
	}
	return kindOf(s)
}

func last(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }

func kindOf(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		return last(s.Ref)
	case len(s.Enum) > 0:
		var words []string
		for _, w := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", w))
		}
		return strings.Join(words, ", ")
	case s.Type == "array" && s.Items != nil:
		return "list of " + kindOf(s.Items)
	case s.Type == "":
		return "any"
	}
	return s.Type
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }

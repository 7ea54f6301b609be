package teamtool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

// doubling returns a schema each of whose levels applies the next one twice: a check that
// follows its references makes 2^levels steps.
func doubling(levels int) string {
	var defs []string
	for i := range levels {
		defs = append(defs, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s,"a%d":{}}}`, strings.Join(defs, ","), levels)
}

func nested(levels int, inner string) string {
	return strings.Repeat(`{"properties":{"a":`, levels) + inner + strings.Repeat(`}}`, levels)
}

func listed(n int, one string) string {
	return `{"items":{"allOf":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}}`
}

func TestASchemaWhoseCheckMightNotEndIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ schema, says string }{
		"doubled levels":        {doubling(200), "references are not taken"},
		"a reference":           {`{"properties":{"a":{"$ref":"#"}}}`, `at "/properties/a/$ref": references are not taken`},
		"a dynamic one":         {`{"items":{"$dynamicRef":"#a"}}`, "references are not taken"},
		"a recursive one":       {`{"$schema":"https://json-schema.org/draft/2019-09/schema","not":{"$recursiveRef":"#"}}`, "references are not taken"},
		"one in a definition":   {`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`, `at "/$defs/a/anyOf/0/$ref"`},
		"one in old ones":       {`{"definitions":{"a":{"$ref":"#"}}}`, "references are not taken"},
		"one beside the known":  {`{"x-more":[{"$ref":"#"}]}`, "references are not taken"},
		"one under a map":       {`{"properties":{"properties":{"properties":{"b":{"$ref":"#"}}}}}`, "references are not taken"},
		"one in dependencies":   {`{"dependencies":{"a":{"$ref":"#"}}}`, "references are not taken"},
		"its own dialect":       {`{"$id":"https://x.example/a","$schema":"https://x.example/a"}`, "not a dialect"},
		"a dialect of its own":  {`{"$id":"https://json-schema.org/a","$schema":"https://json-schema.org/a"}`, "json-schema.org/a"},
		"too deep":              {nested(maxNested+1, "{}"), "nests too deep"},
		"lists too deep":        {`{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "nests too deep"},
		"too many":              {listed(maxParts, "{}"), "too large"},
		"too many, in booleans": {listed(maxParts, "true"), "too large"},
		"too many in enum":      {`{"enum":[` + strings.Repeat("1,", maxParts) + `2]}`, "too large"},
		"too often unique":      {listed(16, `{"uniqueItems":true}`), "too large"},
		"a long pattern":        {`{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, "the pattern has"},
		"a large pattern":       {`{"pattern":"(?:` + strings.Repeat("a", 50) + `){1000}"}`, "patterns are too large"},
		"large names":           {`{"patternProperties":{"(?:` + strings.Repeat("a", 50) + `){1000}":true}}`, "patterns are too large"},
		"many patterns":         {listed(20, `{"pattern":"a{1000}"}`), "patterns are too large"},
		"patterns of the model": {listed(11, `{"format":"regex"}`), "patterns are too large"},
		"a broken pattern":      {`{"pattern":"("}`, "pattern"},
		"a huge number":         {`{"multipleOf":1e-999999}`, "exponent beyond"},
	} {
		_, _, err := compile(json.RawMessage(c.schema))
		if err == nil || !strings.Contains(err.Error(), c.says) || len(err.Error()) > 600 {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err := CheckArgs(protocol.TeamTool{Schema: json.RawMessage(c.schema)}, json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), "own schema cannot be used") {
			t.Errorf("%s, of a session that has it: %v", name, err)
		}
	}
	for name, schema := range map[string]string{
		"a property of that name":    `{"properties":{"$ref":{"type":"string"}}}`,
		"values that look like them": `{"const":{"$ref":"#"},"default":{"$ref":"#"},"examples":[{"$ref":"#"}],"enum":[{"$ref":"#"}]}`,
		"a known dialect":            `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}}}`,
		"as deep as may be":          nested(maxNested-1, "{}"),
		"as many as may be":          listed(maxParts-2, "{}"),
		"dependencies":               `{"dependentRequired":{"a":["b"]},"dependencies":{"a":["b"]}}`,
	} {
		if _, _, err := compile(json.RawMessage(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArgumentsThatTakeLongToCheckAreRefused(t *testing.T) {
	list := func(n int, one string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]"
	}
	most := maxSteps/(maxParts) - 2
	for name, c := range map[string]struct{ schema, args, says string }{
		"too long":                  {`{}`, `"` + strings.Repeat("a", MaxArgs) + `"`, "at most 8192"},
		"too many values":           {listed(maxParts-2, "{}"), list(most+10, "0"), "values"},
		"many with a small schema":  {listed(10, "{}"), list(4000, "0"), ""},
		"the most, all right":       {listed(maxParts-2, `{}`), list(most, "0"), ""},
		"the most, all wrong":       {listed(maxParts-2, `{"type":"string"}`), list(most, "0"), "got number, want string"},
		"a number beyond computing": {`{"minimum":0}`, "1e1000001", "exponent beyond"},
		"a slow one":                {listed(100, `{"multipleOf":3}`), list(700, "1e999999"), "exponent beyond"},
		"one beyond counting":       {`{"items":{"minimum":0}}`, "[-1E-99999999999999999999]", "exponent beyond"},
		"large ones":                {`{"items":{"minimum":0,"multipleOf":1e-300}}`, list(700, "1e400"), ""},
		"unique ones":               {listed(10, `{"uniqueItems":true}`), "[" + list(300, `[null,0.1]`) + "]", "values"},
		"a wrong one, told in full": {`{"enum":["` + strings.Repeat("x", 9000) + `"]}`, `1`, "cut at 2048"},
	} {
		err := CheckArgs(protocol.TeamTool{Schema: json.RawMessage(c.schema)}, json.RawMessage(c.args))
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || len(err.Error()) > maxWhy+100) {
			t.Errorf("%s: %.300v, want %q", name, err, c.says)
		}
	}
}

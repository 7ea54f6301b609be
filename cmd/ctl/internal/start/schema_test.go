package start

import (
	"strings"
	"testing"
)

// A schema that no provider accepts is refused before anything starts.
func TestASchemaThatIsNoneIsRefusedAtOnce(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"objekt"}`: "at /type",
		`{"type":"object","properties":{"ports":{"type":"array","items":{"type":"inteher"}}}}`: "at /properties/ports/items/type",
		`{"type":"object","required":"ports"}`:                                                 "at /required",
		`{"$ref":"https://example.org/other.json"}`:                                            "$defs",
		`{"$ref":"#/$defs/none"}`:                                                              "none",
		`{"type":"object",}`:                                                                   "invalid character",
	} {
		if err := checkOutputSchema([]byte(schema)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", schema, err, want)
		}
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"id":{"type":"string","pattern":"^(?!x)\\d+$"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"next":{"$ref":"#/$defs/next"}},"$defs":{"next":{"type":["integer","null"]}}}`,
		`{}`,
	} {
		if err := checkOutputSchema([]byte(schema)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// A turn with an output schema ends with JSON, its last message. codex hands
// the schema to the provider, which enforces it; nobody here does.

// MaxSchema bounds an output schema, in bytes.
const MaxSchema = 64 << 10

// CheckSchema says why this is no schema that codex could take; what is in it is
// between the provider and whoever wrote it.
func CheckSchema(schema []byte) error {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal(schema, &object); {
	case len(schema) > MaxSchema:
		return fmt.Errorf("the output schema has %d bytes, at most %d", len(schema), MaxSchema)
	case err != nil || object == nil:
		return errors.New("the output schema is not a JSON object")
	}
	return nil
}

// ParseOutput reads the JSON that a turn with an output schema ended with.
func ParseOutput(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(strings.TrimSpace(text))); err != nil {
		return nil, fmt.Errorf("the final message is not JSON: %w", err)
	}
	return b.Bytes(), nil
}

// structured says whether message number n of this pump's has an output schema.
func (m *machine) structured(n int) bool {
	for _, s := range m.sends {
		if s.Kind == SendTurn && s.Turn == n && (len(s.Schema) > 0 || s.SchemaBlob != "") {
			return true
		}
	}
	return false
}

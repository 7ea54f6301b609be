package conversation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/internal/protocol"
)

// The provider enforces an output schema; this package does not.

// CheckSchema refuses what codex could not take. It does not check the schema's content.
func CheckSchema(schema []byte) error {
	var object map[string]json.RawMessage
	switch err := json.Unmarshal(schema, &object); {
	case len(schema) > protocol.MaxSchema:
		return fmt.Errorf("the output schema has %d bytes, at most %d", len(schema), protocol.MaxSchema)
	case err != nil || object == nil:
		return errors.New("the output schema is not a JSON object")
	}
	return nil
}

// ParseOutput reads the final JSON of a turn with a schema.
func ParseOutput(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(strings.TrimSpace(text))); err != nil {
		return nil, fmt.Errorf("the final message is not JSON: %w", err)
	}
	return b.Bytes(), nil
}

func (d *delivery) structured(n int) bool {
	for _, s := range d.sends {
		if s.Kind == SendTurn && s.Turn == n && (len(s.Schema) > 0 || s.SchemaBlob != "") {
			return true
		}
	}
	return false
}

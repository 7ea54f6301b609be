package kit

import (
	"bytes"
	"encoding/json"
	"io"

	"fairlead.dev/fairlead/internal/protocol"
)

// Decode reads one JSON object and refuses unknown fields. Empty input is the empty object.
func Decode[T any](raw []byte) (T, error) {
	var v T
	if len(raw) == 0 {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	//workflowcheck:ignore // JSON is a pure function
	if err := d.Decode(&v); err != nil {
		return v, Refuse(protocol.RefusedBadInput, "cannot decode the message as JSON: %.300v", err)
	}
	//workflowcheck:ignore // as above
	if _, err := d.Token(); err != io.EOF {
		return v, Refuse(protocol.RefusedBadInput, "the message has more than one JSON value")
	}
	return v, nil
}

// Encoded returns how many bytes v takes as JSON, or 0 if it cannot be encoded.
func Encoded(v any) int {
	//workflowcheck:ignore // JSON is a pure function: map keys are sorted
	raw, err := json.Marshal(v)
	if err != nil {
		return 0
	}
	return len(raw)
}

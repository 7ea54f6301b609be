package kit

import (
	"bytes"
	"encoding/json"
	"strings"
)

const unknownField = "json: unknown field "

// Known decodes the JSON of a workflow's input. It returns the first field that this program
// does not know, or "". If there is such a field, a newer program wrote the input.
func Known(raw []byte, into any) (unknown string, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	//workflowcheck:ignore // JSON is a pure function
	err = d.Decode(into)
	if err == nil {
		return "", nil
	}
	name, ok := strings.CutPrefix(err.Error(), unknownField)
	if !ok {
		return "", err
	}
	//workflowcheck:ignore // as above
	return Cut(strings.Trim(name, `"`), MaxWord), json.Unmarshal(raw, into)
}

// Newer returns what Unknown of an input reports: the field that Known found, if any.
func Newer(field string) []string {
	if field == "" {
		return nil
	}
	return []string{"field " + field}
}

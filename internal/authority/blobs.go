package authority

import (
	"encoding/json"
	"slices"

	"fairlead.dev/fairlead/internal/owned"
)

// foreign returns a blob that a command names although another principal uploaded it, or
// nobody known did. It returns "" if there is none. Who can read Temporal sees the names of
// all blobs, so a name alone gives no right to what it stands for.
//
//workflowcheck:ignore // a pure function
func foreign(args []byte, principal string, lent []string) string {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return "" // command.Check has read it
	}
	return foreignIn(v, owned.Tag(principal), lent)
}

func foreignIn(v any, mine string, lent []string) string {
	switch v := v.(type) {
	case string:
		if tag, ok := owned.Uploader(v); ok && tag != mine && !slices.Contains(lent, v) {
			return v
		}
	case []any:
		for _, e := range v {
			if key := foreignIn(e, mine, lent); key != "" {
				return key
			}
		}
	case map[string]any:
		for _, e := range v {
			if key := foreignIn(e, mine, lent); key != "" {
				return key
			}
		}
	}
	return ""
}

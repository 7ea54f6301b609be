package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/searchattribute/sadefs"
)

type attributes map[string]enumspb.IndexedValueType

func ownAttributes() attributes {
	return attributes{
		"FairleadState":     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadHost":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadSeed":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadThread":    enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadWaits":     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadProgress":  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadApprovals": enumspb.INDEXED_VALUE_TYPE_INT,
		"FairleadTurn":      enumspb.INDEXED_VALUE_TYPE_INT,
		"FairleadLabels":    enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST,
		"FairleadName":      enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadOrigin":    enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"FairleadArchived":  enumspb.INDEXED_VALUE_TYPE_BOOL,
	}
}

var attributeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// add takes one NAME=TYPE, with a type in any case.
func (a attributes) add(s string) error {
	name, kind, ok := strings.Cut(s, "=")
	if !ok || !attributeName.MatchString(name) {
		return fmt.Errorf("%q is not NAME=TYPE with a name of letters, digits and _", s)
	}
	if sadefs.IsReserved(name) {
		return fmt.Errorf("%s is a name that Temporal keeps for itself: choose another", name)
	}
	t, err := attributeType(kind)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, taken := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes[name]; taken {
		return fmt.Errorf("%s is the name of a database column: choose another", name)
	}
	if had, ok := a[name]; ok && had != t {
		return fmt.Errorf("%s is asked for as %s and as %s: name one type", name, had, t)
	}
	a[name] = t
	return nil
}

func attributeType(s string) (enumspb.IndexedValueType, error) {
	var known []string
	for name, n := range enumspb.IndexedValueType_shorthandValue {
		if n == 0 {
			continue
		}
		if strings.EqualFold(name, s) {
			return enumspb.IndexedValueType(n), nil
		}
		known = append(known, name)
	}
	slices.Sort(known)
	return 0, fmt.Errorf("%q is no type of a search attribute: use one of %s", s, strings.Join(known, ", "))
}

// place gives every wanted attribute a free column of its type, and reports whether aliases
// (column to name) changed. Existing aliases stay, because rows depend on them.
func (a attributes) place(aliases map[string]string) (bool, error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	placed := make(map[string]string, len(aliases))
	for column, name := range aliases {
		placed[name] = column
	}
	changed := false
	for _, name := range sortedKeys(a) {
		want := a[name]
		if column, ok := placed[name]; ok {
			if columns[column] != want {
				return false, fmt.Errorf("search attribute %s is %s in this database and %s is asked for: "+
					"ask for %[2]s, or start with a new file", name, columns[column], want)
			}
			continue
		}
		column := freeColumn(columns, aliases, want)
		if column == "" {
			return false, fmt.Errorf("no room for search attribute %s: SQLite has a fixed number of %s columns "+
				"for each namespace and all are taken: ask for fewer", name, want)
		}
		aliases[column] = name
		changed = true
	}
	return changed, nil
}

func freeColumn(columns map[string]enumspb.IndexedValueType, aliases map[string]string, want enumspb.IndexedValueType) string {
	for _, column := range sortedKeys(columns) {
		if _, taken := aliases[column]; columns[column] == want && !taken {
			return column
		}
	}
	return ""
}

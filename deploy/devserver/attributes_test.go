package main

import (
	"maps"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
)

func TestPlaceKeepsTheColumnsOfOldAttributes(t *testing.T) {
	aliases := map[string]string{"Keyword07": "FairleadHost", "Keyword01": "Foreign"}
	changed, err := ownAttributes().place(aliases)
	if err != nil || !changed {
		t.Fatalf("changed %v, error %v", changed, err)
	}
	if aliases["Keyword07"] != "FairleadHost" || aliases["Keyword01"] != "Foreign" {
		t.Errorf("old attributes moved: %v", aliases)
	}
	names := make(map[string]int)
	for _, name := range aliases {
		names[name]++
	}
	for name := range ownAttributes() {
		if names[name] != 1 {
			t.Errorf("%s has %d columns in %v", name, names[name], aliases)
		}
	}
	before := maps.Clone(aliases)
	if changed, err := ownAttributes().place(aliases); changed || err != nil || !maps.Equal(before, aliases) {
		t.Errorf("a second time: changed %v, error %v, %v", changed, err, aliases)
	}
}

func TestPlaceRefusesAnotherType(t *testing.T) {
	_, err := ownAttributes().place(map[string]string{"Int01": "FairleadHost"})
	if err == nil || !strings.Contains(err.Error(), "FairleadHost is Int in this database and Keyword is asked for") {
		t.Errorf("error is %v", err)
	}
}

func TestPlaceSaysWhenColumnsRunOut(t *testing.T) {
	a := attributes{}
	for _, name := range strings.Fields("A B C D") {
		a[name] = enumspb.INDEXED_VALUE_TYPE_BOOL
	}
	_, err := a.place(map[string]string{})
	if err == nil || !strings.Contains(err.Error(), "no room for search attribute D") {
		t.Errorf("error is %v", err)
	}
}

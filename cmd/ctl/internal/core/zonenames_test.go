package core

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestATimeZoneThatIsOfferedIsOne(t *testing.T) {
	names := strings.Fields(timeZones)
	if len(names) < 400 {
		t.Fatalf("there are %d time zones", len(names))
	}
	for _, name := range names {
		if _, err := time.LoadLocation(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestANameThatThereIsNotIsAnsweredWithTheNearest(t *testing.T) {
	zones := strings.Fields(timeZones)
	for _, c := range []struct {
		word  string
		known []string
		want  string
	}{
		{"Europe/Berlim", zones, "[Europe/Berlin]"},
		{"europe/berlin", zones, "[Europe/Berlin]"},
		{"Tokyo", zones, "[Asia/Tokyo]"},
		{"Europe/Tokyo", zones, "[Asia/Tokyo]"},
		{"Mars/Base", zones, "[]"},
		{"defalt", []string{"default", "far"}, "[default]"},
		{"typo", []string{"default", "far"}, "[]"},
		{"moon", nil, "[]"},
	} {
		if got := fmt.Sprint(Meant(c.word, c.known)); got != c.want {
			t.Errorf("%s: meant is %s, want %s", c.word, got, c.want)
		}
	}
}

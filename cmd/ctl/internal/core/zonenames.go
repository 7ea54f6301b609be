package core

import (
	_ "embed"
	"path"
	"strings"

	"fairlead.dev/fairlead/internal/batchfile"
)

// timeZones lists the names in Go's copy of the IANA database. Go has no function that
// lists them.
//
//go:embed timezones.txt
var timeZones string

const mostMeant = 3

// Meant returns the known names most similar to a word: those whose last part is the word,
// or else those with the fewest different letters.
func Meant(word string, known []string) (out []string) {
	word = strings.ToLower(word)
	least := 1
	if len(word) > 4 {
		least = 2
	}
	for _, name := range known {
		far := batchfile.Distance(word, strings.ToLower(name))
		switch last := strings.ToLower(path.Base(name)); {
		case last == path.Base(word):
			far = 0
		case !strings.Contains(word, "/"):
			far = min(far, batchfile.Distance(word, last))
		}
		if far < least {
			least, out = far, nil
		}
		if far == least {
			out = append(out, name)
		}
	}
	return out[:min(len(out), mostMeant)]
}

// BadTimeZone refuses an unknown time zone.
func BadTimeZone(name string) error {
	e := Usage("--tz %q is not a time zone", name)
	if near := Meant(name, strings.Fields(timeZones)); len(near) > 0 {
		return e.Hinted("is %s meant?", strings.Join(near, " or "))
	}
	return e.Hinted("one of the IANA database, such as Europe/Berlin or UTC")
}

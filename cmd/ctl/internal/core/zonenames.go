package core

import (
	_ "embed"
	"strings"

	"fairlead.dev/fairlead/internal/batchfile"
)

// timeZones lists the names in Go's copy of the IANA database. Go has no function that
// lists them.
//
//go:embed timezones.txt
var timeZones string

// Meant returns the known names most similar to a word.
func Meant(word string, known []string) []string { return batchfile.Meant(word, known) }

// BadTimeZone refuses an unknown time zone.
func BadTimeZone(name string) error {
	e := Usage("--tz %q is not a time zone", name)
	if near := Meant(name, strings.Fields(timeZones)); len(near) > 0 {
		return e.Hinted("is %s meant?", strings.Join(near, " or "))
	}
	return e.Hinted("one of the IANA database, such as Europe/Berlin or UTC")
}

package apiflows

import (
	"regexp"
	"strings"
)

var flag = regexp.MustCompile(`--[a-z][a-z-]*`)

// fieldsIn writes the flags in a text as the fields of requests: --turn-timeout is turn_timeout.
func fieldsIn(text string) string {
	return flag.ReplaceAllStringFunc(text, func(f string) string { return strings.ReplaceAll(f[2:], "-", "_") })
}

package core

import (
	"cmp"
	"path/filepath"
	"regexp"
)

// OwnName is the name of the program in the repository and in all texts of the code.
const OwnName = "ctl"

// ReleaseName is the name of the program in a release. In a PATH, OwnName would say nothing.
const ReleaseName = "fairlead"

// NameOf returns the name of the program that was started as path: ReleaseName if the file has
// this name, otherwise OwnName.
func NameOf(path string) string {
	if filepath.Base(path) == ReleaseName {
		return ReleaseName
	}
	return OwnName
}

// Program returns the program's name.
func (a *App) Program() string { return cmp.Or(a.Name, OwnName) }

var (
	// command is a command of ctl in a message: at its beginning, or in backquotes.
	command = regexp.MustCompile("(^|`)" + OwnName + " ")
	// word is ctl as a word. It does not match in a path, in the name of a file or in a longer word.
	word = regexp.MustCompile(`(^|[^/.\w-])` + OwnName + `($|[^/\w-])`)
)

// Called returns a message whose commands have the program's name. Only commands are
// changed, because a message also quotes what others wrote.
func (a *App) Called(message string) string {
	if a.Program() == OwnName {
		return message
	}
	return command.ReplaceAllString(message, "${1}"+a.Program()+" ")
}

// Renamed returns a help text that calls the program by its name.
func (a *App) Renamed(help string) string {
	if a.Program() == OwnName {
		return help
	}
	return word.ReplaceAllString(help, "${1}"+a.Program()+"${2}")
}

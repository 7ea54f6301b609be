// Package fairlead holds the tests of the repository as a whole. The programs
// are in cmd; docs/contributing.md says where to look for the rest.
package fairlead

// Package fairlead holds the tests of the repository as a whole. The programs
// are in cmd; README.md says where to look for the rest.
package fairlead

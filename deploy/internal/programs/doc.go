// Package programs compiles the programs of a release for a platform.
//
// The same commit, the same version of Go and the same version text give the same bytes on
// every machine: no path, no time and no state of the repository is compiled in, and no C
// compiler is used. So the programs for Linux are static: they need no library of the system
// that they run on.
package programs

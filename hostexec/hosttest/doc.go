// Package hosttest runs real sshds for tests, demos and benchmarks, and
// contains the conformance suite for every hostexec.Host.
package hosttest

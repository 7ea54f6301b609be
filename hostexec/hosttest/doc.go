// Package hosttest brings up real sshds for tests, demos and benchmarks, and
// holds the conformance suite that every hostexec.Host passes.
package hosttest

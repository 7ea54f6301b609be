// Package config reads the config file of the worker and of ctl.
//
// The file is YAML; docs/reference/configuration.md lists all keys with their
// defaults. Unknown keys and invalid values are mistakes. Load reports every mistake
// of a file at once, each with its line. CheckFiles, which the worker calls at start,
// checks what a worker needs and what depends on the machine, such as whether the
// identity file exists and others cannot read it.
//
// Temporal's own environment variables (TEMPORAL_*) and TOML profiles override the
// section temporal.
package config

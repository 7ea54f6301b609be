// Package config reads the config file of the worker and of ctl.
//
// The file is YAML; docs/reference/configuration.md lists all keys with their defaults.
// Unknown keys and invalid values are mistakes. Load reports every mistake of a file at
// once, each with its line. The worker calls CheckFiles at start. It checks the settings
// that a worker needs, and properties of the machine, for example that the identity file
// exists and that others cannot read it.
//
// Temporal's own environment variables (TEMPORAL_*) and TOML profiles override the
// section temporal.
package config

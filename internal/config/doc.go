// Package config reads the config file of the worker and of ctl, which
// docs/reference/configuration.md describes. Load reports every mistake of a file at once,
// each with its line. A worker also calls CheckFiles.
//
// Temporal's own environment variables (TEMPORAL_*) and TOML profiles override the section
// temporal.
package config

// Package compose has a compose file: two workers, the API, Temporal and PostgreSQL on one
// machine. docs/how-to/install-on-machines.md says how it is used.
//
// The tests check it by the schema of the Compose Specification (testdata/compose-spec.json, of
// compose-go v2.16.2) and read its configs as a worker does.
package compose

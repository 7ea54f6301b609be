// Package inquiry has what activities ask of workflows: a seed for its newest generation, a
// session for what it goes on from, a pool for what was left on its hosts. The JSON of its
// messages is a contract with workflows of all versions.
package inquiry

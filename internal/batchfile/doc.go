// Package batchfile reads the file of a batch: many sessions of one kind, as
// YAML or as JSON lines. It knows nothing of sessions; what a key of an item
// means is told by whoever reads the file (Options.Flags, Options.Check).
//
//	id: nightly                  # of the batch; ctl's --id wins
//	window: 20                   # sessions at a time; 20 if nothing is said
//	stop_after: 5                # failures after which nothing more is started; 0 is never
//	retry:                       # nothing is tried again unless this is said
//	  attempts: 3                # tries of an item, the first among them
//	  on: [unreachable, network] # kinds of failures; left out: those of hosts and providers
//	  wait: 30s                  # before the second try; twice as long before each further one
//	  after_effects: false       # also where codex may have begun a command or a change
//	prompt: |                    # a template (text/template) with the item's variables
//	  Upgrade {{.module}} to {{.version}}.
//	vars: {version: v2}          # of all items
//	defaults:                    # any flag of a session by its name
//	  seed: team
//	  label: [os=linux, mem>=32]
//	  budget: tokens=200000
//	items:                       # in the order in which they begin
//	  - id: api
//	    vars: {module: example.com/api}
//	    label: [os=linux]        # in place of the default's
//	  - web                      # short for vars {item: web}
//
// In place of items there may be a matrix, whose values are combined, the last
// one changing fastest:
//
//	matrix: {repo: [api, web], go: ["1.25", "1.26"]}
//
// Groups are for the eye: labels: {k: v} says label: [k=v], workspace: {repo: …}
// says repo: …, and both stand in defaults and in items.
//
// As JSON lines every line is an item; a first line {"batch": {…}} takes what
// stands beside items in YAML.
//
// Nothing of a file counts that has a mistake. All of them are told at once
// (*[Error]), each with its line and column. Every prompt is rendered here, so
// that a variable that an item lacks is found before anything starts.
package batchfile

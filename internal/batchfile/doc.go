// Package batchfile reads the file of a batch (many sessions of one kind), as YAML or as
// JSON lines. The caller defines the flags of an item (Options.Flags, Options.Check).
//
//	id: nightly                  # id of the batch; ctl's --id overrides it
//	window: 20                   # sessions at a time; default 20
//	stop_after: 5                # failures after which no more sessions start; 0: never stop
//	retry:                       # default: no retries
//	  attempts: 3                # tries of an item, including the first
//	  on: [unreachable, network] # kinds of failures; default: those of hosts and providers
//	  wait: 30s                  # before the second try; doubled before each further one
//	  after_effects: false       # true: retry even if codex may have begun a command or a change
//	prompt: |                    # text/template with the item's variables
//	  Upgrade {{.module}} to {{.version}}.
//	vars: {version: v2}          # variables of all items
//	defaults:                    # any flag of a session by its name
//	  seed: team
//	  label: [os=linux, mem>=32]
//	items:                       # started in this order
//	  - id: api
//	    vars: {module: example.com/api}
//	    label: [os=linux]        # replaces the default's
//	  - web                      # short for vars {item: web}
//
// Instead of items there may be a matrix, whose values are combined. The last key changes
// fastest:
//
//	matrix: {repo: [api, web], go: ["1.25", "1.26"]}
//
// Flags can be grouped: labels: {k: v} means label: [k=v], and workspace: {repo: …} means
// repo: ….
//
// In JSON lines every line is an item. If the first line is {"batch": {…}}, it has the keys
// that stand beside items in YAML.
//
// A file with a mistake is refused as a whole, with all its mistakes (*[Error]). Every
// prompt is rendered while reading, so a missing variable is found before anything starts.
package batchfile

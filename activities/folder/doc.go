// Package folder knows a session's folder on a host: its layout, its mark, and its
// processes. It keeps no state.
//
//	<root>/sessions/<id>/            hidden from commands, but for box
//	    generation, prepared, proc/  for workers
//	    secret/                      auth.json and config.toml
//	    box/codex-home/              CODEX_HOME, with links to the files in secret
//	    box/work, box/tmp, box/inputs
//	    codex-home, work, tmp, inputs  links into box, for workers of an earlier release
//
// Earlier releases made codex-home, work, tmp and inputs themselves, and neither box nor
// secret (see Folder.Layout).
package folder

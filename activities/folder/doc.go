// Package folder knows a session's folders on a host: their layout, their mark, and their
// processes. It keeps no state.
//
//	<root>/sessions/<id>/            hidden from the commands of all sessions
//	    generation, prepared, proc/  for workers
//	    room                         a link to the session's room
//	    codex-home, work, …          links into it, for workers of an earlier release
//	<root>/rooms/3/0/7/1/holder      names the session that holds this place
//	<root>/rooms/3/0/7/1/room/       its room: codex-home, work, tmp and inputs
//
// Earlier releases made codex-home, work, tmp and inputs in the first folder, and no room (see
// Folder.Layout).
package folder

// Package folder knows a session's folder on a host: its layout, its mark, and its
// processes. It keeps no state.
package folder

// Package shellwords reads the commands that codex wants to run, as every common shell
// would. In doubt it says that it cannot: a policy decides by these words, and people
// approve what they are shown.
package shellwords

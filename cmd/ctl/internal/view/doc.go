// Package view shows a conversation at a terminal while it happens: what is done is printed,
// with the agent's messages as Markdown; what goes on is in a pane below it, with a line that
// says the state, the time and the tokens. Where there is no such terminal, package show
// prints lines instead.
package view

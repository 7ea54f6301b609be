// Package view shows a conversation at a terminal while it happens. It prints what is finished,
// with the agent's messages as Markdown. Below that, a pane shows what is in progress, and its
// last line shows the state, the time and the tokens. Where there is no such terminal, package
// show prints lines instead.
package view

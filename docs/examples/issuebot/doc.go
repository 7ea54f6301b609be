// Command issuebot is an example of a program against the HTTP API: an issue on GitHub that gets the
// label codex starts a session, and the result comes back as a comment.
//
// GitHub sends the event to POST /webhook. The program checks its signature (X-Hub-Signature-256), and
// writes the event down before it answers. It knows an event by the SHA-256 of its body, which the
// signature covers. The header X-GitHub-Delivery is not covered, so it is for logs alone. The
// Idempotency-Key of the session is made from that sum, and the request is written down too. So an event
// that comes again, or a program that dies, starts no second session.
//
// Each comment has a mark that nobody can guess. Before the program posts a comment, it looks for the
// mark among the comments that are there. If the answer to a comment was lost, it waits before it looks,
// because the comment may appear late. So it posts each once even if it dies in between.
//
// It needs the standard library alone. See docs/how-to/answer-github-issues.md.
package main

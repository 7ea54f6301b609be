// Package inbox is the full-screen list of approvals of `ctl approval watch`.
//
// A [Model] knows no terminal, no session and no server: it gets messages and gives a view.
// What it shows and whom it asks is an [Item] and a [Source], which package approval makes.
//
// A decision is about the card that the person saw. The cursor stays on its card, whatever
// comes or goes around it. No key decides a card that was decided, has expired or is void.
// While the server cannot be reached, no key decides any card. What does not fit on the screen
// must be opened before it can be accepted.
package inbox

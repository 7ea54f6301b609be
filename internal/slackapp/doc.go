// Package slackapp lets people decide approvals by buttons in Slack.
//
// # Parts
//
// An [App] keeps one Socket Mode connection for each app of the notification rules. Slack gives
// each click to one connection of the app, so any worker can handle any click.
//
// A link says which principal an account of Slack belongs to. A person who has proved who they are
// to Fairlead gets a code ([App.NewCode]), and sends it to the app from their account. So nobody
// can link another person's account to their own principal, or their own account to another
// person's principal, unless that person gives them the code.
//
// A [notify.Card] is a message with buttons. The App takes the buttons away as soon as the approval
// waits no more, whoever decided it. It hears of changes of the sessions that its worker runs, and
// lists those that wait now and then. A session that looks as before is hardly ever asked.
//
// All of these are in the store, so that they outlive a worker and count at every worker:
//
//	slack/codes/<digest>  a code that was given, until its end
//	slack/asked/<digest of the principal>/<digest>  the same, for the bound on codes
//	slack/used/<digest>   a code that was used
//	slack/links/<digest>  the principal of an account
//	slack/of/<digest of the principal>/<digest>  the same, for lists
//	slack/cards/<digest>  a message with buttons
//
// # Guarantees
//
//   - Only the ids of the account and of its workspace say who clicked. They come from Slack over
//     the app's own connection. Names are not looked at. Where the rules name another server with
//     api, the account is one of that server only.
//   - A click becomes a request to the worker's own HTTP API, made for the linked principal. The
//     API judges it at that moment as it judges a click in the console, and the worker signs the
//     decision for the person. Groups that the issuer of a login names do not count: nobody logs in
//     here.
//   - A button's value has the digest of what the card shows. The decision counts for that only.
//   - The same click twice, at whatever workers, is one decision: it has one idempotency key.
package slackapp

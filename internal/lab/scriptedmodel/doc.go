// Package scriptedmodel stands in for OpenAI's Responses API, so that the real
// codex can run with no network and no account, and a test or a demo decides
// what the model does.
//
// A Server answers POST /v1/responses with a stream of events. A Script decides
// the answer from the content of the conversation, never from the order in
// which requests arrive, so any number of conversations may run at once. All
// state of a conversation is in the request, so a restarted server continues
// where the old one was.
//
// # Script
//
// A script is YAML (JSON is YAML too). The first rule whose `when` holds for
// the conversation's latest user message answers. Its steps are the model's
// consecutive responses to that message; each but the last calls tools:
//
//	pace: 20ms                      # pause after each delta of text; default 0
//	rules:
//	  - name: plan                  # for error messages; default its number
//	    when:
//	      contains: short plan      # a text, or a list, all of which it contains
//	      matches: 'into (\S+)'     # regular expression; see .Match
//	      exact: …                  # the whole message
//	      turn: 1                   # the number of the user message
//	      model: gpt-5.5            # the model that was asked for
//	    steps:
//	      - say: I shall look first.          # a step of one action, or
//	      - - think: The user wants a file.   # a list of them, in order
//	        - say: Working on it.
//	        - shell: ls -l
//	        - shell: {cmd: make, escalate: true, justification: May I build?}
//	      - patch: |
//	          *** Begin Patch
//	          *** Add File: {{ index .Match 1 }}
//	          +hello
//	          *** End Patch
//	      - say: Done, make said {{ .LastToolOutput }}
//	  - when: {contains: hello}
//	    reply: You said {{ .LastUser }}       # short for one step that says it
//
// All conditions of a `when` must hold; an empty one always does. User
// messages are what people typed. The context that codex sends as user messages
// (texts that are one whole <tag>…</tag>, and the contents of AGENTS.md) does
// not count.
//
// The actions:
//
//	say:    text | {text, pace}      a message, streamed word by word
//	think:  text | {text, pace}      a reasoning summary, streamed likewise
//	shell:  cmd | {cmd, escalate, justification, workdir, prefix_rule, login,
//	        tty, yield, background}
//	patch:  text                     in the format of codex's apply_patch
//	call:   {name, namespace, arguments | input}   any other tool
//	wait:   gate | {gate, after}     hold the stream until the gate is released
//	pause:  200ms
//	fail:   kind | {kind, times, after, code, message, resets_in}
//	usage:  {input, cached, output, reasoning}     tokens to report
//	served: model    the model that answers in place of the one that was asked for
//	limits: {used, minutes, resets_in}     what the account of the login has used of a window
//
// Consecutive tool actions of one step are called together, in whichever of
// codex's two dialects the request offers: function calls (exec_command,
// apply_patch), or a single program for code mode's exec. If a command outlives
// its yield time, the server polls it, as a good model does, before the next
// step; with background it does not.
//
// With `after: N`, a wait or failure happens as soon as the response has
// streamed N deltas, in the middle of a message; if it has fewer, at its end.
//
// A failure happens `times` times (default 1) for each conversation, user
// message and step; then the step ignores it. `times: -1` means always. The
// kinds:
//
//	unauthorized 401         server_error 500       failed (response.failed with code)
//	forbidden 403            overloaded 503         incomplete (response.incomplete)
//	bad_request 400          rate_limited 429       cut (connection lost)
//	context_length 400       usage_limit 429        stall (silence until the client goes)
//	not_found 404            drop (connection closed with no answer at all)
//
// Those with a status, and drop, must come before anything the step streams.
//
// # Templates
//
// Every text above may use text/template with the fields of View: .LastUser,
// .UserMessages, .FirstUser, .Turn, .Match, .LastToolOutput, .Results, .Model,
// .Conversation, .Cwd; and the functions sh (quotes a word for a shell), trim,
// join (list, separator) and repeat (text, count).
//
// # Surprises
//
// A request that no rule answers, a step that the rule does not have, a tool
// that the request does not offer, or an unknown path is answered with status
// 400 and a sentence, and recorded for Server.Surprises. A test can fail on it;
// one that uses Serve does.
//
// # Control over HTTP
//
//	GET  /healthz            {"ok":true}
//	PUT  /script             a new script; 400 with all its problems leaves the old one
//	GET  /requests           what was recorded, ?conversation=ID for one
//	GET  /surprises
//	GET  /waiting            the responses that wait at gates
//	POST /release/NAME       opens a gate for current and future waiters
//	POST /hold/NAME          closes it again
//	POST /reset              clears requests, surprises, failure counts, gates
//
// The server has no access control: it is for loopback.
package scriptedmodel

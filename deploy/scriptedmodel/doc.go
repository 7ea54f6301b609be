// Package scriptedmodel stands in for OpenAI's Responses API, so that the real
// codex can be run with no network and no account, and so that a test or a
// demo says what the model does.
//
// A Server answers POST /v1/responses with the stream of events that codex
// reads. What it answers is decided by a Script, from what is asked in each
// conversation, never from the order in which requests arrive: any number of
// conversations may go on at once. All that the server needs to know about a
// conversation is in the request, so a server that was restarted goes on where
// the old one was.
//
// # Script
//
// A script is YAML (JSON is YAML too). The first rule whose `when` holds for
// the conversation's latest user message answers; its steps are the model's
// responses to that message, one after another, each but the last asking for
// tools:
//
//	pace: 20ms                      # pause after each delta of text; default 0
//	rules:
//	  - name: plan                  # for error messages; default its number
//	    when:
//	      contains: short plan      # a text, or a list of which all must be in
//	      matches: 'into (\S+)'     # regular expression; see .Match
//	      exact: …                  # the whole message
//	      turn: 1                   # it is the conversation's n-th user message
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
// messages are what people typed: the context that codex puts into user
// messages of its own (texts that are one whole <tag>…</tag>, and the contents
// of AGENTS.md) does not count.
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
//
// Tool actions of one step that follow each other are asked for at once, in
// whichever of codex's two dialects the request offers: function calls
// (exec_command, apply_patch), or a single program for code mode's exec. A
// command that outlives its yield time is waited for, as a good model does,
// and only then the next step comes; background leaves it alone.
//
// With `after: N`, a wait or failure happens as soon as the response has
// streamed N deltas, in the middle of a message; if it has fewer, at its end.
//
// A failure happens `times` times (default 1) for each conversation, user
// message and step, and then the step goes on as if it were not there;
// `times: -1` is for ever. The kinds:
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
// that the request does not offer, an unknown path: each is answered with
// status 400 and a sentence, and kept for Server.Surprises, so that a test can
// fail on it. Serve does that by itself.
//
// # Control over HTTP
//
//	GET  /healthz            {"ok":true}
//	PUT  /script             a new script; 400 with all its problems, and the old one stays
//	GET  /requests           what was recorded, ?conversation=ID for one
//	GET  /surprises
//	GET  /waiting            who waits at which gate
//	POST /release/NAME       opens a gate, for all who wait and all who come
//	POST /hold/NAME          closes it again
//	POST /reset              forgets requests, surprises, failures counted, gates
//
// The server has no access control: it is for loopback.
package scriptedmodel

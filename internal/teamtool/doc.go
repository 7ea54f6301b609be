// Package teamtool has what a worker and ctl need for the tools that teams give to
// sessions: it reads their file, checks schemas and arguments, and calls webhooks.
//
// A webhook gets a call as a POST that is signed as Standard Webhooks says
// (https://www.standardwebhooks.com). webhook-id is the same for every attempt at one call,
// whichever worker makes it, and so is the body. A receiver may get a call again while it
// still works on it. So one that remembers the ids that it has begun, with their answers,
// carries out each call once.
//
//	POST /fairlead/lookup
//	webhook-id: call_7f1c…
//	webhook-timestamp: 1796472000
//	webhook-signature: v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=
//	content-type: application/json
//
//	{"type":"tool.call","timestamp":"2026-12-05T12:00:00Z",
//	 "data":{"id":"call_7f1c…","session":"release-42","turn":3,"tool":"lookup","arguments":{"id":"ABC-1"}}}
//
// The status 200 to 299 carries the reply for the model: a text, or
// {"text": "…", "success": true} as application/json. 408, 425, 429 and 500 to 599, and a
// connection that breaks, mean that the call is tried again until its timeout. Any other
// status is a refusal, whose text goes to the model.
package teamtool

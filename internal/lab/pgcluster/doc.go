// Package pgcluster runs Temporal as a platform team has it, for rigs and tests: Debian's
// PostgreSQL, the server's plugin postgres12, several frontends behind one address, and settings
// as Temporal has them: worker commands are off, a namespace takes 10 queries a second, and no
// search attribute is registered.
//
// New starts PostgreSQL. Bare and Stage make folders for lab.Options.Repo: the Temporal server of
// a stack from such a folder keeps everything in a database of its own. The stack starts, stops
// and kills that server as it does any other one. The namespace of Bare lacks what an operator has
// to add. Stage copies the database of Bare, once `ctl cluster prepare` has prepared it, so that
// each stack begins anew.
package pgcluster

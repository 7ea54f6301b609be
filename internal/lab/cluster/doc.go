// Command cluster tries Fairlead on Temporal as a platform team has it: `make cluster`.
//
//	cluster [-sessions 6] [-outage 60s] [-times 30]
//
// PostgreSQL, two frontends, worker commands off, ten queries a second for a namespace, and no
// search attribute: see internal/lab/pgcluster. On it, one after another:
//
//   - what the namespace lacks is found and named by `ctl cluster check`, each with a command; a
//     worker refuses to start; `ctl cluster prepare` mends it;
//   - one session has a message, an approval, a steer, an interrupt, and a snapshot with which it
//     is parked and comes back; a batch and a schedule run;
//   - sessions run turns while the database is stopped for a time, wait for an approval, or have a
//     message behind their turn. Each message must be heard once and in order, by the model and
//     in the transcript, and each approved command must run once;
//   - times are measured, from the request of an interrupt, a steer and a decision until codex has
//     it, as its host shows. They are printed beside the goal. Slowness is no failure.
package main

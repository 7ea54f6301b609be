// Package toolcall has the workflow that has a team's worker carry out one call of a tool.
//
// A pump starts it. Its id is made of the call's id, which is the same for every attempt at a
// call, so Temporal runs it once, whichever worker asks for it and how often. It schedules one
// activity on the team's queue, with the call's id as the activity's id, and ends with how the
// activity ended. The session's history has nothing of it.
//
// The activity's argument and answer pass through this workflow as the team's worker reads and
// writes them: plain, or encrypted with the key of the queue. Fairlead's payload key covers
// everything else, which includes the workflow's own input and result. The workflow knows no
// keys, and any worker can run it.
//
// Whether a worker of the team took the call is told exactly. The activity's
// schedule-to-start timeout is as long as its schedule-to-close timeout, which counts from the
// first attempt. So the former ends only a call whose first attempt never began; of two
// timeouts of the same instant, Temporal takes schedule-to-start.
package toolcall

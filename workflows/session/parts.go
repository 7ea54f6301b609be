package session

import (
	"go.temporal.io/sdk/workflow"

	"fairlead.dev/fairlead/workflows/internal/admit"

	"fairlead.dev/fairlead/workflows/internal/kit"
)

// session is the workflow while it runs: the loop, the handlers of messages, and the change
// to the next run.
type session struct {
	*core
	turns     *turnsPart     // begins and ends turns: turns.go, endedby.go, interrupted.go, foreign.go, authretry.go
	messages  *messagesPart  // takes messages and interrupts, keeps the queue: messages.go, queue.go, delivery.go, turninput.go
	approvals *approvalsPart // keeps what codex asks for, takes decisions: approvals.go, decide.go, earlier.go, policy.go, policysigned.go, verdicts.go
	bounds    *boundsPart    // keeps budgets, waits for the end of limits: budget.go, overspent.go, limitwait.go
	choices   *choicesPart   // keeps the chosen model, effort and name: control.go
	snaps     *snapsPart     // takes snapshots: snapshotting.go
	process   *processPart   // starts codex, attaches pumps, handles its end: attached.go, process.go, progress.go, journal.go, stirred.go, watchdogs.go
	leases    *leasesPart    // asks for a slot and a seed, gives them back: leasing.go, seedgone.go, rollcall.go
	place     *placePart     // makes a host ready: prepare.go, workspace.go
	parking   *parkingPart   // parks the session, brings it back, archives it: park.go, drain.go, archive.go
	moving    *movingPart    // moves the session to another host: moving.go
	ending    *endingPart    // closes the session, tells of its end: ending.go, notify.go, ttl.go
	views     *viewsPart     // shows the session, changes nothing: view.go
	pushes    *pushesPart    // pushes the session's work: push.go
	audits    *auditPart     // keeps the audit record: audit.go
	follows   *followsPart   // starts sessions after turns: followups.go, rules.go
	children  *childrenPart  // starts sessions for the agent: children.go

	table []loopStep
	entry *admit.Door             // judges commands
	doors []door                  // signal channels, to be emptied before a rollover
	lease workflow.ReceiveChannel // of pools and seeds
	calls workflow.ReceiveChannel // of pools that ask what the session holds
	goes  workflow.ReceiveChannel // orders to leave a drained host
}

func assembled(c *core) *session {
	s := &session{core: c,
		turns: new(turnsPart), messages: new(messagesPart), approvals: new(approvalsPart), bounds: new(boundsPart), choices: new(choicesPart),
		snaps: new(snapsPart), process: new(processPart), leases: new(leasesPart), place: new(placePart), parking: new(parkingPart),
		moving: new(movingPart), ending: new(endingPart), views: new(viewsPart), pushes: new(pushesPart), audits: new(auditPart), follows: new(followsPart), children: new(childrenPart),
	}
	c.whole = s
	*s.turns = turnsPart{core: c, messages: s.messages, approvals: s.approvals, bounds: s.bounds, choices: s.choices, snaps: s.snaps,
		leases: s.leases, parking: s.parking, moving: s.moving, ending: s.ending, pushes: s.pushes, follows: s.follows}
	*s.messages = messagesPart{core: c, approvals: s.approvals, bounds: s.bounds, choices: s.choices, parking: s.parking}
	*s.approvals = approvalsPart{core: c, bounds: s.bounds, alarm: kit.NewAlarm(c.ctx, "an approval expires")}
	*s.bounds = boundsPart{core: c, turns: s.turns, messages: s.messages, approvals: s.approvals, views: s.views,
		wake: kit.NewWake(c.ctx, "a limit has ended")}
	*s.choices = choicesPart{core: c}
	*s.snaps = snapsPart{core: c, bounds: s.bounds, process: s.process, parking: s.parking, views: s.views, tick: kit.NewAlarm(c.ctx, "a snapshot is due")}
	*s.process = processPart{core: c, turns: s.turns, messages: s.messages, approvals: s.approvals, bounds: s.bounds, choices: s.choices, snaps: s.snaps,
		leases: s.leases, place: s.place, parking: s.parking, moving: s.moving, ending: s.ending, children: s.children}
	*s.leases = leasesPart{core: c, turns: s.turns, approvals: s.approvals, snaps: s.snaps, process: s.process,
		line: kit.NewWake(c.ctx, "ask for the seed again")}
	*s.place = placePart{core: c, approvals: s.approvals, snaps: s.snaps, process: s.process, leases: s.leases, moving: s.moving, follows: s.follows}
	*s.parking = parkingPart{core: c, turns: s.turns, bounds: s.bounds, snaps: s.snaps, process: s.process, leases: s.leases, place: s.place,
		moving: s.moving, views: s.views, pushes: s.pushes, sleep: kit.NewAlarm(c.ctx, "an idle session parks")}
	*s.moving = movingPart{core: c, turns: s.turns, messages: s.messages, bounds: s.bounds, snaps: s.snaps, process: s.process,
		leases: s.leases, parking: s.parking, ending: s.ending}
	*s.ending = endingPart{core: c, turns: s.turns, messages: s.messages, approvals: s.approvals, snaps: s.snaps, process: s.process,
		leases: s.leases, moving: s.moving}
	*s.views = viewsPart{core: c, messages: s.messages, approvals: s.approvals, bounds: s.bounds, choices: s.choices, snaps: s.snaps,
		leases: s.leases, parking: s.parking, ending: s.ending, pushes: s.pushes}
	*s.audits = auditPart{core: c, ending: s.ending, late: kit.NewAlarm(c.ctx, "audit records are due")}
	*s.follows = followsPart{core: c, snaps: s.snaps, leases: s.leases, children: s.children}
	*s.children = childrenPart{core: c, follows: s.follows, wake: kit.NewWake(c.ctx, "a wait for child sessions is over")}
	*s.pushes = pushesPart{core: c, turns: s.turns, process: s.process, parking: s.parking}
	return s
}

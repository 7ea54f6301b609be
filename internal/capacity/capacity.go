package capacity

import (
	"fmt"
	"math"
	"time"
)

// A Load is the work that workers must carry.
type Load struct {
	Hosts    int `json:"hosts"` // with sessions, at the same time
	Zones    int `json:"zones"`
	Outboxes int `json:"outboxes"` // zones with notifications
	Sessions int `json:"sessions"` // that are open
	Running  int `json:"running"`  // those of them in which codex works

	SessionsPerHour  float64 `json:"sessions_per_hour"` // that begin, and end
	TurnsPerHour     float64 `json:"turns_per_hour"`
	ApprovalsPerHour float64 `json:"approvals_per_hour"`
	CommandsPerHour  float64 `json:"commands_per_hour"` // `ctl host exec`
}

// Limits are those of one worker (limits in its config).
type Limits struct{ Pumps, Watches, Bulk, Commands, Short int }

// Heartbeats, in actions per second.
const (
	// A pump beats every 4 seconds (pumpBeat in activities/pumps), and the worker sends one at
	// most every 4 seconds (throttle in cmd/worker).
	perPump = 1.0 / 4
	// A watch beats three times in its heartbeat timeout (activities.Beats), which is 75
	// seconds (calmBeat in workflows/hostpool).
	perHost = 1.0 / 25
	// An outbox has a watch with a heartbeat timeout of 10 seconds (workflows/outbox).
	perOutbox = 1.0 / 4
)

// Actions of each occasion. They are counted in the recorded histories of v0.2
// (workflows/testdata/replay): turn-by-update, approval-accepted-by-update,
// accepted-for-the-session and pool-and-seed, and TestTheConstantsAreThoseOfRecordedHistories
// counts them again. To these come heartbeats: the first of each activity that reports how far
// it is reaches Temporal at once.
const (
	// A session: its start, 2 markers, 6 changes of attributes, the signal of its lease, its
	// close, and the activities PrepareSession, StartServer and CloseSession.
	perSession = 14
	// Its requests to the pool and to its seed, 2 signals each, and the seed's answer.
	perLease = 5
	// A turn: the message, RunPump, TakeSnapshot, 3 changes of attributes.
	perTurn = 6
	// An approval: the decision, RunPump, 2 changes of attributes, the timer of its expiry.
	perApproval = 5
	// A command: its workflow, and RunExec.
	perCommand = 2
	// A pool looks for ended holders every 5 minutes: FindEnded and a timer.
	perZone = 2.0 / 300

	beatsPerSession  = bulkPerSession / 4 // PrepareSession, CloseSession
	beatsPerTurn     = 2                  // RunPump, TakeSnapshot
	beatsPerApproval = 1                  // RunPump
	// While an activity goes on, its worker sends a heartbeat every 4 seconds (throttle in
	// cmd/worker).
	beatsPerCommand = perCommandTime / 4
)

// What one worker and one zone can do: figures of `make bench` on two cores, rows streams and
// pool. See docs/explanation/guarantees.md.
const (
	streamsPerWorker = 500
	grantsPerZone    = 39 // with SQLite; a database over a network gives fewer
)

// Seconds that activities take, for slots. They are short on a near host; the factor below
// makes room for slow ones.
const (
	bulkPerSession  = 20
	bulkPerTurn     = 5
	shortPerSession = 5
	perCommandTime  = 30
	// room is how many times the mean may be in use at a time.
	room = 3
)

// A Part is what one kind of work asks of Temporal.
type Part struct {
	What      string  `json:"what"`
	PerSecond float64 `json:"actions_per_second"`
}

// A Slots says how many slots of a class are in use at a time, in all workers.
type Slots struct {
	Class    string `json:"class"`
	Needed   int    `json:"needed"`
	Limit    int    `json:"limit"` // of one worker
	Workers  int    `json:"workers"`
	Estimate string `json:"estimate"` // how it was found
}

// An Estimate is what a load asks for.
type Estimate struct {
	Load             Load    `json:"load"`
	ActionsPerSecond float64 `json:"actions_per_second"`
	ActionsPerMonth  float64 `json:"actions_per_month"` // 30 days
	Parts            []Part  `json:"parts"`
	Slots            []Slots `json:"slots"`
	// Workers is how many carry the load, at least one in each zone; one more in a zone lets one
	// of its workers stop.
	Workers int `json:"workers"`
	// GrantsPerSecond is how many slots of hosts pools give in a second, and MostGrants how many
	// one zone was measured to give.
	GrantsPerSecond float64 `json:"grants_per_second"`
	MostGrants      float64 `json:"most_grants_per_second"`
}

// Check returns an error if a load is impossible.
func (l Load) Check() error {
	switch {
	case l.Hosts < 0 || l.Sessions < 0 || l.Running < 0 || l.Outboxes < 0 || l.SessionsPerHour < 0 || l.TurnsPerHour < 0 || l.ApprovalsPerHour < 0 || l.CommandsPerHour < 0:
		return fmt.Errorf("a number is negative")
	case l.Zones < 1:
		return fmt.Errorf("there is at least one zone")
	case l.Running > l.Sessions:
		return fmt.Errorf("%d running sessions are more than %d open ones", l.Running, l.Sessions)
	case l.Outboxes > l.Zones:
		return fmt.Errorf("%d zones with notifications are more than %d zones", l.Outboxes, l.Zones)
	}
	return nil
}

// Of estimates what a load asks for.
func Of(l Load, of Limits) Estimate {
	hour := func(n float64) float64 { return n / time.Hour.Seconds() }
	e := Estimate{Load: l, Workers: max(l.Zones, 1), GrantsPerSecond: hour(l.SessionsPerHour), MostGrants: float64(l.Zones) * grantsPerZone, Parts: []Part{
		{"sessions that begin and end", hour(l.SessionsPerHour) * (perSession + perLease + beatsPerSession)},
		{"turns", hour(l.TurnsPerHour) * (perTurn + beatsPerTurn)},
		{"approvals", hour(l.ApprovalsPerHour) * (perApproval + beatsPerApproval)},
		{"commands", hour(l.CommandsPerHour) * (perCommand + beatsPerCommand)},
		{"heartbeats of running turns", float64(l.Running) * perPump},
		{"heartbeats of watched hosts", float64(l.Hosts) * perHost},
		{"pools and outboxes", float64(l.Zones)*perZone + float64(l.Outboxes)*perOutbox},
	}}
	for _, p := range e.Parts {
		e.ActionsPerSecond += p.PerSecond
	}
	e.ActionsPerMonth = e.ActionsPerSecond * (30 * 24 * time.Hour).Seconds()
	bulk := room * (hour(l.SessionsPerHour)*bulkPerSession + hour(l.TurnsPerHour)*bulkPerTurn)
	for _, s := range []Slots{
		{Class: "pumps", Needed: l.Running, Limit: min(of.Pumps, streamsPerWorker), Estimate: "one for each session in which codex works; a worker was measured with 500"},
		{Class: "watches", Needed: l.Hosts + l.Outboxes, Limit: of.Watches, Estimate: "one for each host with sessions, and for each outbox"},
		{Class: "bulk", Needed: up(bulk), Limit: of.Bulk, Estimate: "three times the mean, if a session takes 20 s to prepare and to close, and a snapshot 5 s"},
		{Class: "commands", Needed: up(room * hour(l.CommandsPerHour) * perCommandTime), Limit: of.Commands, Estimate: "three times the mean, if a command takes 30 s"},
		{Class: "short", Needed: up(room * hour(l.SessionsPerHour) * shortPerSession), Limit: of.Short, Estimate: "three times the mean, if a session takes 5 s; polls come on top"},
	} {
		s.Workers = up(float64(s.Needed) / float64(max(s.Limit, 1)))
		e.Workers = max(e.Workers, s.Workers)
		e.Slots = append(e.Slots, s)
	}
	return e
}

func up(x float64) int { return int(math.Ceil(x - 1e-9)) }

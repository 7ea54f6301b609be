package session

import (
	"slices"
	"time"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/command"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/internal/kit"
)

// Input starts a Session workflow. Only continue-as-new sets Carry. NewInput makes one.
type Input struct {
	ID string `json:"id"`
	// Requires names the features that a worker must know to run the session. See
	// protocol.Requires.
	Requires []string          `json:"requires,omitempty"`
	Options  Options           `json:"options"`
	First    *protocol.Message `json:"first,omitempty"`
	Carry    *State            `json:"carry,omitempty"`
	Auth     *protocol.Auth    `json:"auth,omitempty"` // who starts it
	// Judged is the principal whose schedule or session starts it, if that was judged. Workers
	// set it.
	Judged string `json:"judged,omitempty"`
	// Groups are those that the login of Judged named. Only what a schedule or a session starts
	// has them, and counts them: there a worker wrote the input.
	Groups []string `json:"groups,omitempty"`

	newer kit.Newer // a field that this program does not know
}

// NewInput returns what starts a session, with the features that its options use.
func NewInput(id string, opt Options, first *protocol.Message) Input {
	//workflowcheck:ignore // JSON is a pure function
	return Input{ID: id, Requires: protocol.Requires(opt), Options: opt, First: first}
}

// UnmarshalJSON notes a field that this program does not know.
func (in *Input) UnmarshalJSON(raw []byte) (err error) {
	type plain Input
	in.newer, err = kit.Known(raw, (*plain)(in))
	return err
}

// Required implements newer.Input. A program may start a session without naming what it
// requires.
func (in Input) Required() []string {
	//workflowcheck:ignore // JSON is a pure function
	all := append(slices.Clone(in.Requires), protocol.Requires(in.Options)...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Unknown implements newer.Input.
func (in Input) Unknown() []string { return in.newer.Fields() }

// Given returns the JSON of an input that has a field which this program does not know, and
// otherwise nil. The signature of a start is of this JSON.
func (in Input) Given() []byte { return in.newer.Given() }

// CommandAuth returns who starts the session, or nil.
func (in Input) CommandAuth() *protocol.Auth { return in.Auth }

// JudgedWithin implements newer.JudgedWithin.
func (in Input) JudgedWithin() {}

// signed returns the JSON of the start that its signature covers.
func (in Input) signed() ([]byte, error) {
	if raw := in.Given(); raw != nil {
		return raw, nil
	}
	return command.Marshal(in)
}

// Options are a person's choices. If SeedPool is set, Seed stays empty.
type Options struct {
	Zone   string            `json:"zone,omitempty"`
	Host   string            `json:"host,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Select []string          `json:"select,omitempty"` // conditions on the host, such as mem>=32 or !gpu
	Rather []string          `json:"rather,omitempty"` // preferred conditions
	// Elsewhere rules out the worker's own machine, where a session works only if Host names
	// it. Starters before v0.2 leave it out: then that machine serves if nothing else does.
	Elsewhere      bool              `json:"elsewhere,omitempty"`
	Seed           string            `json:"seed,omitempty"`
	SeedPool       string            `json:"seed_pool,omitempty"` // any healthy seed of this pool, instead of Seed
	Tenant         string            `json:"tenant,omitempty"`    // whose share the slot counts for; default "default"
	Priority       int               `json:"priority,omitempty"`  // 1 is first, 5 last; 0 is 3
	Dir            string            `json:"dir,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`         // default workspace-write
	ApprovalPolicy string            `json:"approval_policy,omitempty"` // default on-request
	Confine        hosts.Confinement `json:"confine,omitzero"`
	// Policy is the text of a policy file.
	Policy string `json:"policy,omitempty"`
	// Expiry is how long an approval stays open; default 24 h.
	Expiry time.Duration `json:"expiry,omitempty"`
	// TurnTimeout bounds one turn; default 24 h.
	TurnTimeout time.Duration `json:"turn_timeout,omitempty"`
	// Bounds limit the use in all; 0 means no bound.
	protocol.Bounds
	// OnInterrupt says what follows when a turn lost its process: ask (default), continue
	// or fail.
	OnInterrupt string `json:"on_interrupt,omitempty"`
	// Credentials says whether the credential is planted on the host (default), or stays
	// with a broker, which gives codex short-lived access tokens of a ChatGPT login, or with
	// the model gateway, which codex asks in the provider's place.
	Credentials string `json:"credentials,omitempty"`
	// Egress names what commands may reach through the worker, as HOST:PORT or *.HOST:PORT. It needs
	// the model gateway.
	Egress []string `json:"egress,omitempty"`
	// OnAuth says what follows when a turn got no access token in time: retry (default with
	// a broker) or ask.
	OnAuth   string                   `json:"on_auth,omitempty"`
	Snapshot protocol.SnapshotOptions `json:"snapshot,omitzero"`
	// ParkAfter is the idle time before the session parks; 0 means never.
	ParkAfter time.Duration `json:"park_after,omitempty"`
	// TTL bounds the session's life from its start; 0 means no limit. A running turn may
	// end first.
	TTL time.Duration `json:"ttl,omitempty"`
	// StartTimeout bounds the time until the first turn can begin; default 24 h, 0 means no
	// limit.
	StartTimeout *time.Duration `json:"start_timeout,omitempty"`
	// OnHostLost says what follows when the host is out of reach for LostAfter: wait
	// (default) or move.
	OnHostLost string             `json:"on_host_lost,omitempty"`
	LostAfter  time.Duration      `json:"lost_after,omitempty"`
	Watchdogs  protocol.Watchdogs `json:"watchdogs,omitzero"`
	// OnLimit says what follows when a turn fails at the account's limit or the provider's
	// rate limit: fail, wait for its end and send the message again, or switch to another
	// seed of the pool. If empty, policies
	// decide; the default is fail.
	OnLimit string `json:"on_limit,omitempty"`
	// Tools are our tools that codex may call: ask_human, deliver, finish, report_progress.
	Tools []string `json:"tools,omitempty"`
	// Verdict says that a person judges each file that codex delivers, before codex learns
	// that it was taken.
	Verdict bool `json:"deliver_verdict,omitempty"`
	// From is the snapshot from which the session is forked.
	From string `json:"from,omitempty"`
	// Instructions are the thread's developer instructions. Personality is a setting of
	// codex.
	Instructions string `json:"instructions,omitempty"`
	Personality  string `json:"personality,omitempty"`
	// Agents is the session's part of AGENTS.md in CODEX_HOME. Base replaces codex's own base
	// instructions.
	Agents *protocol.GivenText `json:"agents,omitempty"`
	Base   *protocol.GivenText `json:"base_instructions,omitempty"`
	// TeamTools are tools of a team that codex may call.
	TeamTools *protocol.ToolsGiven `json:"team_tools,omitempty"`
	// Files came with messages of the session that was forked.
	Files     []protocol.Input     `json:"files,omitempty"`
	Workspace workspaces.Workspace `json:"workspace,omitzero"`
	// CloseAfter closes the session after all accepted messages had their turns (ctl run
	// without --keep).
	CloseAfter bool   `json:"close_after,omitempty"`
	By         string `json:"by,omitempty"`
	// Origin is what started the session: "batch/ID", "schedule/NAME", "session/ID" for a follow-up,
	// or "parent/ID" for a child.
	Origin string `json:"origin,omitempty"`
	// FollowUps are the rules by which the session starts others. A session of that kind, whose
	// origin is session/ID, has none.
	FollowUps []protocol.FollowUp `json:"follow_ups,omitempty"`
	// Children says which sessions the agent may start; nil means none.
	Children *protocol.Children `json:"children,omitempty"`
	// Notify is the workflow that gets the signal session_ended.
	Notify string `json:"notify,omitempty"`
}

// Blobs returns the blobs that the input names.
func (in Input) Blobs() (all []string) {
	if m := in.First; m != nil {
		all = append(all, m.Blob, m.SchemaBlob)
		for _, f := range m.Inputs {
			all = append(all, f.Blob)
		}
	}
	for _, f := range in.Options.Files {
		all = append(all, f.Blob)
	}
	if r := in.Options.Workspace.Repo; r != nil {
		all = append(all, r.Token)
	}
	return append(all, in.Options.givenBlobs()...)
}

package session

import (
	"time"

	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/workspaces"
	"fairlead.dev/fairlead/internal/protocol"
)

// Input starts a Session workflow. Only continue-as-new sets Carry.
type Input struct {
	ID      string  `json:"id"`
	Options Options `json:"options"`
	// First is the first message, if it comes with the start.
	First *protocol.Message `json:"first,omitempty"`
	Carry *State            `json:"carry,omitempty"`
}

// Options are a person's choices. If Seed is empty and SeedPool is set, the
// workflow acquires a seed of that pool, and Seed stays empty.
type Options struct {
	Zone           string            `json:"zone,omitempty"`
	Host           string            `json:"host,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Select         []string          `json:"select,omitempty"` // further conditions that its host must meet: mem>=32, !gpu (see protocol.Selector)
	Rather         []string          `json:"rather,omitempty"` // conditions that are preferred
	Seed           string            `json:"seed,omitempty"`
	SeedPool       string            `json:"seed_pool,omitempty"` // any healthy seed of this pool, instead of Seed
	Tenant         string            `json:"tenant,omitempty"`    // the tenant for which its slot counts; default "default"
	Priority       int               `json:"priority,omitempty"`  // 1 is first, 5 last; 0 is 3
	Dir            string            `json:"dir,omitempty"`
	Model          string            `json:"model,omitempty"`
	Effort         string            `json:"effort,omitempty"`
	Sandbox        string            `json:"sandbox,omitempty"`         // default workspace-write
	ApprovalPolicy string            `json:"approval_policy,omitempty"` // default on-request
	// Confine restricts the sandbox further than its mode does.
	Confine hosts.Confinement `json:"confine,omitzero"`
	// Policy is the text of a policy file: rules that decide what codex asks for.
	Policy string `json:"policy,omitempty"`
	// Expiry is the time for which an approval stays open before it counts as declined;
	// default 24 h.
	Expiry time.Duration `json:"expiry,omitempty"`
	// TurnTimeout bounds one turn; default 24 h.
	TurnTimeout time.Duration `json:"turn_timeout,omitempty"`
	// Bounds limit what the session may use in all; 0 means no bound.
	protocol.Bounds
	// OnInterrupt says what the session does when a turn loses its process: ask (the
	// default), continue or fail.
	OnInterrupt string `json:"on_interrupt,omitempty"`
	// Credentials says whether the credential is planted on the host (the default), or stays with
	// a broker. With a broker the host gets none, and codex gets short-lived access tokens of a
	// ChatGPT login.
	Credentials string `json:"credentials,omitempty"`
	// OnAuth says what the session does when a turn got no access token in time: retry (the
	// default with a broker) or ask.
	OnAuth string `json:"on_auth,omitempty"`
	// Snapshot says what is kept of the session, and when.
	Snapshot protocol.SnapshotOptions `json:"snapshot,omitzero"`
	// ParkAfter is the time for which the session is idle before it parks by itself; 0
	// means never.
	ParkAfter time.Duration `json:"park_after,omitempty"`
	// TTL bounds the life of the session from its start; 0 means no limit. After that time
	// the session closes when the running turn has ended.
	TTL time.Duration `json:"ttl,omitempty"`
	// StartTimeout bounds the time from acceptance until the first turn can begin, whatever
	// delays it; default 24 h, 0 means no limit.
	StartTimeout *time.Duration `json:"start_timeout,omitempty"`
	// OnHostLost says what the session does when its host cannot be reached for LostAfter:
	// wait (the default) or move.
	OnHostLost string        `json:"on_host_lost,omitempty"`
	LostAfter  time.Duration `json:"lost_after,omitempty"`
	// Watchdogs bound how long codex and the model may take; see also TurnTimeout.
	Watchdogs protocol.Watchdogs `json:"watchdogs,omitzero"`
	// OnLimit says what the session does when a turn fails because the account's limit, or
	// the provider's limit on the rate of requests, is reached: fail, or wait until the
	// limit ends and send the message again. If empty, policies decide; the default is
	// fail.
	OnLimit string `json:"on_limit,omitempty"`
	// Tools are our tools that codex may call: ask_human, deliver, report_progress.
	Tools []string `json:"tools,omitempty"`
	// From is the snapshot that the session begins with, as a fork of that snapshot's session.
	From string `json:"from,omitempty"`
	// Instructions are the thread's developer instructions. Personality is codex's setting for
	// how it speaks.
	Instructions string `json:"instructions,omitempty"`
	Personality  string `json:"personality,omitempty"`
	// Files are the files that came with messages of the session from which this one is
	// forked.
	Files []protocol.Input `json:"files,omitempty"`
	// Workspace says what is in the work folder at the start, and which hooks run.
	Workspace workspaces.Workspace `json:"workspace,omitzero"`
	// CloseAfter closes the session after its first turn and the turns of all messages accepted
	// meanwhile (ctl run without --keep).
	CloseAfter bool   `json:"close_after,omitempty"`
	By         string `json:"by,omitempty"`
	// Origin names the batch or schedule that started the session: "batch/ID" or
	// "schedule/NAME".
	Origin string `json:"origin,omitempty"`
	// When the session has ended, the signal session_ended goes to the workflow with the id
	// Notify.
	Notify string `json:"notify,omitempty"`
}

// Blobs returns the blobs of the store that the input names.
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
	return all
}

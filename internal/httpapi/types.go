package httpapi

import (
	"encoding/json"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"fairlead.dev/fairlead/internal/protocol"
)

// StartSession says what a session is to be. The words are those of the flags of `ctl session
// start`.
type StartSession struct {
	ID             string           `json:"id,omitempty" pattern:"^[a-z0-9][a-z0-9._-]{0,62}$" doc:"the session's id; by default made from Idempotency-Key, or random"`
	Message        *NewMessage      `json:"message,omitempty" doc:"the first message; without one the session waits for it"`
	CloseAfter     bool             `json:"close_after,omitempty" doc:"close the session after the turn of the first message"`
	Zone           string           `json:"zone,omitempty" doc:"zone of the hosts"`
	Host           string           `json:"host,omitempty" doc:"name of the host; local is the worker's own machine"`
	Labels         []string         `json:"labels,omitempty" maxItems:"64" doc:"any host that meets all these selectors, such as k=v, k!=v, mem>=32, gpu or !gpu"`
	Prefer         []string         `json:"prefer,omitempty" maxItems:"64" doc:"prefer a free host that meets these selectors"`
	Tenant         string           `json:"tenant,omitempty" doc:"team for which the session counts where slots are shared out"`
	Priority       int              `json:"priority,omitempty" minimum:"1" maximum:"5" doc:"order among waiting sessions, 1 is first; 3 by default"`
	Seed           string           `json:"seed,omitempty" doc:"name of the credentials"`
	SeedPool       string           `json:"seed_pool,omitempty" doc:"any healthy credentials of this pool"`
	Dir            string           `json:"dir,omitempty" doc:"work in this absolute path on the host instead of a fresh folder"`
	Model          string           `json:"model,omitempty"`
	Effort         string           `json:"effort,omitempty" doc:"reasoning effort"`
	Sandbox        string           `json:"sandbox,omitempty" enum:"read-only,workspace-write,danger-full-access" doc:"workspace-write by default"`
	ApprovalPolicy string           `json:"approval_policy,omitempty" enum:"untrusted,on-request,never" doc:"on-request by default"`
	Policy         string           `json:"policy,omitempty" doc:"the text of a policy file: rules that decide what codex asks for"`
	Expiry         string           `json:"approval_timeout,omitempty" doc:"how long an approval stays open, such as 2h; 24h by default"`
	TurnTimeout    string           `json:"turn_timeout,omitempty" doc:"longest turn, such as 90m; 24h by default"`
	StartTimeout   string           `json:"start_timeout,omitempty" doc:"how long the session may wait to begin; 24h by default, 0s is no limit"`
	ParkAfter      string           `json:"park_after,omitempty" doc:"idle time after which the session gives back its host"`
	TTL            string           `json:"ttl,omitempty" doc:"longest life of the session"`
	Budget         *protocol.Budget `json:"budget,omitempty" doc:"bounds of the whole session"`
	OnInterrupt    string           `json:"on_interrupt,omitempty" enum:"ask,continue,fail" doc:"when codex's process dies in a turn; ask by default"`
	OnLimit        string           `json:"on_limit,omitempty" enum:"fail,wait,switch" doc:"when the account's limit ends a turn"`
	OnHostLost     string           `json:"on_host_lost,omitempty" enum:"wait,move" doc:"when the host stays out of reach; wait by default"`
	Credentials    string           `json:"credentials,omitempty" enum:"planted,broker,gateway" doc:"default: as the seed says, or else the workers' configuration, or else planted"`
	LostAfter      string           `json:"lost_after,omitempty" doc:"a host that cannot be reached for so long is lost; 5m by default"`
	OnAuth         string           `json:"on_auth,omitempty" enum:"retry,ask" doc:"when a turn got no access token in time; retry by default with a broker"`
	Snapshot       *KeepSnapshots   `json:"snapshot,omitempty" doc:"what is kept of the session, and when"`
	Tools          []string         `json:"tools,omitempty" maxItems:"16" doc:"our tools that codex may call: ask_human, deliver, finish, report_progress"`
	Verdict        bool             `json:"deliver_verdict,omitempty" doc:"somebody judges each file that codex delivers: accept, revise with comments, or decline; needs the tool deliver"`
	Children       *MayStart        `json:"children,omitempty" doc:"the agent may start sessions with the tools start_session and wait_session"`
	Instructions   string           `json:"instructions,omitempty" doc:"the session's part of AGENTS.md"`
	Developer      string           `json:"developer_instructions,omitempty" doc:"instructions in the role of the developer"`
	Base           string           `json:"base_instructions,omitempty" doc:"replaces codex's own base instructions"`
	Personality    string           `json:"personality,omitempty" doc:"how codex speaks: none, friendly or pragmatic (codex before 0.169)"`
	TeamTools      string           `json:"team_tools,omitempty" doc:"the text of a file (YAML or JSON) with tools of your own; in a fork or restore, none takes away those that the session had"`
	FollowUps      []FollowUp       `json:"follow_ups,omitempty" maxItems:"64" doc:"rules for sessions that start from forks of this one"`
	Repo           *Repo            `json:"repo,omitempty" doc:"work in a clone of this git repository"`
	FromSnapshot   string           `json:"from_snapshot,omitempty" maxLength:"255" doc:"work in a copy of this snapshot's work folder, without its conversation"`
	Hooks          *Hooks           `json:"hooks,omitempty" doc:"scripts that run on the host"`
	KeepWork       bool             `json:"keep_work,omitempty" doc:"leave the work folder on the host when the session closes"`
	Profile        string           `json:"profile,omitempty" doc:"confine commands by this permission profile of the seed's config.toml, in place of sandbox"`
	Read           []string         `json:"read,omitempty" maxItems:"64" doc:"paths on the host that commands may read and never write"`
	Write          []string         `json:"write,omitempty" maxItems:"64" doc:"folders on the host that commands may write beside the work folder"`
	Network        string           `json:"network,omitempty" maxLength:"8192" doc:"the network of commands: on, off, or hosts separated by commas, each as api.example.com or *.example.com"`
	Egress         []string         `json:"egress,omitempty" maxItems:"64" doc:"what commands may reach through the worker, each as github.com:443 or *.example.com:443; needs credentials gateway and network on"`
	StartUp        string           `json:"startup_timeout,omitempty" doc:"codex has to answer so soon after its start; 60s by default"`
	RequestTimeout string           `json:"request_timeout,omitempty" doc:"codex has to answer a request, or take a message, so soon; 60s by default"`
	Silence        string           `json:"silence_timeout,omitempty" doc:"codex is asked for a sign of life after so long without a word; 2m by default"`
	Quiet          string           `json:"quiet_timeout,omitempty" doc:"the model has to go on so soon after a tool has ended; 30m by default, 0s is no limit"`
	RetryTimeout   string           `json:"retry_timeout,omitempty" doc:"how long a turn may only retry its connection to the provider; 30m by default, 0s is no limit"`
}

// KeepSnapshots says what snapshots of a session hold, and when they are taken.
type KeepSnapshots struct {
	Work    string   `json:"work,omitempty" enum:"full,git,none" doc:"beside the conversation; full, the whole work folder, by default"`
	Exclude []string `json:"exclude,omitempty" maxItems:"64" doc:"patterns of gitignore for what is left out"`
	When    string   `json:"when,omitempty" enum:"turn,close,off" doc:"turn, after each turn, by default; with off the session cannot park or move"`
	Every   string   `json:"every,omitempty" doc:"also so often within long turns, such as 30m"`
}

// MayStart says which sessions the agent of a session may start.
type MayStart struct {
	Max       int      `json:"max" minimum:"1" maximum:"64" doc:"so many, at all depths together"`
	Depth     int      `json:"depth,omitempty" minimum:"1" maximum:"3" doc:"how deep the tree may be; 1 by default"`
	Hosts     []string `json:"hosts,omitempty" doc:"hosts that the agent may choose; otherwise as in this session"`
	Seeds     []string `json:"seeds,omitempty" doc:"seeds that the agent may choose"`
	SeedPools []string `json:"seed_pools,omitempty" doc:"seed pools that the agent may choose"`
	Models    []string `json:"models,omitempty" doc:"models that the agent may choose"`
	Keep      bool     `json:"keep,omitempty" doc:"they go on when this session ends"`
}

// Started names a session that was started.
type Started struct {
	ID        string `json:"id"`
	N         int    `json:"n,omitempty" doc:"turn of the first message"`
	MessageID string `json:"message_id,omitempty"`
	Existing  bool   `json:"existing" doc:"an earlier request with the same Idempotency-Key started it"`
}

// NewMessage is a message to codex.
type NewMessage struct {
	Text     string           `json:"text" minLength:"1" doc:"what codex is to do; at most 1,048,576 characters"`
	Mode     string           `json:"mode,omitempty" enum:"queue,steer" doc:"queue: a turn of its own, after those before it; steer: to the running turn"`
	Turn     int              `json:"turn,omitempty" minimum:"0" doc:"the turn to steer"`
	Model    string           `json:"model,omitempty" doc:"model from this turn on"`
	Effort   string           `json:"effort,omitempty" doc:"reasoning effort from this turn on"`
	AnyModel bool             `json:"any_model,omitempty" doc:"also a model that codex does not list"`
	Inputs   []protocol.Input `json:"inputs,omitempty" maxItems:"10" doc:"files that were uploaded (POST /v1/inputs), each as that request answered"`
	Schema   json.RawMessage  `json:"output_schema,omitempty" doc:"a JSON schema that the turn's last message is to match"`
}

// Filter narrows a list of sessions.
type Filter struct {
	State    string `query:"state" doc:"only those in this state"`
	Host     string `query:"host" doc:"only those on this host"`
	Batch    string `query:"batch" doc:"only those of this batch"`
	Schedule string `query:"schedule" doc:"only those that this schedule started"`
	Archived bool   `query:"archived" doc:"also those that are archived"`
}

// DecideApproval decides an approval.
type DecideApproval struct {
	Digest      string            `json:"digest" pattern:"^[0-9a-f]{64}$" doc:"the digest of the approval; the decision counts only for the request with this digest"`
	Outcome     string            `json:"outcome" enum:"accept,decline,cancel,answer,revise,grant,amend" doc:"revise sends a deliverable back, with answers {\"comments\": …}"`
	Scope       string            `json:"scope,omitempty" enum:"once,session" doc:"once by default"`
	Reason      string            `json:"reason,omitempty" doc:"why, for the record"`
	Answers     json.RawMessage   `json:"answers,omitempty" doc:"by question id: a text, or a list of texts; never a secret"`
	AnswersBlob string            `json:"answers_blob,omitempty" doc:"where a worker has sealed secret answers (POST /v1/sessions/{id}/requests/{digest}/answers)"`
	Grant       json.RawMessage   `json:"grant,omitempty" doc:"the granted part of permissions"`
	Signature   string            `json:"signature,omitempty" doc:"an approver's own signature, where the policy needs one"`
	Passkey     *protocol.Passkey `json:"passkey,omitempty" doc:"an assertion of the person's passkey, where the policy marks the request as high risk; its challenge is the SHA-256 of fairlead-passkey-decision-v1@fairlead.dev, a line end, and what ctl approval message prints"`
}

// A Session is the Session JSON of ctl.
type Session struct{ View any }

// MarshalJSON implements json.Marshaler.
func (s Session) MarshalJSON() ([]byte, error) { return json.Marshal(s.View) }

// Schema implements huma.SchemaProvider.
func (Session) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[protocol.SessionView](), true, "Session")
}

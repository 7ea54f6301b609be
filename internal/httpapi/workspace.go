package httpapi

// Repo is a git repository that the host brings. The words are those of the flags of `ctl
// session start`.
type Repo struct {
	URL        string `json:"url" minLength:"1" maxLength:"2048" doc:"a URL, user@host:path, or an absolute path on the host; without a password"`
	Ref        string `json:"ref,omitempty" maxLength:"255" doc:"branch, tag or commit; the server's own by default"`
	Depth      int    `json:"depth,omitempty" minimum:"0" doc:"only so many of the newest commits; 0 is all"`
	Token      string `json:"token,omitempty" maxLength:"1024" doc:"for an https server; it is kept encrypted in the store, and given to git alone. A repetition with the same Idempotency-Key may have another one. Batches and schedules take none"`
	User       string `json:"user,omitempty" maxLength:"255" doc:"user name that goes with the token; x-access-token by default"`
	Forward    bool   `json:"forward_agent,omitempty" doc:"lend git on the host a key of the worker's SSH agent, for logins to the server of url"`
	ForwardKey string `json:"forward_key,omitempty" doc:"fingerprint (SHA256:…) of that key, if the agent has several"`
	KnownHosts string `json:"known_hosts,omitempty" maxLength:"16384" doc:"lines for the git server, beside those that the host has"`
	Timeout    string `json:"clone_timeout,omitempty" doc:"longest wait, such as 10m; 30m by default"`
}

// Hooks are scripts that run in the work folder on the host, outside of any sandbox.
type Hooks struct {
	AfterCreate  string `json:"after_create,omitempty" maxLength:"16384" doc:"once, when the folder has its first content"`
	BeforeRun    string `json:"before_run,omitempty" maxLength:"16384" doc:"before each start of codex"`
	AfterRun     string `json:"after_run,omitempty" maxLength:"16384" doc:"each time after codex has stopped"`
	BeforeRemove string `json:"before_remove,omitempty" maxLength:"16384" doc:"before the folder is removed"`
	Timeout      string `json:"timeout,omitempty" doc:"of each, such as 60s; 1m by default"`
}

// FollowUp is a rule by which a session starts others, from forks of its own.
type FollowUp struct {
	Name           string          `json:"name" doc:"of the rule"`
	Prompt         string          `json:"prompt" doc:"what the new session is to do"`
	After          FollowUpAfter   `json:"after" doc:"one of these"`
	Seed           string          `json:"seed,omitempty"`
	SeedPool       string          `json:"seed_pool,omitempty"`
	Model          string          `json:"model,omitempty"`
	Effort         string          `json:"effort,omitempty"`
	Sandbox        string          `json:"sandbox,omitempty"`
	ApprovalPolicy string          `json:"approval_policy,omitempty"`
	Budget         *FollowUpBudget `json:"budget,omitempty" doc:"bounds of the new session"`
}

// FollowUpAfter says when a rule counts.
type FollowUpAfter struct {
	Turns     int      `json:"turns,omitempty" minimum:"0" doc:"after each so many turns"`
	ToolCalls int      `json:"tool_calls,omitempty" minimum:"0" doc:"after the turn with so many calls since the last time"`
	Files     []string `json:"files,omitempty" doc:"after a turn that changed a file that one of these patterns matches"`
}

// FollowUpBudget bounds a session with one turn.
type FollowUpBudget struct {
	Tokens    *int64 `json:"tokens,omitempty" minimum:"0"`
	Approvals *int64 `json:"approvals,omitempty" minimum:"0"`
	Commands  *int64 `json:"commands,omitempty" minimum:"0"`
	Time      string `json:"time,omitempty" doc:"such as 2h"`
}

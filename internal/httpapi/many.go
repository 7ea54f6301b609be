package httpapi

// Bounds of a batch.
const (
	maxBatch = 64 << 20 // bytes
	maxItems = 10_000
)

// StartBatch says what the sessions of a batch are to be. The words are those of a batch file.
type StartBatch struct {
	Window    int          `json:"window,omitempty" minimum:"1" maximum:"500" doc:"sessions at a time; 20 by default"`
	StopAfter int          `json:"stop_after,omitempty" minimum:"0" doc:"failures after which nothing more is started; 0 is never"`
	Retry     *Retry       `json:"retry,omitempty" doc:"which failures are tried again; none by default"`
	Defaults  StartSession `json:"defaults,omitzero" doc:"the session of each item that does not give its own"`
	Items     []BatchItem  `json:"items" minItems:"1" maxItems:"10000"`
}

// Retry says which failures of a batch are tried again.
type Retry struct {
	Attempts     int      `json:"attempts,omitempty" minimum:"1" maximum:"10" default:"2" doc:"with the first one"`
	On           []string `json:"on,omitempty" maxItems:"64" doc:"kinds of failures; those of hosts and providers by default"`
	Wait         string   `json:"wait,omitempty" doc:"before the second try, such as 30s; doubled before each later one"`
	AfterEffects bool     `json:"after_effects,omitempty" doc:"also what may have begun a command or a change"`
}

// BatchItem is one session of a batch.
type BatchItem struct {
	ID      string        `json:"id" maxLength:"63" doc:"the item's id: the session's is BATCH.ITEM"`
	Message NewMessage    `json:"message"`
	Session *StartSession `json:"session,omitempty" doc:"in place of defaults"`
}

// StartedBatch names a batch that was started.
type StartedBatch struct {
	ID       string `json:"id"`
	Total    int    `json:"total" doc:"items"`
	Existing bool   `json:"existing" doc:"an earlier request with the same Idempotency-Key started it"`
}

// NewSchedule says when a session or a batch begins. The words are those of the flags of `ctl
// schedule create`.
type NewSchedule struct {
	Cron           []string      `json:"cron,omitempty" maxItems:"32" doc:"cron's five fields, or @hourly, @daily, @weekly, @monthly"`
	Every          []string      `json:"every,omitempty" maxItems:"32" doc:"so often, such as 6h"`
	Calendar       []string      `json:"calendar,omitempty" maxItems:"32" doc:"times that match all fields, as in weekday=mon-fri hour=22"`
	Except         []string      `json:"except,omitempty" maxItems:"32" doc:"but not when this calendar matches"`
	TZ             string        `json:"tz,omitempty" doc:"time zone, such as Europe/Berlin; UTC by default"`
	From           string        `json:"from,omitempty" doc:"not before this moment"`
	Until          string        `json:"until,omitempty" doc:"not after this moment"`
	Jitter         string        `json:"jitter,omitempty" doc:"begin up to so much later, by chance"`
	Catchup        string        `json:"catchup,omitempty" doc:"how late a missed start may be; 10m by default"`
	Overlap        string        `json:"overlap,omitempty" enum:"skip,buffer-one,buffer-all,cancel-other,terminate-other,allow-all" doc:"when what an earlier time began still runs; skip by default"`
	Paused         bool          `json:"paused,omitempty" doc:"create it paused"`
	PauseOnFailure bool          `json:"pause_on_failure,omitempty" doc:"pause it when a session, its turn or an item fails"`
	Note           string        `json:"note,omitempty" maxLength:"500" doc:"shown with it"`
	Session        *StartSession `json:"session,omitempty" doc:"the session of each time, with its message; it closes after its turn"`
	Batch          *StartBatch   `json:"batch,omitempty" doc:"in place of session"`
}

func (b *StartBatch) check() error {
	if b == nil {
		return nil
	}
	if len(b.Items) > maxItems {
		return badInput("%d items, at most %d", len(b.Items), maxItems)
	}
	for i := range b.Items {
		it := &b.Items[i]
		if err := it.Message.check(); err != nil {
			return err
		}
		if it.Session != nil && it.Session.Message != nil {
			return badInput("items[%d].session.message: the message of an item stands beside its session", i)
		}
	}
	if b.Defaults.Message != nil {
		return badInput("defaults.message: each item has a message of its own")
	}
	return nil
}

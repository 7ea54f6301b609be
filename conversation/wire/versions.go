package wire

import "fmt"

// The window of supported versions of codex, with later patches of the pinned minor
// version. Others are refused with a *VersionError unless conversation.Options.AnyVersion
// is set: in older versions requests differ, and newer versions are untested.
const (
	OldestVersion = "0.125.0"
	TestedVersion = "0.169.0" // the pinned one
)

// Tested are the versions that the tests run on, oldest first.
var Tested = []string{OldestVersion, "0.130.0", "0.140.0", "0.155.1", TestedVersion}

// A Trait is a behaviour of only some versions of the window.
type Trait string

// The traits. Differences says what each means.
const (
	NamedProfiles  Trait = "permission profiles by name"
	ClientIDs      Trait = "client's message ids"
	WriterLock     Trait = "one writer a thread"
	TornTailMended Trait = "torn rollouts mended"
	ForkByLineage  Trait = "forks lean on their source"
	TokensUnlogged Trait = "access tokens stay out of the log"
	ItemTimes      Trait = "times of items"
	EventTimes     Trait = "times of events"
	LastItemAtEnd  Trait = "last message in turn/completed"
	SteeredTurnID  Trait = "turn/start in a turn names that turn"
	ApprovalKind   Trait = "kind of command approval"
	ProfileInTmp   Trait = "permission profiles below /tmp"
	NetworkByHost  Trait = "network by host"
	SteerCuts      Trait = "a steer cuts the stream"
	EndedRefused   Trait = "interrupts of ended turns are refused"
	SafeIsAsked    Trait = "safe commands are asked for too"
	UntrustedAsks  Trait = "escalations under untrusted are asked for"
	OnFailure      Trait = "approval policy on-failure"
	Personalities  Trait = "personalities"
	Attestation    Trait = "asks for attestation"
	CurrentTime    Trait = "asks for the time"
	DenialReasons  Trait = "denials of the first protocol have a reason"
)

// A Difference tells which versions have a trait.
type Difference struct {
	Trait Trait
	// Without is the newest version seen without the trait, Since the oldest seen with it.
	// Versions in between count as without it, which is safe for each trait.
	Without, Since string
	// Gone is the oldest later version that was seen without the trait.
	Gone string
	With string
	Lack string
}

// Differences lists all differences between the versions in what we use. They were measured
// with the scripted model, on each of Tested and on 0.133.0, 0.147.0 and 0.149.1;
// TestConformance and TestTraitsAreAsTheTableSays check them. Everything else that we use
// was the same, including that thread/read is answered after all that was written before
// it, and that dynamic tools are kept over a resume. The approvals of the first protocol
// belong to newConversation, which no version has any more.
var Differences = []Difference{
	{Trait: ItemTimes, Without: "0.125.0", Since: "0.130.0",
		With: "items and approvals bear startedAtMs and completedAtMs", Lack: "only turns have times, in seconds"},
	{Trait: NamedProfiles, Without: "0.130.0", Since: "0.133.0",
		With: "thread/start takes the name of a permission profile", Lack: "0.130 refuses the name, 0.125 ignores it and starts in its default sandbox"},
	{Trait: Attestation, Without: "0.130.0", Since: "0.133.0",
		With: "attestation/generate may be asked", Lack: "it does not exist"},
	{Trait: ClientIDs, Without: "0.133.0", Since: "0.140.0",
		With: "clientUserMessageId comes back with the message, in the thread's history too",
		Lack: "it is ignored: a message that may have reached a process that is gone cannot be looked for"},
	{Trait: WriterLock, Without: "0.140.0", Since: "0.147.0",
		With: "a thread that another process has is not resumed", Lack: "two processes write one thread"},
	{Trait: TornTailMended, Without: "0.140.0", Since: "0.147.0",
		With: "a resumed rollout whose last line is torn is mended", Lack: "the next line is glued to the torn one and lost at the resume after that"},
	{Trait: EventTimes, Without: "0.140.0", Since: "0.147.0",
		With: "every notification bears emittedAtMs", Lack: "none does"},
	{Trait: LastItemAtEnd, Without: "0.140.0", Since: "0.147.0",
		With: "turn/completed repeats the last message", Lack: "its items are empty"},
	{Trait: CurrentTime, Without: "0.140.0", Since: "0.147.0",
		With: "currentTime/read may be asked", Lack: "it does not exist"},
	{Trait: OnFailure, Gone: "0.147.0",
		With: "the approval policy on-failure is taken", Lack: "it is refused"},
	{Trait: Personalities, Gone: "0.169.0",
		With: "the personality friendly or pragmatic changes what the model is told, where it has any", Lack: "they are taken and change nothing; none still does"},
	{Trait: TokensUnlogged, Without: "0.147.0", Since: "0.149.1",
		With: "a login's access tokens are in no file", Lack: "those given in answer to a refresh are in the log database"},
	{Trait: ApprovalKind, Without: "0.149.1", Since: "0.155.1",
		With: "command approvals say their kind", Lack: "they do not: all are for a command"},
	{Trait: DenialReasons, Without: "0.140.0", Since: "0.155.1",
		With: "applyPatchApproval and execCommandApproval are denied with an object that has a reason", Lack: "with a word"},
	{Trait: SteeredTurnID, Without: "0.147.0", Since: "0.155.1",
		With: "a turn/start that steers is answered with the running turn's id", Lack: "with the id of a turn that never begins"},
	{Trait: ProfileInTmp, Without: "0.140.0", Since: "0.147.0",
		With: "commands run under a profile also where the work folder is below /tmp", Lack: "there they do not start"},
	{Trait: NetworkByHost, Without: "0.140.0", Since: "0.147.0",
		With: "a permission profile lets commands reach the hosts that it names and no other, by codex's proxy (features.network_proxy)",
		Lack: "addresses of the machine and of private networks are kept from the proxy, so never reached, and each command takes two seconds more"},
	{Trait: SafeIsAsked, Without: "0.130.0", Since: "0.140.0",
		With: "a command known to be safe (echo, true) is asked for where it is to leave the sandbox", Lack: "it is run without asking"},
	{Trait: UntrustedAsks, Without: "0.140.0", Since: "0.155.1",
		With: "with the approval policy untrusted, leaving the sandbox is asked for", Lack: "it is refused to the model, and nobody is asked"},
	{Trait: SteerCuts, Without: "0.155.1", Since: "0.169.0",
		With: "a steer cuts the message that streams, and the model is asked again", Lack: "the model is asked again when it has said its say"},
	{Trait: EndedRefused, Without: "0.155.1", Since: "0.169.0",
		With: "an interrupt of a turn that has ended is refused", Lack: "it is answered as if it did something, with the next turn or never; no turn is interrupted"},
	{Trait: ForkByLineage, Without: "0.149.1", Since: "0.155.1",
		With: "a fork's rollout needs its source's", Lack: "it has the whole history"},
}

// Has reports whether a codex of this version has a trait. An unknown version, as before
// initialize is answered, counts as the pinned one.
func Has(version string, t Trait) bool {
	v, ok := Numbers(version)
	if !ok {
		v, _ = Numbers(TestedVersion)
	}
	for _, d := range Differences {
		if d.Trait == t {
			return !d.before(v, d.Since) && (d.Gone == "" || d.before(v, d.Gone))
		}
	}
	return false
}

func (Difference) before(v [3]int, bound string) bool {
	b, ok := Numbers(bound)
	return ok && Older(v, b)
}

// Older reports whether version a is before b.
func Older(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// A VersionError says that a version is not supported.
type VersionError struct {
	Found  string // empty if unreadable
	Oldest string
	Newest string
}

func (e *VersionError) Error() string {
	window := fmt.Sprintf("fairlead speaks to %s up to %s and its patches", e.Oldest, e.Newest)
	switch found, ok := Numbers(e.Found); {
	case e.Found == "" || !ok:
		return "codex does not say its version; " + window + " (provision the host)"
	case checkNewer(found):
		return fmt.Sprintf("codex %s is newer than all that were tried; %s (provision the host, or allow it with codex.any_version)", e.Found, window)
	}
	return fmt.Sprintf("codex %s is too old; %s (provision the host)", e.Found, window)
}

// checkNewer ignores the patch: later patches of the pinned minor version are in the
// window.
func checkNewer(v [3]int) bool {
	newest, _ := Numbers(TestedVersion)
	newest[2], v[2] = 0, 0
	return Older(newest, v)
}

// CheckVersion returns a *VersionError for an unsupported version.
func CheckVersion(v string) error {
	have, ok := Numbers(v)
	oldest, _ := Numbers(OldestVersion)
	if !ok || Older(have, oldest) || checkNewer(have) {
		if !ok {
			v = ""
		}
		return &VersionError{Found: v, Oldest: OldestVersion, Newest: TestedVersion}
	}
	return nil
}

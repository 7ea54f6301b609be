package conversation

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/deploy/scriptedmodel"
)

// The conformance suite: every behaviour that sessions rely on, tried on the
// real codex of every version in Tested. Where a version cannot, versions.go
// says so, and the behaviour shows what happens instead.

var writeConformance = flag.Bool("conformance", false, "write the table of the conformance suite's results")

// conformanceFile is what `make conformance` makes.
var conformanceFile = filepath.Join("..", "deploy", "conformance.md")

// A codex is the version that a behaviour is tried on.
type codex struct {
	version string
	note    string // what the table says in place of yes
}

func (c *codex) has(t Trait) bool { return Has(c.version, t) }

func (c *codex) talk(t *testing.T, s *scriptedmodel.Server) *talk {
	return newTalkWith(t, s, c.version)
}

// A behaviour is a row of the table.
type behaviour struct {
	name string
	try  func(*testing.T, *codex)
}

var behaviours = []behaviour{
	{"introduces itself, its account and its models", introducesItself},
	{"a turn completes and the thread remembers it", turnCompletesAndThreadRemembers},
	{"a turn, its entries and its approvals have times", turnHasTimes},
	{"recorded conversation happens again", recordedConversationStillHappens},
	{"bears in its messages what the table of versions says", messagesBearWhatTheTableSays},
	{"asks for safe commands, too, where they are to leave the sandbox", asksForSafeCommands},
	{"asks for what it may not do, under each policy and sandbox", asksUnderEachPolicyAndSandbox},
	{"an accepted command runs, a declined change does not", acceptedCommandRunsAndDeclinedChangeDoesNot},
	{"what is accepted for the session is not asked again", acceptedForSessionIsNotAskedAgain},
	{"a cancelled approval ends the turn", cancelledApprovalEndsTheTurn},
	{"a tool of ours is called, and kept over a resume", ourToolIsCalled},
	{"more permissions are asked for and granted", permissionsAreAskedFor},
	{"a permission profile of ours holds, also at a resume", profileHolds},
	{"an interrupt ends the turn and its command", interruptEndsTurnAndItsCommand},
	{"an interrupted message is on record once", interruptedMessageIsOnRecordOnce},
	{"a turn over its budget is interrupted", turnOverItsBudgetIsInterruptedInTheRealCodex},
	{"a steer reaches the running turn", steerReachesTheTurn},
	{"a steer of another turn is refused", steerOfAnotherTurnIsRefused},
	{"an interrupt of a turn that has ended is refused", interruptOfAnEndedTurn},
	{"starting a turn in a turn steers it", turnStartInATurnSteers},
	{"reading the thread is answered behind a turn", barrierIsAnsweredBehindATurn},
	{"reading the thread is answered behind a steer", barrierIsAnsweredBehindASteer},
	{"a killed process's thread is resumed", killedProcessEndsThePumpAndThreadResumes},
	{"a message that a dead process took is not sent again", messageThatADeadProcessTookIsNotSentAgain},
	{"the turn of a killed process is found interrupted", turnOfAKilledProcessIsFoundInterruptedInItsThreadsHistory},
	{"a missing thread is refused and never replaced", missingThreadIsRefusedAndNeverReplaced},
	{"a thread that another process has is refused", busyThreadIsRefused},
	{"an opening that was broken off is taken up", openingThatWasBrokenOffIsTakenUp},
	{"commands bear the session's mark", commandsBearTheSessionsMark},
	{"a thread goes on elsewhere, and is told so once", threadGoesOnElsewhereAndIsToldOnce},
	{"sandbox and approvals hold elsewhere", sandboxAndApprovalsHoldElsewhere},
	{"a torn rollout goes on elsewhere", tornRolloutGoesOnElsewhere},
	{"what it may have been told before a kill is told at most once", killedWhileToldIsToldAtMostOnce},
	{"a fork has the history and leaves its source alone", forkElsewhereHasTheHistoryAndLeavesItsSourceAlone},
	{"a fork is made once", forkIsNotForkedAgainByALaterAttempt},
	{"a fork without its source", forkWithoutItsParentIsRefused},
	{"compact, review, name and archive", compactReviewNameArchive},
	{"the first protocol is gone", firstProtocolIsGone},
	{"failures are classified", failuresOfTheRealCodexAreClassified},
	{"a refused access token is refreshed within the turn, and in no file", refusedTokenIsRefreshedWithinTheTurnAndWrittenNowhere},
	{"a dead login fails the turn with what to do", deadLoginFailsTheTurnWithWhatToDo},
	{"a token that is refused anew ends the turn", tokenThatIsRefusedAnewEndsTheTurnAsAuth},
}

// published are the versions that there are for this machine.
func published(t *testing.T) []string {
	t.Helper()
	if runtime.GOARCH == "arm64" {
		return slices.DeleteFunc(slices.Clone(Tested), func(v string) bool { return v == "0.140.0" }) // never was, see deploy/versions.sh
	}
	return Tested
}

func TestConformance(t *testing.T) {
	// A run of part of the suite renews the cells of that part.
	old, err := os.ReadFile(conformanceFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_, cells := cellsOf(old)
	for _, b := range behaviours {
		var all []*codex
		t.Run(b.name, func(t *testing.T) {
			for _, v := range published(t) {
				c := &codex{version: v}
				all = append(all, c)
				t.Run(v, func(t *testing.T) {
					t.Parallel()
					defer func() {
						if t.Failed() {
							c.note = "FAILED"
						}
					}()
					b.try(t, c)
					if c.note == "" {
						c.note = "yes"
					}
				})
			}
		})
		for _, c := range all {
			if c.note != "" {
				cells[b.name+c.version] = c.note
			}
		}
	}
	if !*writeConformance {
		return
	}
	if err := os.WriteFile(conformanceFile, conformanceTable(cells), 0o644); err != nil {
		t.Fatal(err)
	}
}

func conformanceTable(cells map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString("# What holds on which codex\n\nMade by `make conformance`, which tries every row on the real codex of every version with a scripted model.\n\n")
	row(&b, append([]string{"behaviour"}, Tested...)...)
	row(&b, strings.Split(strings.Repeat("--- ", len(Tested)+1), " ")[:len(Tested)+1]...)
	for _, one := range behaviours {
		line := []string{one.name}
		for _, v := range Tested {
			cell := cells[one.name+v]
			if cell == "" {
				cell = "not tried"
			}
			line = append(line, cell)
		}
		row(&b, line...)
	}
	b.Write(differencesTable())
	return b.Bytes()
}

// differencesTable is the table of versions.go.
func differencesTable() []byte {
	var b bytes.Buffer
	b.WriteString("\n# What differs\n\nAll else that sessions use was the same on every version. Between two versions that were tried a trait is taken to be missing.\n\n")
	row(&b, "trait", "versions", "with it", "without")
	row(&b, "---", "---", "---", "---")
	for _, d := range Differences {
		versions := "from " + d.Since + " on (not in " + d.Without + ")"
		if d.Gone != "" {
			versions = "before " + d.Gone
		}
		row(&b, string(d.Trait), versions, d.With, d.Lack)
	}
	return b.Bytes()
}

func row(b *bytes.Buffer, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

// cellsOf reads a table back.
func cellsOf(text []byte) (rows []string, cells map[string]string) {
	cells = map[string]string{}
	for line := range strings.Lines(string(text)) {
		all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(all) != len(Tested)+1 {
			continue
		}
		name := strings.TrimSpace(all[0])
		rows = append(rows, name)
		for i, v := range Tested {
			cells[name+v] = strings.TrimSpace(all[i+1])
		}
	}
	return rows, cells
}

// TestConformanceTableIsCurrent: the committed table has today's rows and
// columns, every cell was tried, and none failed.
func TestConformanceTableIsCurrent(t *testing.T) {
	text, err := os.ReadFile(conformanceFile)
	if err != nil {
		t.Fatalf("%v (make it with `make conformance`)", err)
	}
	rows, have := cellsOf(text)
	want := []string{"behaviour", "---"}
	for _, b := range behaviours {
		want = append(want, b.name)
		for _, v := range Tested {
			if cell := have[b.name+v]; cell == "" || cell == "FAILED" || cell == "not tried" {
				t.Errorf("%s, codex %s: %q", b.name, v, cell)
			}
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are\n%q, want\n%q", rows, want)
	}
	for _, v := range Tested {
		if have["behaviour"+v] != v {
			t.Errorf("the column of %s says %q", v, have["behaviour"+v])
		}
	}
	if !bytes.HasSuffix(text, differencesTable()) {
		t.Error("what differs is not what versions.go says (run `make conformance`)")
	}
}

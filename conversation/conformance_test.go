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

	"fairlead.dev/fairlead/conversation/wire"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

// The conformance suite tries every behaviour that sessions rely on with the real codex:
// the pinned version, or every version in Tested with -conformance. If a version lacks a
// behaviour, versions.go says so, and the test of the behaviour shows what happens instead.

var writeConformance = flag.Bool("conformance", false, "try the conformance suite on every version, and write the table of its results")

// conformanceFile is written by `make conformance`.
var conformanceFile = filepath.Join("..", "docs", "reference", "conformance.md")

// A codex is the version of codex on which a behaviour is tried.
type codex struct {
	version string
	note    string // the table's text in place of yes
}

func (c *codex) has(t wire.Trait) bool { return wire.Has(c.version, t) }

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
	{"a turn ends when it has ended, with all that was said and nothing that was thought", answerIsWhole},
	{"a message that codex refuses begins no turn, and the next one does", refusedMessageBeginsNoTurn},
	{"a turn, its entries and its approvals have times", turnHasTimes},
	{"recorded conversation happens again", recordedConversationStillHappens},
	{"reports plans, servers, hooks, reroutes and sub-agents", reportsBesideTheItems},
	{"sub-agents that the model names are told apart", subAgentsHaveNames},
	{"bears in its messages what the table of versions says", messagesBearWhatTheTableSays},
	{"asks for safe commands, too, where they are to leave the sandbox", asksForSafeCommands},
	{"asks for what it may not do, command or change, under each policy and sandbox", asksUnderEachPolicyAndSandbox},
	{"asks so, too, under the profile that is planted with a seed", asksUnderTheGeneratedProfile},
	{"an accepted command runs, a declined change does not", acceptedCommandRunsAndDeclinedChangeDoesNot},
	{"what is accepted for the session is not asked again", acceptedForSessionIsNotAskedAgain},
	{"a change that is accepted for the session is that change alone", changeAcceptedForSessionIsThatChange},
	{"a cancelled approval ends the turn", cancelledApprovalEndsTheTurn},
	{"a tool of ours is called, and kept over a resume", ourToolIsCalled},
	{"our tools are kept in a fork and elsewhere, with one reply to each call", ourToolsAreCalled},
	{"a call is answered once whichever pump dies", toolReplyOfADeadPump},
	{"a call that was answered keeps nobody", answeredCallIsOver},
	{"more permissions are asked for, and given in part, for the session, or not", permissionsAreAskedFor},
	{"permissions beside a command are shown and given", permissionsBesideACommand},
	{"questions of the model are answered", questionsAreAnswered},
	{"our tool ask_human asks a person", humanIsAsked},
	{"a tool of an MCP server is called only after a yes to that call", toolsOfServersNeedAYes},
	{"a form of an MCP server is filled in", formsOfServersAreFilledIn},
	{"a page of an MCP server is shown", pagesOfServersAreShown},
	{"an amendment is a rule, and offered where it may be", amendmentsAreRules},
	{"of two answers to a request the first counts", firstAnswerCounts},
	{"a permission profile of ours holds, also at a resume", profileHolds},
	{"a profile says what commands may read and write, also at a resume", profileSaysWhatIsReadAndWritten},
	{"a profile says which hosts commands reach, also at a resume", profileSaysWhichHostsAreReached},
	{"an interrupt ends the turn and its command", interruptEndsTurnAndItsCommand},
	{"an interrupt that comes with its turn ends it", interruptReachesATurnThatOnlyBegins},
	{"an interrupted message is on record once", interruptedMessageIsOnRecordOnce},
	{"a turn over its budget is interrupted", turnOverItsBudgetIsInterruptedInTheRealCodex},
	{"a steer reaches the running turn", steerReachesTheTurn},
	{"a steer of another turn is refused", steerOfAnotherTurnIsRefused},
	{"an interrupt of a turn that has ended is refused", interruptOfAnEndedTurn},
	{"starting a turn in a turn steers it", turnStartInATurnSteers},
	{"reading the thread is answered behind a turn", barrierIsAnsweredBehindATurn},
	{"reading the thread is answered behind a steer", barrierIsAnsweredBehindASteer},
	{"a killed process's thread is resumed", killedProcessEndsThePumpAndThreadResumes},
	{"a resumed thread has its history in order, and none of it is an answer", resumedHistoryIsNoAnswer},
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
	{"a compaction and a review are turns, begun once", actsAreTurns},
	{"a review is interrupted, and takes no steer of another turn", reviewIsInterrupted},
	{"a review that fails leaves the next turn alone", reviewFailsAlone},
	{"what a dead process may have begun is not begun again", actOfADeadProcessIsVoid},
	{"reading the thread is answered behind a compaction and a review", actsAreBehindTheBarrier},
	{"its models are listed, and the thread is named", modelsAreListedAndTheThreadIsNamed},
	{"model and effort are switched for the next turn", modelIsSwitchedForTheNextTurn},
	{"an interrupt ends the children of its command", interruptEndsChildrenToo},
	{"images and files of a message reach the model", inputsReachTheModel},
	{"an output schema reaches the provider, for its turn", outputSchemaReachesTheProvider},
	{"instructions are kept over a restart and a compaction", instructionsAreKept},
	{"base instructions are replaced, also after a restart and in a fork", baseInstructionsAreReplaced},
	{"AGENTS.md of CODEX_HOME is read once, whole, before that of the work folder", agentsFileOfTheHomeIsRead},
	{"a personality is taken and kept", personalityIsTakenOrRefused},
	{"the first protocol is gone", firstProtocolIsGone},
	{"failures are classified", failuresOfTheRealCodexAreClassified},
	{"each watchdog strikes for its cause", eachWatchdogStrikesForItsCause},
	{"no watchdog strikes while a person or a model thinks", noWatchdogStrikesWhileSomebodyThinks},
	{"a line over the bound is on record", longLineIsOnRecord},
	{"a refused access token is refreshed within the turn, and in no file", refusedTokenIsRefreshedWithinTheTurnAndWrittenNowhere},
	{"a dead login fails the turn with what to do", deadLoginFailsTheTurnWithWhatToDo},
	{"a token that is refused anew ends the turn", tokenThatIsRefusedAnewEndsTheTurnAsAuth},
	{gatewayRow, gatewayServesIt},
}

// tried returns the versions that the suite runs on. Each version has its own recording, so
// with -update all versions are tried.
func tried() []string {
	if *writeConformance || *update {
		return published()
	}
	return []string{wire.TestedVersion}
}

// published returns the versions that exist for this machine.
func published() []string {
	if runtime.GOARCH == "arm64" {
		return slices.DeleteFunc(slices.Clone(wire.Tested), func(v string) bool { return v == "0.140.0" }) // never published for arm64, see deploy/versions.sh
	}
	return wire.Tested
}

func TestConformance(t *testing.T) {
	// Running a part of the suite renews only the cells of that part.
	old, err := os.ReadFile(conformanceFile)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	_, cells := cellsOf(old)
	// Rows run side by side, and each has its own part of all.
	all := make([][]*codex, len(behaviours))
	t.Cleanup(func() {
		for i, b := range behaviours {
			for _, c := range all[i] {
				if c.note != "" {
					cells[b.name+c.version] = c.note
				}
			}
		}
		if *writeConformance {
			if err := os.WriteFile(conformanceFile, conformanceTable(cells), 0o644); err != nil {
				t.Error(err)
			}
		}
	})
	for i, b := range behaviours {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			versions := tried()
			if b.name == gatewayRow && !slices.Contains(versions, wire.OldestVersion) {
				versions = append([]string{wire.OldestVersion}, versions...)
			}
			for _, v := range versions {
				c := &codex{version: v}
				all[i] = append(all[i], c)
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
	}
}

const conformanceHead = "# What holds on which codex\n\nMade by `make conformance`, which tries every row on the real codex of every version with a scripted model.\n" +
	"`make test` tries every row on the pinned version, that of the model gateway on the oldest version, too, and checks that this table has each behaviour and each version.\n\n"

func conformanceTable(cells map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString(conformanceHead)
	row(&b, append([]string{"behaviour"}, wire.Tested...)...)
	row(&b, strings.Split(strings.Repeat("--- ", len(wire.Tested)+1), " ")[:len(wire.Tested)+1]...)
	for _, one := range behaviours {
		line := []string{one.name}
		for _, v := range wire.Tested {
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

func differencesTable() []byte {
	var b bytes.Buffer
	b.WriteString("\n# What differs\n\nAll else that sessions use was the same on every version. Between two versions that were tried a trait is taken to be missing.\n\n")
	row(&b, "trait", "versions", "with it", "without")
	row(&b, "---", "---", "---", "---")
	for _, d := range wire.Differences {
		versions := "from " + d.Since + " on (not in " + d.Without + ")"
		if d.Gone != "" {
			versions = "before " + d.Gone
		}
		row(&b, string(d.Trait), versions, d.With, d.Lack)
	}
	return b.Bytes()
}

func row(b *bytes.Buffer, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func cellsOf(text []byte) (rows []string, cells map[string]string) {
	cells = map[string]string{}
	for line := range strings.Lines(string(text)) {
		all := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(all) != len(wire.Tested)+1 {
			continue
		}
		name := strings.TrimSpace(all[0])
		rows = append(rows, name)
		for i, v := range wire.Tested {
			cells[name+v] = strings.TrimSpace(all[i+1])
		}
	}
	return rows, cells
}

// TestConformanceTableIsCurrent checks that the committed table has today's rows
// and columns, that every cell was tried, and that none failed.
func TestConformanceTableIsCurrent(t *testing.T) {
	text, err := os.ReadFile(conformanceFile)
	if err != nil {
		t.Fatalf("%v (make it with `make conformance`)", err)
	}
	rows, have := cellsOf(text)
	want := []string{"behaviour", "---"}
	for _, b := range behaviours {
		want = append(want, b.name)
		for _, v := range wire.Tested {
			if cell := have[b.name+v]; cell == "" || cell == "FAILED" || cell == "not tried" {
				t.Errorf("%s, codex %s: %q", b.name, v, cell)
			}
		}
	}
	if !slices.Equal(rows, want) {
		t.Errorf("the rows are\n%q, want\n%q", rows, want)
	}
	for _, v := range wire.Tested {
		if have["behaviour"+v] != v {
			t.Errorf("the column of %s says %q", v, have["behaviour"+v])
		}
	}
	if !bytes.HasPrefix(text, []byte(conformanceHead)) {
		t.Error("it does not begin by saying what is tried when (run `make conformance`)")
	}
	if !bytes.HasSuffix(text, differencesTable()) {
		t.Error("what differs is not what versions.go says (run `make conformance`)")
	}
}

package conversation

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

var updateEndings = flag.Bool("endings", false, "write the table of endings")

var endingsFile = filepath.Join("..", "docs", "reference", "endings.md")

// producedBy names, for each kind, the test that causes it in reality.
var producedBy = map[string]string{
	protocol.EndAuth: "failuresOfTheRealCodexAreClassified", protocol.EndQuota: "failuresOfTheRealCodexAreClassified", protocol.EndRateLimit: "failuresOfTheRealCodexAreClassified",
	protocol.EndOverloaded: "failuresOfTheRealCodexAreClassified", "context_window": "failuresOfTheRealCodexAreClassified",
	protocol.EndModelNotFound: "failuresOfTheRealCodexAreClassified", "bad_request": "failuresOfTheRealCodexAreClassified",
	"network": "failuresOfTheRealCodexAreClassified", protocol.EndOther: "failuresOfTheRealCodexAreClassified",
	"sandbox":  "TestSessionThatCannotBeConfinedAsAskedIsNotPrepared",
	"protocol": "TestIdleThreadEndsATurnThatNeverSaidSo",

	protocol.EndProcessExit:  "killedProcessEndsThePumpAndThreadResumes",
	protocol.EndStartTimeout: "eachWatchdogStrikesForItsCause", protocol.EndRequestTimeout: "eachWatchdogStrikesForItsCause", protocol.EndTurnTimeout: "eachWatchdogStrikesForItsCause",
	protocol.EndSilent: "eachWatchdogStrikesForItsCause", protocol.EndQuietAfterTool: "eachWatchdogStrikesForItsCause",
	protocol.EndOversize:    "longLineIsOnRecord",
	protocol.EndBudget:      "turnOverItsBudgetIsInterruptedInTheRealCodex",
	"thread_missing":        "missingThreadIsRefusedAndNeverReplaced",
	"thread_busy":           "busyThreadIsRefused",
	protocol.EndHostLost:    "TestASessionOutlivesItsHost",
	protocol.EndInterrupted: "interruptEndsTurnAndItsCommand",
	protocol.EndAgentFailed: "finishedTurnCountsAsTheAgentSays",
	"version":               "TestPumpOpensNoThreadWithAVersionOutside",
}

func endingsTable() []byte {
	var b bytes.Buffer
	b.WriteString("# Why a turn ended\n\nMade from protocol.Endings by `go test ./conversation -run TestEveryEnding -endings`.\n\n")
	row(&b, "kind", "cause", "what to do", "test that brings it about")
	row(&b, "---", "---", "---", "---")
	for _, e := range protocol.Endings {
		row(&b, e.Kind, e.Cause, e.Hint, producedBy[e.Kind])
	}
	return b.Bytes()
}

func testsOfTheRepo(t *testing.T) map[string]bool {
	t.Helper()
	named, have := regexp.MustCompile(`(?m)^func (\w+)\(`), map[string]bool{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && name != "..":
			return filepath.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range named.FindAllSubmatch(text, -1) {
			have[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return have
}

func TestEveryEndingHasACauseAHintAndATest(t *testing.T) {
	have := testsOfTheRepo(t)
	var kinds []string
	for _, e := range protocol.Endings {
		switch by := producedBy[e.Kind]; {
		case slices.Contains(kinds, e.Kind):
			t.Errorf("%s is there twice", e.Kind)
		case e.Cause == "" || e.Hint == "" || protocol.HintOf(e.Kind) != e.Hint:
			t.Errorf("%+v says too little", e)
		case !have[by]:
			t.Errorf("%s is brought about by %q, and there is no such test", e.Kind, by)
		}
		kinds = append(kinds, e.Kind)
	}
	if len(producedBy) != len(protocol.Endings) {
		t.Errorf("%d kinds are tested, and there are %d", len(producedBy), len(protocol.Endings))
	}
	for word, kind := range kindOfInfo {
		if !slices.Contains(kinds, kind) {
			t.Errorf("%s is of kind %s, which is none", word, kind)
		}
	}
	for _, w := range wordings {
		if !slices.Contains(kinds, w.kind) {
			t.Errorf("%q is of kind %s, which is none", w.text, w.kind)
		}
	}
	if *updateEndings {
		if err := os.WriteFile(endingsFile, endingsTable(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(endingsFile); err != nil || !bytes.Equal(text, endingsTable()) {
		t.Errorf("docs/reference/endings.md is not what endings.go says (%v): renew it with -endings", err)
	}
}

package conversation

import (
	"strings"
	"testing"

	"fairlead.dev/fairlead/internal/protocol"
)

const forkedLine = `{"id":"g1.p9.thread.0","result":{"thread":{"id":"thread-2","cliVersion":"0.169.0"},"model":"m"}}`

func forkOf(source string) PumpInput {
	return PumpInput{
		State: PumpState{Cursor: protocol.Cursor{Incarnation: 1}, ThreadID: source}, Fork: true, Resume: true,
		Thread: ThreadSpec{CWD: "/w", Sandbox: "workspace-write", ApprovalPolicy: "never", Instructions: "be kind"},
		Sends:  []Send{turn(1, "m-1", "hello")},
	}
}

func TestForkHasAThreadOfItsOwnAndIsForkedOnce(t *testing.T) {
	const greeted = `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	s := perform(t, forkOf(ourThread), Options{})
	s.hear(greeted)
	fork := s.said[2]
	for _, part := range []string{`"method":"thread/fork"`, `"threadId":"thread-1"`, `"sandbox":"workspace-write"`, `"approvalPolicy":"never"`, `"cwd":"/w"`, `"excludeTurns":true`} {
		if !strings.Contains(fork, part) {
			t.Errorf("%s is not in %s", part, fork)
		}
	}
	if !strings.Contains(fork, `"developerInstructions":"be kind"`) {
		t.Errorf("its history has the instructions, until it is made shorter: they are to be said again: %s", fork)
	}
	s.hear(forkedLine)
	if last := s.said[len(s.said)-1]; !strings.Contains(last, `"threadId":"thread-2"`) || !strings.Contains(last, turnLine) {
		t.Errorf("the turn is not the fork's: %s", last)
	}
	if st := s.m.st; st.ThreadID != "thread-2" || st.ForkedFrom != ourThread || st.CodexVersion != "0.169.0" {
		t.Errorf("state %+v", st)
	}
	if e := s.sink.entries[0]; e.Status != "forked" || e.Data["thread"] != "thread-2" || e.Data["from"] != ourThread {
		t.Errorf("on record as %+v", e)
	}

	// An attempt that finds the answer does not fork again.
	s = perform(t, forkOf(ourThread), Options{Attempt: 2, Nonce: "n"}, greeted, forkedLine)
	if count(s.said, "thread/fork") != 0 || s.m.st.ThreadID != "thread-2" {
		t.Errorf("said %q, thread %s", s.said, s.m.st.ThreadID)
	}

	// The next process does not fork again either. It resumes the fork, even if the fork
	// had no turn.
	in := forkOf(ourThread)
	in.State, in.Resume = s.m.st, false
	in.State.Cursor, in.State.Rewind = protocol.Cursor{Incarnation: 2}, 0
	s = perform(t, in, Options{})
	s.hear(greeted)
	if count(s.said, "thread/resume") != 1 || count(s.said, "thread/fork") != 0 || !strings.Contains(s.said[2], `"threadId":"thread-2"`) {
		t.Errorf("the next process was told %q", s.said)
	}
}

func TestForkThatFailsIsRefusedAndReplacedByNothing(t *testing.T) {
	const greeted = `{"id":"g1.p9.initialize.0","result":{"userAgent":"f/0.169.0 (x)"}}`
	for name, c := range map[string]struct{ answer, kind string }{
		"no such thread": {`"error":{"code":-32600,"message":"no rollout found for thread id thread-1"}`, "thread_missing"},
		"parent missing": {`"error":{"code":-32600,"message":"invalid paginated history lineage for thread-0: missing source rollout"}`, "thread_missing"},
		"parent too short": {`"error":{"code":-32603,"message":"failed to read thread: thread-store internal error: failed to scan paginated model context lineage: /x.jsonl: cutoff byte offset is past the source rollout"}`,
			"thread_missing"},
		"archived":    {`"error":{"code":-32600,"message":"session thread-1 is archived. Run ` + "`codex unarchive thread-1`" + ` to unarchive it first."}`, "thread_missing"},
		"the same id": {`"result":{"thread":{"id":"thread-1"},"model":"m"}`, "protocol"},
	} {
		s := perform(t, forkOf(ourThread), Options{})
		s.hear(greeted, `{"id":"g1.p9.thread.0",`+c.answer+`}`)
		r := s.result(Refused)
		if r.Problem.Kind != c.kind || delivered(t, r, "m-1") != protocol.Decided || r.State.ThreadID != ourThread {
			t.Errorf("%s: problem %+v, deliveries %+v, thread %s", name, r.Problem, r.Deliveries, r.State.ThreadID)
		}
		if count(s.said, "thread/start") != 0 {
			t.Errorf("%s: a new thread was begun: %q", name, s.said)
		}
	}
}

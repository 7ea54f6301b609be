package conversation

import (
	"strings"
	"testing"
	"time"

	"fairlead.dev/fairlead/internal/protocol"
)

func TestApprovalWithoutACWDShowsWhereTheCommandRuns(t *testing.T) {
	ask := strings.Replace(asking(7, "c", "make"), `"cwd":"/w",`, ``, 1)
	in := PumpInput{State: running(), Thread: ThreadSpec{CWD: "/srv/work"}}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"the session's":         {[]string{ask}, "/srv/work"},
		"null":                  {[]string{strings.Replace(asking(7, "c", "make"), `"cwd":"/w"`, `"cwd":null`, 1)}, "/srv/work"},
		"the item's":            {[]string{started("c", "commandExecution", `,"command":"make","cwd":"/srv/other"`), ask}, "/srv/other"},
		"the item's, the same":  {[]string{started("c", "commandExecution", `,"command":"make","cwd":"/srv/work"`), ask}, "/srv/work"},
		"another item's":        {[]string{started("d", "commandExecution", `,"command":"make","cwd":"/srv/other"`), ask}, "/srv/work"},
		"its own":               {[]string{asking(7, "c", "make")}, "/w"},
		"of the first protocol": {[]string{`{"method":"execCommandApproval","id":7,"params":{"conversationId":"thread-1","callId":"c","command":["make"]}}`}, "/srv/work"},
		"for a host":            {[]string{strings.Replace(ask, `"command":"make"`, `"networkApprovalContext":{"host":"a.example","protocol":"https"}`, 1)}, "/srv/work"},
	} {
		s := perform(t, in, Options{})
		s.hear(c.lines[:len(c.lines)-1]...)
		if st := s.m.st; len(st.Items) > 0 { // another pump sees the request
			s.m.cancel(0)
			s = perform(t, PumpInput{State: s.result(PumpCancelled).State, Thread: in.Thread}, Options{})
		}
		s.hear(c.lines[len(c.lines)-1])
		s.wait(time.Second)
		r := s.result(RequestsOpen).Requests[0]
		if r.CWD != c.want || r.CheckDigest() != nil || r.Digested.Hidden {
			t.Errorf("%s: cwd %q, %v", name, r.CWD, r.CheckDigest())
		}
		if strings.Contains(c.lines[len(c.lines)-1], `"make"`) && !strings.Contains(c.lines[0], "execCommand") {
			if want := (&asked{Kind: protocol.KindCommand, Command: "make", CWD: c.want}).digest(); r.Digest != want {
				t.Errorf("%s: the digest is not that of what is shown", name)
			}
		}
		for _, e := range s.sink.entries {
			if e.Type == protocol.EntryRequest && e.CWD != c.want {
				t.Errorf("%s: entry %+v", name, e)
			}
		}
	}
}

package policy

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAnAcceptGrantsNothingThatItsRuleDidNotLookAt: if a request asks for more than a
// command or a file, people are asked, unless a rule looks at this too.
func TestAnAcceptGrantsNothingThatItsRuleDidNotLookAt(t *testing.T) {
	wants := func(s string) json.RawMessage { return json.RawMessage(s) }
	change := Request{Kind: FileChange, Work: "/w", Changes: []Change{{Path: "/w/a", Kind: "update"}}}
	command := Request{Kind: Command, Command: "/bin/bash -lc 'npm ci'", CWD: "/w", Work: "/w"}
	asks := Request{Kind: Permissions, Work: "/w", CWD: "/w"}
	with := func(r Request, change func(*Request)) Request { change(&r); return r }
	root := with(change, func(r *Request) { r.GrantRoot = "/" })
	moved := with(change, func(r *Request) { r.Changes = []Change{{Path: "/w/a", Kind: "update", MovedTo: "/etc/cron.d/x"}} })
	beside := with(change, func(r *Request) { r.Paths = []string{"/etc/passwd"} })
	write := with(command, func(r *Request) { r.Permissions = wants(`{"fileSystem":{"write":["/"]}}`) })
	read := with(command, func(r *Request) { r.Permissions = wants(`{"fileSystem":{"read":["/"]}}`) })
	network := with(command, func(r *Request) { r.Permissions = wants(`{"network":{"enabled":true}}`) })
	other := with(command, func(r *Request) { r.Permissions = wants(`{"gpu":true}`) })
	host := with(command, func(r *Request) { r.NetworkHost = "example.com" })
	stdin := with(command, func(r *Request) { r.Action = "writeStdin" })
	dot := with(command, func(r *Request) { r.NetworkHost = "." })
	hostAndWrite := with(host, func(r *Request) { r.Permissions = write.Permissions })
	more := with(asks, func(r *Request) {
		r.Permissions = wants(`{"fileSystem":{"write":["/w/out"],"read":["/etc"]},"network":{"enabled":true}}`)
	})
	odd := with(asks, func(r *Request) { r.Permissions = wants(`{"fileSystem":{"write":["/w/out"],"globScanMaxDepth":3}}`) })

	const files = `kind == "file_change" && changes.all(c, c.path.under(work))`
	exact := `command == "/bin/bash -lc 'npm ci'"`
	for name, c := range map[string]struct {
		when string
		r    Request
		want bool // accepted
	}{
		"a change":                         {files, change, true},
		"with a folder for the session":    {files, root, false},
		"looked at with all paths":         {`paths.under("/")`, root, false},
		"named":                            {files + ` && grant_root == "/"`, root, true},
		"named and under something":        {files + ` && grant_root.under("/")`, root, true},
		"named in the other half":          {files + ` || grant_root == "/x"`, root, false},
		"with a move":                      {files, moved, false},
		"a move looked at by paths":        {files + ` && paths.under("/")`, moved, true},
		"a move looked at":                 {`changes.all(c, c.path.under("/") && c.moved_to.under("/etc"))`, moved, true},
		"a move looked at in a list":       {`changes.map(c, c.moved_to).all(m, m.under("/etc"))`, moved, true},
		"a move that one change is of":     {`changes.exists(c, c.kind == "update" || c.moved_to == "")`, moved, false},
		"a move that may be looked at":     {`changes.all(c, c.kind == "update" || c.moved_to == "")`, moved, false},
		"another file beside the changes":  {files, beside, false},
		"a command":                        {exact, command, true},
		"by words":                         {`split(command) == ["npm", "ci"]`, command, true},
		"exact, with all to write":         {exact, write, false},
		"in a list, with all to write":     {`command in ["/bin/bash -lc 'npm ci'"]`, write, false},
		"split, with all to write":         {`split(command).starts(["npm", "ci"])`, write, false},
		"anything, with all to write":      {`true`, write, false},
		"exact, with all to read":          {exact, read, false},
		"exact, with the network":          {exact, network, false},
		"exact, with what nobody knows":    {exact, other, false},
		"naming what nobody knows":         {exact + ` && wants.other`, other, false},
		"exact, with a host":               {exact, host, false},
		"exact, with an odd host":          {exact, dot, false},
		"exact, with text for its input":   {exact, stdin, false},
		"named, write":                     {exact + ` && wants.write == ["/"]`, write, true},
		"named, read":                      {exact + ` && wants.read == ["/"]`, read, true},
		"named, network":                   {exact + ` && wants.network`, network, true},
		"named, host":                      {exact + ` && network_host == "example.com"`, host, true},
		"named, input":                     {exact + ` && action == "writeStdin"`, stdin, true},
		"another permission named":         {exact + ` && wants.read.size() == 0`, write, false},
		"the host, along with a write":     {`network_host.within("example.com") && split(command).starts(["npm", "ci"])`, hostAndWrite, false},
		"the host or the command":          {exact + ` || network_host == "example.org"`, host, false},
		"either way round":                 {`network_host == "example.org" || ` + exact, host, false},
		"whichever":                        {`(` + exact + ` && network_host != "") || network_host == "example.org"`, host, true},
		"not looked at where it is true":   {`!(network_host == "example.org" && command == "x")`, host, false},
		"looked at where it is not":        {`!(network_host == "example.org" || command == "x")`, host, true},
		"in one branch":                    {`turn == 0 ? ` + exact + ` : network_host == "x"`, host, false},
		"in both branches":                 {`turn == 0 ? network_host != "" : network_host == "x"`, host, true},
		"before the branches":              {`network_host == "" ? false : ` + exact, host, true},
		"for none of no labels":            {exact + ` && host.labels.all(k, network_host == "x")`, with(host, func(r *Request) { r.Host.Name = "h" }), false},
		"compared with what may not be so": {`(` + exact + ` || network_host == "x") == true`, host, false},
		"another thing of that name":       {exact + ` && [1].all(network_host, network_host == 1)`, host, false},
		"permissions by their kind alone":  {`kind == "permissions"`, more, false},
		"permissions, one of three":        {`wants.write.under(work)`, more, false},
		"permissions, all of three":        {`wants.write.under(work) && wants.read.under("/etc") && wants.network`, more, true},
		"permissions, and what is unknown": {`wants.write.under(work) && wants.other`, odd, false},
	} {
		v := mustParse(t, ruleFile(c.when)).Decide(c.r)
		if c.want != v.Outcome.accepts() {
			t.Errorf("%s: %s: %+v", name, c.when, v)
		}
		if !c.want && (v.Outcome != Ask || v.Rule != RuleUnknown) {
			t.Errorf("%s: %s: %+v, and a person should be asked by %s", name, c.when, v, RuleUnknown)
		}
	}
}

// TestAnAcceptNeedsTheFactsThatItLooksAt: two facts that are not filled in are equal, and
// neither equals a value that a rule excludes.
func TestAnAcceptNeedsTheFactsThatItLooksAt(t *testing.T) {
	whole := Request{Kind: Command, Command: "ls", CWD: "/w", Work: "/w", Session: "s", Model: "m", Requester: "alice", Digest: "d",
		Host: Host{Name: "web-1", Labels: map[string]string{"env": "dev"}}}
	files := Request{Kind: FileChange, Work: "/w", CWD: "/w", Changes: []Change{{Path: "a", Kind: "add"}}}
	for name, c := range map[string]struct {
		when  string
		r     Request
		empty func(*Request)
	}{
		"neither folder":        {`cwd == work`, whole, func(r *Request) { r.CWD, r.Work = "", "" }},
		"no work folder":        {`cwd != work + "/sub"`, whole, func(r *Request) { r.Work = "" }},
		"no folder":             {`cwd != "/"`, whole, func(r *Request) { r.CWD = "" }},
		"a folder of nowhere":   {`cwd == cwd`, whole, func(r *Request) { r.CWD = "w" }},
		"a folder through ..":   {`cwd == work`, whole, func(r *Request) { r.CWD = "/w/link/.." }},
		"no host":               {`host.labels.get("env") != "prod"`, whole, func(r *Request) { r.Host = Host{} }},
		"no host's name":        {`!host.name.startsWith("prod")`, whole, func(r *Request) { r.Host.Name = "" }},
		"no requester":          {`requester != "mallory"`, whole, func(r *Request) { r.Requester = "" }},
		"no session":            {`session != "x"`, whole, func(r *Request) { r.Session = "" }},
		"no model":              {`model != "x"`, whole, func(r *Request) { r.Model = "" }},
		"no digest":             {`digest != "x"`, whole, func(r *Request) { r.Digest = "" }},
		"a path of nowhere":     {`!paths.exists(p, p.under("/etc"))`, files, func(r *Request) { r.Work, r.CWD = "", "" }},
		"a change of nowhere":   {`!changes.exists(c, c.path.under("/etc"))`, files, func(r *Request) { r.Work, r.CWD = "", "" }},
		"a path through ..":     {`paths.under(work)`, files, func(r *Request) { r.Changes = []Change{{Path: "/w/link/../a", Kind: "add"}} }},
		"a path without a name": {`true`, files, func(r *Request) { r.Changes = []Change{{Kind: "add"}} }},
	} {
		p := mustParse(t, ruleFile(c.when))
		if v := p.Decide(c.r); v.Outcome != Accept {
			t.Errorf("%s: with all of them: %+v", name, v)
		}
		r := c.r
		c.empty(&r)
		if v := p.Decide(r); v.Outcome != Ask || v.Rule != RuleUnknown {
			t.Errorf("%s: %s: %+v", name, c.when, v)
		}
		// A decline needs no facts.
		declines := strings.Replace(ruleFile(c.when), "outcome: accept", "outcome: decline\n    reason: no", 1)
		if v := mustParse(t, declines).Decide(r); v.Rule != "it" {
			t.Errorf("%s declining: %+v", name, v)
		}
	}
	// The work folder comes from the session, so a relative one is a mistake of the caller.
	if v := mustParse(t, ruleFile("true")).Decide(Request{Kind: Command, Command: "ls", Work: "w"}); v.Outcome != Decline || v.Rule != RuleRequest {
		t.Errorf("a relative work folder: %+v", v)
	}
}

// TestADeclineThatCouldNotBeJudgedLetsNothingThrough: if the facts were known, an earlier
// rule would have declined the request, so a later accept does not count.
func TestADeclineThatCouldNotBeJudgedLetsNothingThrough(t *testing.T) {
	for when, fill := range map[string]func(*Request){
		`host.labels.get("env") == "prod"`: func(r *Request) { r.Host.Name = "web-1" },
		`requester == "mallory"`:           func(r *Request) { r.Requester = "alice" },
		`session.startsWith("x")`:          func(r *Request) { r.Session = "s" },
		`model == "x"`:                     func(r *Request) { r.Model = "m" },
		`digest == "x"`:                    func(r *Request) { r.Digest = "d" },
		`paths.exists(p, !p.under(work))`:  func(r *Request) { r.Work = "/w" },
	} {
		for _, outcome := range []string{"decline", "ask"} {
			p := mustParse(t, "rules:\n  - {name: first, outcome: "+outcome+", reason: no, when: '"+when+"'}\n  - {name: it, outcome: accept, when: plain}\n")
			r := Request{Kind: Command, Command: "ls"}
			if v := p.Decide(r); v.Outcome != Ask || v.Rule != RuleUnknown || !strings.Contains(v.Reason, `the earlier rule "first"`) {
				t.Errorf("%s, %s: %+v", when, outcome, v)
			}
			fill(&r)
			if v := p.Decide(r); v.Outcome != Accept {
				t.Errorf("%s, %s, with what it needs: %+v", when, outcome, v)
			}
			if v := p.Decide(Request{Kind: Command, Command: "ls; ls"}); v.Outcome != Ask || v.Rule != RuleDefault {
				t.Errorf("%s, %s, not accepted anyway: %+v", when, outcome, v)
			}
		}
	}
}

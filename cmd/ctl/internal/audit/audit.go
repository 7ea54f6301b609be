package audit

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/audit"
	"fairlead.dev/fairlead/internal/protocol"
)

// Command is `ctl audit`.
func Command(a *core.App) *cobra.Command {
	return core.Group("audit", "records of who did what", listCommand(a), exportCommand(a), verifyCommand(a))
}

// Bounds of what ctl reads, of a worker or of a file.
const (
	maxRecords = 2_000_000
	maxBytes   = 1 << 30
	// maxWorkflow bounds the id of a workflow.
	maxWorkflow = 512
)

// A filter says which records are wanted.
type filter struct {
	audit.Filter
	session string
	since   string
}

func (f *filter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.session, "session", "", "only records about session `ID`")
	c.Flags().StringVar(&f.Workflow, "workflow", "", "only records about the workflow or Schedule `ID`, as in pool/default, seed/team, batch/nightly or schedule/nightly")
	c.Flags().StringVar(&f.since, "since", "", "only records from a `TIME` on: 2026-05-04T12:00:00Z, or 24h for the last day")
}

func (f *filter) check(doing string) error {
	if f.session != "" {
		if err := core.CheckName("session id", f.session); err != nil {
			return err
		}
		if f.Workflow != "" {
			return core.Usage("%s: --session and --workflow are both given", doing)
		}
		f.Workflow = protocol.SessionID(f.session)
	}
	if len(f.Workflow) > maxWorkflow {
		return core.Usage("%s: the workflow id has %d bytes, and %d at most are allowed", doing, len(f.Workflow), maxWorkflow)
	}
	if f.since == "" {
		return nil
	}
	if d, err := time.ParseDuration(f.since); err == nil && d >= 0 {
		f.From = time.Now().Add(-d)
		return nil
	}
	at, err := time.Parse(time.RFC3339, f.since)
	if err != nil {
		return core.Usage("%s: --since %q is neither a time as in 2026-05-04T12:00:00Z nor a duration as in 24h", doing, f.since)
	}
	f.From = at
	return nil
}

// named says whose records are wanted.
func (f *filter) named() string {
	if f.session != "" {
		return "session " + f.session
	}
	return "workflow " + f.Workflow
}

// A reading is the records of the store, and those that workflows still have.
type reading struct {
	lines  []string
	told   told     // heads, as workflows and workers tell them
	silent []string // workflows that did not answer
	store  string   // id
	where  string   // address and namespace of Temporal
}

// A question says whom to ask for the heads of chains.
type question struct{ workers, workflows bool }

// read reads records. It asks the workflow that the filter names for its head, and others as ask
// says.
func read(ctx context.Context, a *core.App, doing string, f filter, ask question) (r reading, err error) {
	t, worker, err := conn.StoreWorker(ctx, a)
	if err != nil {
		return r, err
	}
	// Heads are read before the store, which may then have later records and must have all
	// earlier ones.
	r.told, r.where = told{}, t.Address+" "+t.Namespace
	if ask.workers {
		ofWorkers(ctx, a, t, r.told)
	}
	if st, err := worker.Status(ctx); err == nil {
		r.store = st.Store.ID
		if st.Audit != nil {
			r.told[st.Audit.Entity] = *st.Audit
		}
	}
	if ask.workflows && f.Workflow == "" {
		if r.lines, r.silent, err = ofWorkflows(ctx, a, t, doing, r.told); err != nil {
			return r, err
		}
	}
	if f.Workflow != "" {
		var v protocol.AuditView
		_, err := t.AskEither(ctx, doing, f.Workflow, protocol.QueryAudit, &v)
		switch {
		case err == nil:
			r.lines = v.Waiting
			if v.Head != nil {
				r.told[v.Head.Entity] = *v.Head
			}
		case core.ExitCode(err) == core.ExitNotFound:
			a.Note("Temporal no longer knows %s: nobody can tell which record was its newest", f.named())
		default:
			a.Note("%s does not tell its newest record: %v", f.named(), err)
		}
	}
	stored, err := gather(doing, worker.Audit(ctx, f.Workflow), maxRecords, maxBytes)
	r.lines = append(r.lines, stored...)
	return r, err
}

// gather reads lines up to these bounds.
func gather(doing string, all iter.Seq2[string, error], records, bytes int) (lines []string, _ error) {
	for line, err := range all {
		if err != nil {
			return nil, conn.APIFailure(doing, err)
		}
		if records, bytes = records-1, bytes-len(line); records < 0 || bytes < 0 {
			return nil, core.Failed("%s: there are more than %d records or %d bytes", doing, maxRecords, maxBytes).Hinted("name a session with --session, or a workflow with --workflow")
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func listCommand(a *core.App) *cobra.Command {
	var f filter
	c := &cobra.Command{
		Use: "list", Short: "who did what, and what was refused", Args: cobra.NoArgs,
		Long: `Lists records in the order of their time. Records of refused updates are in chains of the
workers that refused them. Nothing is verified: see ` + "`ctl audit verify`.",
		Example: "  ctl audit list --session release-42\n  ctl audit list --workflow pool/default\n  ctl audit list --since 24h -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "list audit records"
			if err := f.check(doing); err != nil {
				return err
			}
			r, err := read(c.Context(), a, doing, f, question{})
			if err != nil {
				return err
			}
			logs, fault := audit.Sort(r.lines)
			var all []audit.Record
			for _, l := range logs {
				for _, r := range l.Records {
					if f.Wants(r) {
						all = append(all, r)
					}
				}
			}
			slices.SortStableFunc(all, func(a, b audit.Record) int { return a.Time().Compare(b.Time()) })
			if err := core.ShowAll(a.Print(), all, func(p *core.Printer) { show(p, all) }); err != nil {
				return err
			}
			if fault != nil {
				return core.Failed("%s: what follows cannot be read: %v", doing, fault).Hinted("`ctl audit verify` names what does not hold")
			}
			return nil
		},
	}
	f.flags(c)
	return c
}

func show(p *core.Printer, all []audit.Record) {
	var rows [][]core.Cell
	for _, r := range all {
		outcome := core.Painted(core.Green, r.Outcome)
		if r.Outcome == audit.Refused {
			outcome = core.Painted(core.Red, r.Outcome)
		}
		at := r.Time().UTC().Format(time.RFC3339)
		rows = append(rows, []core.Cell{core.Painted(core.Dim, at), outcome, core.Painted(core.Bold, cell(r.Principal)), core.Plain(cell(r.Source)), core.Plain(cell(r.Verb)), core.Plain(cell(r.Object)), core.Plain(core.OneLine(r.Reason, 80))})
	}
	p.Table([]string{"AT", "OUTCOME", "PRINCIPAL", "SOURCE", "VERB", "OBJECT", "REASON"}, rows)
}

// cell returns a stranger's text for a table. It cannot begin another row.
func cell(text string) string { return core.OneLine(text, 200) }

func exportCommand(a *core.App) *cobra.Command {
	var f filter
	var evidence string
	var force bool
	c := &cobra.Command{
		Use: "export", Short: "records as JSON lines that sha256sum can verify", Args: cobra.NoArgs,
		Long: `Writes the exact lines of records, chain by chain, in the order of their seq. The field prev of
a line is the SHA-256 of the line before it. --since leaves out the beginnings of chains.

--evidence DIR also writes, for each signed record, files for ssh-keygen: what was signed
(SEQ.message) and the signature (SEQ.sig), in a folder for each chain. If a file is there with other
content, nothing is written (exit 6), unless --force is given.`,
		Example: "  ctl audit export --session release-42 > audit.jsonl\n  ctl audit export --since 720h --evidence evidence > audit.jsonl",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "export audit records"
			if err := f.check(doing); err != nil {
				return err
			}
			r, err := read(c.Context(), a, doing, f, question{})
			if err != nil {
				return err
			}
			logs, fault := audit.Sort(r.lines)
			if fault != nil {
				return core.Failed("%s: %v", doing, fault)
			}
			if evidence != "" {
				if err := writeEvidence(doing, evidence, logs, f, force); err != nil {
					return err
				}
			}
			p := a.Print()
			for _, l := range logs {
				for i, r := range l.Records {
					if f.Wants(r) {
						p.Exact(l.Lines[i] + "\n")
					}
				}
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().StringVar(&evidence, "evidence", "", "also write signatures and what was signed below `DIR`")
	c.Flags().BoolVar(&force, "force", false, "with --evidence: overwrite files that are there")
	return c
}

type verified struct{ audit.Verified }

func verifyCommand(a *core.App) *cobra.Command {
	var f filter
	var file, heads string
	var ask bool
	c := &cobra.Command{
		Use: "verify [FILE]", Short: "whether records were changed, removed or added", Args: cobra.MaximumNArgs(1),
		Long: `Verifies each chain of records and their signatures, and that no chain was cut off at its end or
removed. For that it compares the newest record of each chain with

  - the newest records that running workers report of their own chains;
  - the newest record that the workflow reports, with --session or --workflow; with --ask, those of
    all workflows that Temporal still knows, which takes a while;
  - the newest record that ctl itself verified before. ctl remembers the newest record of each
    chain that holds, in its state folder (mode 0600), or in the file that --heads names.

With FILE it verifies what ` + "`ctl audit export`" + ` wrote, and asks nobody; - is standard input. Then it
compares with what ctl saw only if --heads names a file. Exit 0: all chains hold.
Exit 1: some do not, and the first wrong record of each is named. Exit 4: all that was read holds,
but with --ask, some workflows do not answer. With --since, only chains with a record since then are
verified, from their beginnings.

With --access, ctl also compares each signature with the keys of an access file. A record is then
proved (a key that counts for its principal signed it), chained (nobody signed it, because a policy
or Fairlead made it, or it was refused) or unproved (its signature does not count). Exit 1: some
records are unproved. Use the access file that was in force then: a key that was removed or revoked
later proves nothing.`,
		Example: "  ctl audit verify --session release-42\n  ctl audit verify audit.jsonl\n  ctl audit verify audit.jsonl --access access.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			const doing = "verify audit records"
			if err := f.check(doing); err != nil {
				return err
			}
			var r reading
			var m *memory
			rules, err := rulesOf(a, doing, file)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				if ask {
					return core.Usage("%s: --ask and a FILE are both given: with a FILE, ctl asks no workflow", doing)
				}
				r.lines, err = fileLines(a, doing, args[0])
			} else {
				r, err = read(c.Context(), a, doing, f, question{workers: true, workflows: ask})
			}
			if err == nil && (len(args) == 0 || heads != "") {
				m, err = remembered(a, doing, heads, r)
			}
			if err != nil {
				return err
			}
			found, holding := audit.Check(r.lines, r.told, m.of(f), f.Filter, rulesOfAccess(rules))
			v := verified{found}
			if err := m.saw(holding); err != nil {
				a.Note("the newest records are not remembered: %v", err)
			}
			if err := a.Print().Show(v, func(p *core.Printer) { v.show(p) }); err != nil {
				return err
			}
			if !v.Holds {
				return core.ExitStatus(core.ExitFailed)
			}
			if n := len(r.silent); n > 0 {
				return core.Unreachable("%s: what was read holds, but a cut at the end of a chain may be hidden: no answer from %s; the first is %s", doing, core.CountOf(n, "workflow"), r.silent[0]).
					Hinted("are workers running? `ctl status` shows them; then verify again")
			}
			return nil
		},
	}
	f.flags(c)
	c.Flags().StringVar(&file, "access", "", "also judge each record by the keys of an access `FILE`")
	c.Flags().StringVar(&heads, "heads", "", "the `FILE` in which ctl remembers the newest record of each chain (default: audit-heads in its state folder)")
	c.Flags().BoolVar(&ask, "ask", false, "ask each workflow that Temporal still knows for its newest record")
	return c
}

// rulesOf reads an access file, or returns nil if none is named.
func rulesOf(a *core.App, doing, name string) (*access.Access, error) {
	if name == "" {
		return nil, nil
	}
	data, err := core.ReadSmall("--access", name, access.MaxFile)
	if err != nil {
		return nil, err
	}
	rules, err := access.Parse(data)
	if err != nil {
		return nil, core.Usage("%s: %s: %v", doing, name, err).Hinted("`ctl access check %s` finds the mistakes of an access file", name).Because(err)
	}
	return rules, nil
}

func fileLines(a *core.App, doing, name string) ([]string, error) {
	in := a.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, core.Usage("%s: %v", doing, err).Because(err)
		}
		defer file.Close()
		in = file
	}
	return readLines(doing, name, in, maxBytes)
}

func readLines(doing, name string, in io.Reader, bytes int) ([]string, error) {
	data, err := io.ReadAll(io.LimitReader(in, int64(bytes)+1))
	switch {
	case err != nil:
		return nil, core.Failed("%s: %s: %v", doing, name, err).Because(err)
	case len(data) > bytes:
		return nil, core.Usage("%s: %s has more than %d bytes", doing, name, bytes).Hinted("verify it in parts, a chain each")
	}
	return split(string(data)), nil
}

func split(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// rules are what an access file says of keys.
func rulesOfAccess(a *access.Access) *audit.Rules {
	if a == nil {
		return nil
	}
	return &audit.Rules{Digest: a.Digest, People: a.Signers(), Workers: a.Workers(), Revoked: a.Revoked}
}

// showProofs shows what each record's evidence is worth.
func (v verified) showProofs(p *core.Printer) {
	if v.Access == "" {
		return
	}
	styles := map[string]core.Style{audit.Proved: core.Green, audit.Chained: core.Dim, audit.Unproved: core.Red}
	var rows [][]core.Cell
	for _, r := range v.Proofs {
		rows = append(rows, []core.Cell{core.Plain(r.Seq), core.Painted(styles[r.Proof], r.Proof), core.Painted(core.Bold, cell(r.Principal)), core.Plain(cell(r.Verb)), core.Plain(core.OneLine(r.Reason, 200)), core.Painted(core.Dim, cell(r.Entity))})
	}
	p.Table([]string{"SEQ", "PROOF", "PRINCIPAL", "VERB", "WHY", "CHAIN"}, rows)
	p.Printf("%s\n", core.Clean(fmt.Sprintf("by the access file %s: %d proved, %d only chained, %d unproved", v.Access, v.Count(audit.Proved), v.Count(audit.Chained), v.Count(audit.Unproved))))
}

func (v verified) show(p *core.Printer) {
	v.showProofs(p)
	for _, f := range v.Faults {
		p.Printf("%s %s\n", p.Paint(core.Red, "does not hold:"), core.OneLine(f.Error(), 4000))
	}
	for _, s := range v.Strays {
		p.Printf("%s %s\n", p.Paint(core.Yellow, "beside the chain:"), core.OneLine(fmt.Sprintf("another record %d of %s, of %s (%s by %s): the worker died before the command was accepted, and it did nothing then",
			s.Seq, s.Entity, s.At, s.Verb, s.Principal), 4000))
	}
	text := fmt.Sprintf("%d records in %d chains", v.Records, v.Chains)
	text += fmt.Sprintf("; the newest records of %d chains were compared with what their writers tell, and of %d with what ctl saw before", v.Heads, v.Remembered)
	if v.Holds {
		p.Printf("%s %s\n", p.Paint(core.Green, "hold:"), text)
		return
	}
	p.Printf("looked at %s\n", text)
}

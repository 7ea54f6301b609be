package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/start"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/batchfile"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/snapshots"
	"fairlead.dev/fairlead/snapshots/chunks"
	"fairlead.dev/fairlead/workflows/session"
)

// A Local is a checked batch file, not sent yet.
type Local struct {
	*batchfile.File
	Name string
	data []byte
	sets map[string]*itemSet // by the items' flags
}

// An itemSet is shared by items with the same flags.
type itemSet struct {
	opt   session.Options
	work  start.WorkspaceFlags
	with  start.Extras
	flags []batchfile.Flag
	line  int
	err   error
	flag  string // the cause of err
}

// Read reads a batch file; "-" is standard input.
func Read(a *core.App, path string) (*Local, error) {
	b := &Local{Name: path, sets: map[string]*itemSet{}}
	var err error
	if path == "-" {
		b.Name = "standard input"
		b.data, err = io.ReadAll(io.LimitReader(a.In, batchfile.MaxFile+1))
	} else {
		var f *os.File
		if f, _, err = core.OpenRegular("batch", path); err == nil {
			defer f.Close()
			b.data, err = io.ReadAll(io.LimitReader(f, batchfile.MaxFile+1))
		}
	}
	var e *core.Error
	switch {
	case errors.As(err, &e):
		return nil, err
	case err != nil:
		return nil, core.Failed("read %s: %v", b.Name, err)
	}
	kinds, names := sessionFlagKinds()
	b.File, err = batchfile.Parse(b.data, batchfile.Options{
		Name: b.Name, Names: names, Kinds: flows.RetryKinds(),
		Flags: func(name string) batchfile.FlagKind { return kinds[name] },
		Check: func(it batchfile.Item) (string, error) {
			set := b.set(a, it)
			return set.flag, set.err
		},
	})
	if err != nil {
		return nil, core.Usage("%v", err).Hinted("nothing was started; `ctl batch check FILE` looks again")
	}
	return b, nil
}

// notInBatch are session flags without use in a batch.
var notInBatch = []string{"id", "park-after"}

func sessionFlags() (*pflag.FlagSet, *start.Flags, *start.InputFlags) {
	var f start.Flags
	var with start.InputFlags
	c := &cobra.Command{}
	f.Add(c, "")
	with.Add(c, false)
	return c.Flags(), &f, &with
}

func sessionFlagKinds() (kinds map[string]batchfile.FlagKind, names []string) {
	kinds = map[string]batchfile.FlagKind{}
	flags, _, _ := sessionFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(notInBatch, f.Name) {
			return
		}
		kind := batchfile.OneValue
		switch f.Value.Type() {
		case "bool":
			kind = batchfile.Truth
		case "stringArray", "stringSlice":
			kind = batchfile.Many
		}
		kinds[f.Name] = kind
		names = append(names, f.Name)
	})
	return kinds, names
}

// flagNamed finds the flag in an error message.
var flagNamed = regexp.MustCompile(`--([a-z][a-z0-9-]*)`)

func (b *Local) set(a *core.App, it batchfile.Item) *itemSet {
	key := ""
	for _, f := range it.Flags {
		key += fmt.Sprintf("%s=%q\n", f.Name, f.Values)
	}
	if s := b.sets[key]; s != nil {
		return s
	}
	s := &itemSet{flags: it.Flags, line: it.Line}
	b.sets[key] = s
	fail := func(flag string, err error) *itemSet {
		s.flag, s.err = flag, err
		var e *core.Error
		if errors.As(err, &e) && e.Hint != "" {
			s.err = fmt.Errorf("%w (%s)", err, e.Hint)
		}
		return s
	}
	flags, f, with := sessionFlags()
	for _, fl := range it.Flags {
		for _, v := range fl.Values {
			if err := flags.Set(fl.Name, v); err != nil {
				return fail(fl.Name, fmt.Errorf("%s: %q: %w", fl.Name, core.OneLine(v, 80), core.UnwrapAll(err)))
			}
		}
	}
	var err error
	if s.opt, err = start.Options(a, f); err == nil {
		s.with, err = with.Look()
	}
	if err != nil {
		flag := ""
		if m := flagNamed.FindStringSubmatch(err.Error()); m != nil {
			flag = m[1]
		}
		return fail(flag, err)
	}
	s.work = f.Work
	s.opt.CloseAfter, s.opt.ParkAfter = true, 0
	return s
}

// spare is for suffixes of session names, such as .t99.
const spare = 4

// Named refuses sessions' names that are too long.
func (b *Local) Named(id string) error {
	if err := core.CheckName("batch id", id); err != nil {
		return err
	}
	for _, it := range b.Items {
		if n := len(id) + 1 + len(it.ID) + spare; n > 63 {
			return core.Usage("%s: line %d, column %d: item %s of batch %s: its session's name would have %d letters, at most 63", b.Name, it.Line, it.Column, it.ID, id, n).
				Hinted("give shorter ids")
		}
	}
	return nil
}

// CheckNames reports all unknown hosts and seeds. It names host local where that is the only
// one.
func (b *Local) CheckNames(ctx context.Context, a *core.App, t *conn.Conn) error {
	var problems []string
	var first *core.Error
	seen := map[string]session.Options{}
	for _, key := range core.SortedKeys(b.sets) {
		s := b.sets[key]
		what := fmt.Sprintf("%s %s %s %s %v %q", s.opt.Zone, s.opt.Host, s.opt.Seed, s.opt.SeedPool, s.opt.Labels, s.opt.Select)
		if like, is := seen[what]; is {
			s.opt.Host, s.opt.Elsewhere = like.Host, like.Elsewhere
			continue
		}
		err := t.CheckNames(ctx, &s.opt)
		seen[what] = s.opt
		if err == nil {
			continue
		}
		var e *core.Error
		if !errors.As(err, &e) || e.Code == core.ExitUnreachable {
			return err
		}
		if first == nil {
			first = e
		}
		problems = append(problems, fmt.Sprintf("line %d: %s", s.place(), e.Message))
	}
	if first == nil {
		return nil
	}
	slices.Sort(problems)
	return core.NewError(first.Code, first.Kind, "%s: %s", b.Name, strings.Join(problems, "\n  ")).Hinted("nothing was started; %s", first.Hint)
}

// place returns the line for errors of start.CheckNames.
func (s *itemSet) place() int {
	for _, f := range s.flags {
		if slices.Contains([]string{"host", "seed", "seed-pool", "zone", "credentials"}, f.Name) {
			return f.Line
		}
	}
	return s.line
}

// An activity reads a whole page for each start.
const (
	pageItems = 50
	pageBytes = 2 << 20
)

// Pack uploads the items under folder for the workflow.
func (b *Local) Pack(ctx context.Context, a *core.App, t *conn.Conn, folder string) (protocol.BatchSpec, error) {
	spec := protocol.BatchSpec{Total: len(b.Items), Window: b.Window, StopAfter: b.StopAfter, File: b.Name,
		Retry: protocol.BatchRetry{Attempts: b.Retry.Attempts, On: b.Retry.On, Wait: b.Retry.Wait, AfterEffects: b.Retry.AfterEffects}}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return spec, err
	}
	quiet := a.Flags.Quiet
	defer func() { a.Flags.Quiet = quiet }() // Attach sets Quiet for an output schema, as for a single session
	sets := map[*itemSet]protocol.Message{}
	sent := sentTrees{}
	p := pageMaker{numbers: map[*itemSet]int{}}
	flush := func(next int) error {
		if len(p.page.Items) == 0 {
			return nil
		}
		stored, err := worker.PutBatchPage(ctx, folder, p.page)
		if err != nil {
			return conn.APIFailure("keep the items", err)
		}
		spec.Pages = append(spec.Pages, protocol.BatchPages{First: next - len(p.page.Items), Blob: stored.Blob})
		p = pageMaker{numbers: map[*itemSet]int{}}
		return nil
	}
	for i, it := range b.Items {
		s := b.set(a, it)
		with, known := sets[s]
		if !known {
			if err := start.Attach(ctx, a, t, folder, s.with, &with); err != nil {
				return spec, err
			}
			if err := sent.send(ctx, a, t, folder, s); err != nil {
				return spec, err
			}
			if err := start.KeepGiven(ctx, a, t, folder, &s.opt); err != nil {
				return spec, err
			}
			sets[s] = with
		}
		m, err := start.Message(ctx, a, t, folder, it.Prompt, "item")
		if err != nil {
			return spec, err
		}
		m.Inputs, m.Schema, m.SchemaBlob = with.Inputs, with.Schema, with.SchemaBlob
		if err := p.add(it, s, m); err != nil {
			return spec, err
		}
		if len(p.page.Items) == pageItems || p.bytes > pageBytes {
			if err := flush(i + 1); err != nil {
				return spec, err
			}
		}
	}
	return spec, flush(len(b.Items))
}

// sentTrees maps folders' digests to snapshots: many items upload the same folder.
type sentTrees map[chunks.Digest]string

func (sent sentTrees) send(ctx context.Context, a *core.App, t *conn.Conn, folder string, s *itemSet) error {
	tree := s.work.Tree
	if tree != nil && sent[tree.Digest] != "" {
		s.opt.Workspace.Snapshot = sent[tree.Digest]
		return nil
	}
	err := s.work.Send(ctx, a, t, UploadName(tree), folder, &s.opt)
	if tree != nil && err == nil {
		sent[tree.Digest] = s.opt.Workspace.Snapshot
	}
	return err
}

// UploadName returns an owner for an uploaded folder. No session or batch has that name, so
// pruning them spares the snapshot.
func UploadName(t *snapshots.LocalTree) string {
	if t == nil {
		return "" // nothing is uploaded
	}
	return fmt.Sprintf("up-%.12s-%s", t.Digest, core.RandomID())
}

// A pageMaker fills a page, shared options once.
type pageMaker struct {
	page    protocol.BatchPage
	numbers map[*itemSet]int
	bytes   int
}

func (p *pageMaker) add(it batchfile.Item, s *itemSet, m protocol.Message) error {
	n, known := p.numbers[s]
	if !known {
		raw, err := json.Marshal(s.opt)
		opt := protocol.BatchOptions{Queue: protocol.TaskQueueOf(s.opt.Zone)}
		if err == nil {
			err = json.Unmarshal(raw, &opt.Session)
		}
		if err != nil {
			return core.Failed("pack item %s: %v", it.ID, err)
		}
		n = len(p.page.Options)
		p.numbers[s] = n
		p.page.Options = append(p.page.Options, opt)
		p.bytes += len(raw)
	}
	first, err := json.Marshal(m)
	if err != nil {
		return core.Failed("pack item %s: %v", it.ID, err)
	}
	p.bytes += len(first)
	p.page.Items = append(p.page.Items, protocol.BatchItem{ID: it.ID, Options: n, First: first})
	return nil
}

// request identifies a batch for --key by settings and by contents of named files and
// folders, not by formatting.
func (b *Local) request(a *core.App) []any {
	out := []any{b.Window, b.StopAfter, b.Retry}
	sets := map[*itemSet]int{}
	for _, it := range b.Items {
		s := b.set(a, it)
		n, known := sets[s]
		if !known {
			n = len(sets)
			sets[s] = n
			out = append(out, conn.Anybodys(s.opt), s.with.Named())
		}
		out = append(out, it.ID, it.Prompt, n)
	}
	return out
}

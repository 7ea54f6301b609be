package access

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// Command is `ctl access`.
func Command(a *core.App) *cobra.Command {
	return core.Group("access", "who may do what, by the access file", checkCommand(a), whyCommand(a), showCommand(a), versionsCommand(a))
}

// read reads an access file, by default that of the config. Its error lists every mistake.
func read(a *core.App, doing, name string) (*access.Access, error) {
	if name == "" {
		conf, err := a.Config()
		if err != nil {
			return nil, err
		}
		if name = conf.Access; name == "" {
			return nil, core.Usage("%s: no access file is named", doing).Hinted("give --file FILE, or set access in the config")
		}
	}
	data, err := a.Input(doing, name)
	if err != nil {
		return nil, err
	}
	parsed, err := access.Parse(data)
	if err != nil {
		return nil, core.Usage("%s: %s: %v", doing, name, err).Hinted("fix the file; workers go on with the last good one").Because(err)
	}
	return parsed, nil
}

func checkCommand(a *core.App) *cobra.Command {
	var key string
	c := &cobra.Command{
		Use: "check FILE", Short: "find the mistakes of an access file, and what is probably not meant", Args: cobra.ExactArgs(1),
		Long: `Reads an access file as workers do. Exit 0: the file is valid; what is probably a mistake is
written as a warning to standard error. Exit 2: the file is broken; every mistake is shown with its
line. - is standard input. --worker-key names the key of a worker, and --config the config of one:
then ctl also warns if the file does not list that key under workers.`,
		Example: "  ctl access check access.yaml\n  ctl access check access.yaml --config worker.yaml\n  ctl access check access.yaml --worker-key worker.pub",
		RunE: func(c *cobra.Command, args []string) error {
			const doing = "check access file"
			f, err := read(a, doing, args[0])
			if err != nil {
				return err
			}
			v := f.View()
			warning, err := unlisted(a, doing, f, key)
			if err != nil {
				return err
			}
			if warning != "" {
				v.Warnings = append(v.Warnings, warning)
			}
			return reveal(a, args[0], v)
		},
	}
	c.Flags().StringVar(&key, "worker-key", "", "the private or public key `FILE` of a worker (default: worker_key of the config)")
	return c
}

// maxKeyFile is far more than a key has.
const maxKeyFile = 64 << 10

// unlisted returns a warning if the access file does not list the key of the worker, or "".
func unlisted(a *core.App, doing string, f *access.Access, name string) (string, error) {
	from := "--worker-key"
	if name == "" {
		conf, err := a.Config()
		if err != nil {
			return "", err
		}
		if from, name = "worker_key", conf.WorkerKey; name == "" {
			return "", nil
		}
	}
	data, err := core.ReadSmall(from, name, maxKeyFile)
	if err != nil {
		return "", err
	}
	line, known, err := f.KnowsWorker(data)
	switch {
	case err != nil:
		return "", core.Usage("%s: read the worker's key %s: %v", doing, name, err).Hinted("name the file of the public key: that needs no passphrase").Because(err)
	case known:
		return "", nil
	}
	return fmt.Sprintf("workers: the key of the worker is not listed, or is revoked: %s (%s). A worker with this key does not start: list the key under workers, or make another one with ssh-keygen", line, name), nil
}

// reveal shows a file, and its warnings on standard error.
func reveal(a *core.App, name string, v access.View) error {
	if err := a.Print().Show(v, func(p *core.Printer) { show(p, v) }); err != nil {
		return err
	}
	for _, w := range v.Warnings {
		a.Note("warning: %s%s", strings.TrimPrefix(name+": ", ": "), w)
	}
	return nil
}

func showCommand(a *core.App) *cobra.Command {
	var file, version string
	var raw bool
	c := &cobra.Command{
		Use: "show", Short: "people, groups and bindings of the access file", Args: cobra.NoArgs,
		Long: `Shows the file of --file, or access of the config. Without either, it asks a worker for the
file that is in force there. --version shows a file that was in force, by its digest or the
beginning of it: ` + "`ctl access versions`" + ` lists them. Reading a file from a worker needs access.read. --raw writes
the file as it is, with its comments.`,
		Example: "  ctl access show\n  ctl access show --file access.yaml -o json\n  ctl access show --version 3f2a91c04b77 --raw > access.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "show access"
			conf, err := a.Config()
			switch {
			case err != nil:
				return err
			case file != "" && version != "":
				return core.Usage("%s: --file and --version are both given", doing)
			case version != "" || file == "" && conf.Access == "":
				return showKept(c.Context(), a, doing, version, raw)
			case raw:
				data, err := a.Input(doing, cmp.Or(file, conf.Access))
				if err != nil {
					return err
				}
				return writeRaw(a, data)
			}
			f, err := read(a, doing, file)
			if err != nil {
				return err
			}
			return reveal(a, file, f.View())
		},
	}
	fileFlag(c, &file)
	c.Flags().StringVar(&version, "version", "", "an access file that was in force, by its `DIGEST`")
	c.Flags().BoolVar(&raw, "raw", false, "write the file as it is")
	return c
}

func fileFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "file", "", "the access `FILE` (default: access of the config)")
}

func show(p *core.Printer, v access.View) {
	var rows [][]core.Cell
	for _, b := range v.Bindings {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, b.Name), core.Plain(join(b.Roles)), core.Plain(strings.Join(b.To, ", ")), core.Plain(core.OneLine(b.When, 80))})
	}
	p.Table([]string{"BINDING", "ROLES", "TO", "WHEN"}, rows)
	p.Printf("\n")
	rows = nil
	for _, who := range v.People {
		rows = append(rows, []core.Cell{core.Painted(core.Bold, who.Name), core.Plain(strings.Join(who.Groups, ", ")), core.Plain(join(who.Roles)), core.Plain(strings.Join(who.Keys, " "))})
	}
	p.Table([]string{"PERSON", "GROUPS", "ROLES", "KEYS"}, rows)
	p.Printf("\n")
	p.Fields(core.Plain("digest"), core.Painted(core.Dim, v.Digest))
}

func join[T ~string](all []T) string {
	var b []string
	for _, v := range all {
		b = append(b, string(v))
	}
	return strings.Join(b, ", ")
}

// acts has the verbs of the words of commands.
var acts = map[string]access.Verb{
	"read": access.SessionRead, "start": access.SessionStart, "run": access.SessionStart, "send": access.SessionMessage, "message": access.SessionMessage,
	"interrupt": access.SessionInterrupt, "set": access.SessionSet, "park": access.SessionPark, "resume": access.SessionPark, "move": access.SessionPark,
	"close": access.SessionClose, "exec": access.SessionExec, "accept": access.ApprovalDecide, "decline": access.ApprovalDecide, "cancel": access.ApprovalDecide,
	"answer": access.ApprovalDecide, "grant": access.ApprovalDecide, "decide": access.ApprovalDecide, "snapshot": access.SnapshotWrite,
}

func verbOf(word string) (access.Verb, error) {
	if v, ok := acts[word]; ok {
		return v, nil
	}
	if slices.Contains(access.Verbs, access.Verb(word)) {
		return access.Verb(word), nil
	}
	return "", fmt.Errorf("%.40q is no verb: use one of %s, or of %s", word, strings.Join(slices.Sorted(maps.Keys(acts)), ", "), join(access.Verbs))
}

func whyCommand(a *core.App) *cobra.Command {
	var file, zone string
	var groups []string
	c := &cobra.Command{
		Use: "why WHO VERB [OBJECT]", Short: "which binding allows a request, or why none does", Args: cobra.RangeArgs(2, 3),
		Long: `Answers as a worker would. OBJECT is a session, an approval, host:NAME, seed:NAME or
tenant:NAME. VERB is the word of a command, such as accept, or a verb such as approval.decide.
For host:NAME, ctl asks the host's zone for its labels. If it cannot, it says that they are not
known, and no condition on them holds.
Exit 0: a binding allows it. Exit 6: none does. ctl reads the file of --file, or access of the
config. Without either, it asks a worker: each person may ask about themselves, and people with
access.read about others. WHO may be token:NAME. The owner of that token must be allowed the same.
If ctl reads a file, it asks a worker for the token, which needs token.write.`,
		Example: "  ctl access why alice accept release-42.1\n  ctl access why alice start\n  ctl access why bob host.exec host:web-1 --file access.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			doing := fmt.Sprintf("whether %s may %s", args[0], strings.Join(args[1:], " "))
			var err error
			r := access.Request{Who: args[0], Groups: groups}
			if r.Verb, err = verbOf(args[1]); err != nil {
				return core.Usage("%s: %v", doing, err)
			}
			if len(args) == 3 {
				if r.Object, err = object(c.Context(), a, conn.Open, doing, zone, args[2]); err != nil {
					return err
				}
			}
			answer, err := decide(c.Context(), a, doing, file, r)
			if err != nil {
				return err
			}
			v := answerView{Who: r.Who, Verb: r.Verb, Object: r.Object, Answer: answer}
			if err := a.Print().Show(v, func(p *core.Printer) { explain(p, v) }); err != nil {
				return err
			}
			if !answer.Allowed {
				return core.ExitStatus(core.ExitRefused)
			}
			return nil
		},
	}
	fileFlag(c, &file)
	c.Flags().StringSliceVar(&groups, "group", nil, "a `GROUP` that the login names, in addition to those of the file")
	c.Flags().StringVar(&zone, "zone", "", "the zone of host:NAME")
	return c
}

// decide answers by a file, or asks a worker, which answers by its own file.
func decide(ctx context.Context, a *core.App, doing, file string, r access.Request) (answer access.Answer, err error) {
	conf, err := a.Config()
	if err != nil {
		return answer, err
	}
	if file == "" && conf.Access == "" {
		return askWhy(ctx, a, doing, r)
	}
	f, err := read(a, doing, file)
	if err != nil {
		return answer, err
	}
	name, is := access.TokenName(r.Who)
	if !is {
		return f.Decide(r), nil
	}
	t, err := tokenOf(ctx, a, doing, name)
	if err != nil {
		return answer, err
	}
	return f.DecideToken(t, r, time.Now()), nil
}

// askWhy asks a worker.
func askWhy(ctx context.Context, a *core.App, doing string, r access.Request) (answer access.Answer, err error) {
	err = conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) (err error) {
		ctx, cancel := a.Bounded(ctx, conn.WorkerWait)
		defer cancel()
		answer, err = w.Why(ctx, api.WhyAsked{Who: r.Who, Groups: r.Groups, Verb: r.Verb, Object: r.Object})
		return err
	})
	err = conn.APIFailure(doing, err)
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.ExitUnreachable {
		e.Hint = strings.TrimPrefix(e.Hint+"; or give --file FILE: then ctl reads that file and asks no worker", "; ")
	}
	return answer, err
}

// tokenOf asks a worker about an API token.
func tokenOf(ctx context.Context, a *core.App, doing, name string) (access.Token, error) {
	var all []access.Token
	err := conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) (err error) {
		ctx, cancel := a.Bounded(ctx, conn.WorkerWait)
		defer cancel()
		all, err = w.APITokens(ctx)
		return err
	})
	if err != nil {
		return access.Token{}, conn.APIFailure(doing, err)
	}
	i := slices.IndexFunc(all, func(t access.Token) bool { return t.Name == name })
	if i < 0 {
		return access.Token{}, core.NotFound("%s: there is no token %s", doing, name)
	}
	return all[i], nil
}

type answerView struct {
	Who    string        `json:"who"`
	Verb   access.Verb   `json:"verb"`
	Object access.Object `json:"object"`
	access.Answer
}

func explain(p *core.Printer, v answerView) {
	if v.Allowed {
		p.Printf("%s %s\n", p.Paint(core.Green, "yes:"), core.Clean(fmt.Sprintf("binding %q, line %d, allows %s", v.Binding, v.Line, v.Verb)))
	} else {
		p.Printf("%s %s\n", p.Paint(core.Red, "no:"), core.Clean(v.Reason))
	}
	for _, b := range v.Passed {
		p.Printf("%s\n", core.Clean(fmt.Sprintf("    binding %q, line %d: %s", b.Binding, b.Line, b.Reason)))
	}
}

// An opener connects to Temporal.
type opener func(context.Context, *core.App) (*conn.Conn, error)

// object returns what conditions see of an object. It asks the session or the host's zone.
func object(ctx context.Context, a *core.App, open opener, doing, zone, name string) (access.Object, error) {
	if kind, rest, ok := strings.Cut(name, ":"); ok {
		switch kind {
		case "host":
			return hostObject(ctx, a, open, doing, zone, rest)
		case "seed":
			return access.Object{Seed: rest}, nil
		case "tenant":
			return access.Object{Tenant: rest}, nil
		}
		return access.Object{}, core.Usage("%s: %.100q is no object: name a session, an approval, host:NAME, seed:NAME or tenant:NAME", doing, name)
	}
	session := name
	if s, _, ok := core.CutLast(name); ok {
		session = s
	}
	t, err := open(ctx, a)
	if err != nil {
		return access.Object{}, err
	}
	var o access.Object
	_, err = t.AskEither(ctx, doing, protocol.SessionID(session), protocol.QueryObject, &o)
	var e *core.Error
	if errors.As(err, &e) && e.Code == core.ExitNotFound && session != name {
		_, err = t.AskEither(ctx, doing, protocol.SessionID(name), protocol.QueryObject, &o) // its id ends in a number
	}
	return o, err
}

// hostObject returns what conditions see of a host. Without its labels, conditions on other
// facts can still be answered.
func hostObject(ctx context.Context, a *core.App, open opener, doing, zone, name string) (access.Object, error) {
	o := access.Object{Host: name}
	if err := core.CheckName("host name", name); err != nil {
		return o, err
	}
	t, err := open(ctx, a)
	var h protocol.HostView
	if err == nil {
		h, err = t.Host(ctx, doing, zone, name)
	}
	switch {
	case ctx.Err() != nil:
		return o, err
	case err != nil:
		a.Note("the labels of host %s are not known, so no condition on them holds: %v", name, err)
	case h.Labels == nil:
		o.HostLabels = map[string]string{}
	default:
		o.HostLabels = h.Labels
	}
	return o, nil
}

package approval

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
)

// maxSecret bounds reading a secret answer; codex takes less.
const maxSecret = 1 << 20

func answerCommand(a *core.App) *cobra.Command {
	var f decideFlags
	var secrets []string
	c := &cobra.Command{
		Use: "answer ID [KEY=]VALUE...", Short: "answer codex's questions, or fill in a form", Args: cobra.MinimumNArgs(1),
		Long: `Answers the questions of an approval by their keys, which ` + "`ctl approval show`" + ` names. An
option is chosen by its label or its number; a key that takes several is given several
times. A single question may be answered without its key. At a terminal, what is not
answered on the command line is asked; /decline and /cancel there send that instead.

A secret answer is read from a file, from standard input (-), or typed without being
shown where --secret has no value. It is sealed into the workers' store, and stays
there until the session is closed, so that it can be hidden in what codex says: it is in
no command line, message, transcript or log.` + decideLong,
		Example: `  ctl approval answer release-42.3 blue
  ctl approval answer release-42.4 region=eu-1 tags=1 tags=3 notify=true
  pass show deploy | ctl approval answer release-42.5 user=ci --secret password=-`,
		RunE: func(c *cobra.Command, args []string) error {
			return decide(c.Context(), a, f.decide(args[0], "answer"), func(ctx context.Context, t *conn.Conn, seen *protocol.Approval, d *protocol.Decide) error {
				return fillAnswers(ctx, a, t, seen, d, args[1:], secrets)
			})
		},
	}
	c.Flags().StringArrayVar(&secrets, "secret", nil, "a secret answer: `KEY=FILE`, KEY=- for standard input, KEY to type it unseen; repeatable")
	f.add(c)
	return c
}

// fillAnswers sets answers from the command line and asks for missing ones. The person may
// decline or cancel instead.
func fillAnswers(ctx context.Context, a *core.App, t *conn.Conn, seen *protocol.Approval, d *protocol.Decide, args, secrets []string) error {
	doing := "answer approval " + d.Approval
	if seen == nil {
		return answersUnseen(doing)
	}
	ap, err := asksQuestions(ctx, a, t, doing, *seen)
	if err != nil {
		return err
	}
	g := given{questions: ap.Questions, plain: map[string][]string{}, secret: map[string][]string{}}
	for _, arg := range args {
		if err := g.take(arg); err != nil {
			return core.Usage("%s: %v", doing, err).Hinted("`ctl approval show %s` has the questions", ap.ID)
		}
	}
	for _, arg := range secrets {
		if err := takeSecret(ctx, a, doing, arg, &g); err != nil {
			return err
		}
	}
	if a.MayAsk() {
		word, err := askRest(ctx, a, t, ap, &g)
		if err != nil {
			return err
		}
		if word != "" { // the answers so far are dropped
			d.Outcome = word
			return nil
		}
	}
	return putAnswers(ctx, a, t, doing, ap, g, d)
}

// asksQuestions returns an approval in full; it must have questions.
func asksQuestions(ctx context.Context, a *core.App, t *conn.Conn, doing string, ap protocol.Approval) (protocol.Approval, error) {
	ap, err := whole(ctx, a, t, ap)
	if err != nil {
		return ap, err
	}
	if len(ap.Questions) == 0 {
		return ap, core.Usage("%s: a %s asks no question", doing, ap.Kind).Hinted("%s are offered", strings.Join(ap.Offered, ", "))
	}
	return ap, nil
}

// answersUnseen refuses answers to unread questions: one may be secret, and Temporal keeps
// a signal's answers.
func answersUnseen(doing string) error {
	return core.Unreachable("%s: the questions cannot be read now, so ctl cannot know which answers are secret", doing).
		Hinted("answer once a worker is up (`ctl status`); accept, decline and cancel can be left with --digest")
}

func setAnswers(d *protocol.Decide, answers map[string][]string) (err error) {
	if len(answers) > 0 {
		d.Answers, err = json.Marshal(answers)
	}
	return err
}

// given holds the answers so far. Secret ones must not be in the decision, because Temporal
// keeps it.
type given struct {
	questions     []protocol.Question
	plain, secret map[string][]string
}

func (g *given) question(id string) *protocol.Question {
	i := slices.IndexFunc(g.questions, func(q protocol.Question) bool { return q.ID == id })
	if i < 0 {
		return nil
	}
	return &g.questions[i]
}

func (g *given) answered(id string) bool {
	return len(g.plain[id])+len(g.secret[id]) > 0
}

// take reads KEY=VALUE, or VALUE for a single question.
func (g *given) take(arg string) error {
	key, value, ok := strings.Cut(arg, "=")
	q := g.question(key)
	if q == nil || !ok {
		if len(g.questions) != 1 {
			var ids []string
			for _, q := range g.questions {
				ids = append(ids, q.ID)
			}
			return errors.New(strconv.Quote(core.OneLine(arg, 40)) + " is not KEY=VALUE with the key of a question (" + strings.Join(ids, ", ") + ")")
		}
		q, value = &g.questions[0], arg
	}
	if q.Secret {
		return errors.New("the answer to " + q.ID + " is secret: give it by --secret " + q.ID + "=FILE (or - for standard input)")
	}
	g.plain[q.ID] = append(g.plain[q.ID], choose(*q, value))
	return nil
}

// choose finds an option by its label, in any case, or number. It returns other text
// unchanged.
func choose(q protocol.Question, said string) string {
	for _, o := range q.Options {
		if o.Label == said {
			return said
		}
	}
	for _, o := range q.Options {
		if strings.EqualFold(o.Label, strings.TrimSpace(said)) {
			return o.Label
		}
	}
	if n, err := strconv.Atoi(strings.TrimSpace(said)); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1].Label
	}
	return said
}

// takeSecret reads a secret answer. Its errors never contain the answer.
func takeSecret(ctx context.Context, a *core.App, doing, arg string, g *given) error {
	key, from, named := strings.Cut(arg, "=")
	q := g.question(key)
	if q == nil {
		return core.Usage("%s: --secret: no question has the key %q", doing, core.OneLine(key, 40))
	}
	if g.answered(key) {
		return core.Usage("%s: %q is answered twice", doing, key)
	}
	var text string
	var err error
	switch {
	case !named, from == "-" && core.IsTerminal(a.In): // typed unseen
		if !named && !a.MayAsk() {
			return core.Usage("%s: --secret %s: there is no terminal to type it at", doing, key).Hinted("--secret %s=FILE, or %s=- for standard input", key, key)
		}
		text, err = a.AnswerUnseen(ctx, core.Clean(key)+" (not shown) >")
	case from == "-":
		text, err = readSecret(a.In)
	default:
		var file *os.File
		if file, err = os.Open(from); err == nil {
			text, err = readSecret(file)
			file.Close()
		}
	}
	switch {
	case errors.Is(err, core.ErrInterrupted):
		return err
	case err != nil:
		return core.Usage("%s: read the secret answer to %s: %v", doing, key, err)
	case text == "":
		return core.Usage("%s: the secret answer to %s is empty", doing, key)
	}
	g.secret[key] = []string{choose(*q, text)}
	return nil
}

// readSecret reads all of r without the last line ending.
func readSecret(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = errors.New("it is longer than 1 MiB")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), err
}

// putAnswers checks answers by the session's rules. A worker seals secret ones.
func putAnswers(ctx context.Context, a *core.App, t *conn.Conn, doing string, ap protocol.Approval, g given, d *protocol.Decide) error {
	var apart []string
	var here []protocol.Question
	for _, q := range g.questions {
		if len(g.secret) == 0 || len(g.plain[q.ID]) > 0 {
			here = append(here, q)
			apart = append(apart, q.ID)
		}
	}
	if len(here) > 0 {
		plain, err := activities.CheckAnswers(here, g.plain)
		if err != nil {
			return core.Usage("%s: %v", doing, err).Hinted("`ctl approval show %s` has the questions", ap.ID)
		}
		if err := setAnswers(d, plain); err != nil {
			return err
		}
	}
	if len(g.secret) == 0 {
		return nil
	}
	worker, err := conn.WorkerFor(ctx, a, t, ap.Session)
	if err != nil {
		return err
	}
	in := api.SecretAnswers{Answers: g.secret, Apart: apart}
	if ap.Signed && (ap.Missing > 1 || len(ap.Agreed) > 0) { // approvers sign the sealed answers' name, so equal answers need equal names
		in.Approval = ap.ID
	}
	stored, err := worker.PutAnswers(ctx, ap.Session, ap.Digest, in)
	if err != nil {
		return conn.APIFailure(doing, err)
	}
	d.AnswersBlob = stored.Blob
	return nil
}

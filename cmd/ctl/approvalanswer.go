package main

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
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/workflows"
)

// maxSecret bounds a secret answer as it is read. The limit for codex is lower.
const maxSecret = 1 << 20

func approvalAnswerCommand(a *app) *cobra.Command {
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
			return a.decide(c.Context(), f.decide(args[0], "answer"), func(ctx context.Context, t *temporal, seen *workflows.Approval, d *workflows.Decide) error {
				return a.fillAnswers(ctx, t, seen, d, args[1:], secrets)
			})
		},
	}
	c.Flags().StringArrayVar(&secrets, "secret", nil, "a secret answer: `KEY=FILE`, KEY=- for standard input, KEY to type it unseen; repeatable")
	f.add(c)
	return c
}

// fillAnswers sets a decision's answers from the command line, and asks a person for the
// missing ones. The person may decline or cancel instead, which changes the outcome.
func (a *app) fillAnswers(ctx context.Context, t *temporal, seen *workflows.Approval, d *workflows.Decide, args, secrets []string) error {
	doing := "answer approval " + d.Approval
	if seen == nil {
		return answersUnseen(doing)
	}
	ap, err := a.asksQuestions(ctx, t, doing, *seen)
	if err != nil {
		return err
	}
	g := given{questions: ap.Questions, plain: map[string][]string{}, secret: map[string][]string{}}
	for _, arg := range args {
		if err := g.take(arg); err != nil {
			return usage("%s: %v", doing, err).hinted("`ctl approval show %s` has the questions", ap.ID)
		}
	}
	for _, arg := range secrets {
		if err := a.takeSecret(ctx, doing, arg, &g); err != nil {
			return err
		}
	}
	if a.mayAsk() {
		word, err := a.askRest(ctx, t, ap, &g)
		if err != nil {
			return err
		}
		if word != "" { // the answers given so far are dropped
			d.Outcome = word
			return nil
		}
	}
	return a.putAnswers(ctx, t, doing, ap, g, d)
}

// asksQuestions returns the whole of an approval, or an error if it asks no questions.
func (a *app) asksQuestions(ctx context.Context, t *temporal, doing string, ap workflows.Approval) (workflows.Approval, error) {
	ap, err := a.whole(ctx, t, ap)
	if err != nil {
		return ap, err
	}
	if len(ap.Questions) == 0 {
		return ap, usage("%s: a %s asks no question", doing, ap.Kind).hinted("%s are offered", strings.Join(ap.Offered, ", "))
	}
	return ap, nil
}

// answersUnseen refuses answers while the questions cannot be read. One of the questions
// may be secret, and the answers in a signal stay in Temporal's history.
func answersUnseen(doing string) error {
	return unreachable("%s: what is asked, and what of it is secret, cannot be told just now", doing).
		hinted("answer once a worker is up (`ctl status`); accept, decline and cancel can be left with --digest")
}

func setAnswers(d *workflows.Decide, answers map[string][]string) (err error) {
	if len(answers) > 0 {
		d.Answers, err = json.Marshal(answers)
	}
	return err
}

// given holds the answers collected so far. Plain answers go into the decision; secret ones
// must not, because Temporal keeps it.
type given struct {
	questions     []activities.Question
	plain, secret map[string][]string
}

func (g *given) question(id string) *activities.Question {
	i := slices.IndexFunc(g.questions, func(q activities.Question) bool { return q.ID == id })
	if i < 0 {
		return nil
	}
	return &g.questions[i]
}

func (g *given) answered(id string) bool {
	return len(g.plain[id])+len(g.secret[id]) > 0
}

// take reads KEY=VALUE, or only VALUE if there is one question.
func (g *given) take(arg string) error {
	key, value, ok := strings.Cut(arg, "=")
	q := g.question(key)
	if q == nil || !ok {
		if len(g.questions) != 1 {
			var ids []string
			for _, q := range g.questions {
				ids = append(ids, q.ID)
			}
			return errors.New(strconv.Quote(oneLine(arg, 40)) + " is no KEY=VALUE with the key of a question (" + strings.Join(ids, ", ") + ")")
		}
		q, value = &g.questions[0], arg
	}
	if q.Secret {
		return errors.New("the answer to " + q.ID + " is secret: give it by --secret " + q.ID + "=FILE (or - for standard input)")
	}
	g.plain[q.ID] = append(g.plain[q.ID], choose(*q, value))
	return nil
}

// choose finds the option with this label (in any case) or this number. Any other text is
// returned as it is.
func choose(q activities.Question, said string) string {
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

// takeSecret reads a secret answer from the place that --secret names. Its errors never
// contain the answer.
func (a *app) takeSecret(ctx context.Context, doing, arg string, g *given) error {
	key, from, named := strings.Cut(arg, "=")
	q := g.question(key)
	if q == nil {
		return usage("%s: --secret: %q is the key of none of the questions", doing, oneLine(key, 40))
	}
	if g.answered(key) {
		return usage("%s: %q is answered twice", doing, key)
	}
	var text string
	var err error
	switch {
	case !named, from == "-" && isTerminal(a.in): // typed by a person, and not shown
		if !named && !a.mayAsk() {
			return usage("%s: --secret %s: there is no terminal to type it at", doing, key).hinted("--secret %s=FILE, or %s=- for standard input", key, key)
		}
		text, err = a.answerUnseen(ctx, clean(key)+" (not shown) >")
	case from == "-":
		text, err = readSecret(a.in)
	default:
		var file *os.File
		if file, err = os.Open(from); err == nil {
			text, err = readSecret(file)
			file.Close()
		}
	}
	switch {
	case errors.Is(err, errInterrupted):
		return err
	case err != nil:
		return usage("%s: read the secret answer to %s: %v", doing, key, err)
	case text == "":
		return usage("%s: the secret answer to %s is empty", doing, key)
	}
	g.secret[key] = []string{choose(*q, text)}
	return nil
}

// readSecret reads to the end of r, without the last line ending.
func readSecret(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxSecret+1))
	if err == nil && len(data) > maxSecret {
		err = errors.New("it is longer than 1 MiB")
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), err
}

// putAnswers checks the answers by the same rules as the session. Secret answers are sealed
// by a worker; the others go into the decision.
func (a *app) putAnswers(ctx context.Context, t *temporal, doing string, ap workflows.Approval, g given, d *workflows.Decide) error {
	var apart []string
	var here []activities.Question
	for _, q := range g.questions {
		if len(g.secret) == 0 || len(g.plain[q.ID]) > 0 {
			here = append(here, q)
			apart = append(apart, q.ID)
		}
	}
	if len(here) > 0 {
		plain, err := activities.CheckAnswers(here, g.plain)
		if err != nil {
			return usage("%s: %v", doing, err).hinted("`ctl approval show %s` has the questions", ap.ID)
		}
		if err := setAnswers(d, plain); err != nil {
			return err
		}
	}
	if len(g.secret) == 0 {
		return nil
	}
	worker, err := a.workerFor(ctx, t, ap.Session)
	if err != nil {
		return err
	}
	in := api.SecretAnswers{Answers: g.secret, Apart: apart}
	if ap.Signed && (ap.Missing > 1 || len(ap.Agreed) > 0) { // several people must agree: equal answers get the same name, which is what they sign
		in.Approval = ap.ID
	}
	stored, err := worker.PutAnswers(ctx, ap.Session, ap.Digest, in)
	if err != nil {
		return apiFailure(doing, err)
	}
	d.AnswersBlob = stored.Blob
	return nil
}

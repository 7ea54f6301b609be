package approval

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
)

func reviseCommand(a *core.App) *cobra.Command {
	var f decideFlags
	var text, file string
	c := &cobra.Command{
		Use: "revise ID", Short: "send a delivered file back with comments", Args: cobra.ExactArgs(1),
		Long: `Sends a delivered file back with comments. codex gets the comments as the result of its
delivery, and can change the file and deliver it again. That is another approval. Only
approvals of the kind deliverable can be revised.` + decideLong,
		Example: "  ctl approval revise release-42.1 --comments 'name the author of each change'\n  ctl approval revise release-42.1 --comments-file review.md",
		RunE: func(c *cobra.Command, args []string) error {
			comments, err := commentsOf(a, args[0], text, file)
			if err != nil {
				return err
			}
			d := f.decide(args[0], string(protocol.Revise))
			if err := setComments(&d, comments); err != nil {
				return err
			}
			return decide(c.Context(), a, d, func(_ context.Context, _ *conn.Conn, seen *protocol.Approval, _ *protocol.Decide) error {
				if seen != nil && !slices.Contains(seen.Offered, string(protocol.Revise)) {
					return core.Refused("revise approval %s: a %s cannot be revised", args[0], seen.Kind).Hinted("%s are offered", strings.Join(seen.Offered, ", "))
				}
				return nil
			})
		},
	}
	c.Flags().StringVar(&text, "comments", "", "what is to be changed: a `TEXT`")
	c.Flags().StringVar(&file, "comments-file", "", "the `FILE` that says what is to be changed; - is standard input")
	f.add(c)
	return c
}

// commentsOf returns the comments of the flags.
func commentsOf(a *core.App, id, text, file string) (string, error) {
	doing := "revise approval " + id
	switch {
	case text != "" && file != "":
		return "", core.Usage("--comments and --comments-file: give one of them")
	case file != "":
		data, err := a.Input(doing, file)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	text = strings.TrimSpace(text)
	if _, err := protocol.Comments(map[string][]string{protocol.CommentsAnswer: {text}}); err != nil {
		return "", core.Usage("%s: %v", doing, err).Hinted("--comments TEXT, or --comments-file FILE")
	}
	return text, nil
}

func setComments(d *protocol.Decide, comments string) error {
	return setAnswers(d, map[string][]string{protocol.CommentsAnswer: {comments}})
}

// revise asks for comments. ok is false if none are given.
func (q *asking) revise() (d protocol.Decide, ok bool, err error) {
	s, err := q.line("what is to be changed; Enter goes back >", false)
	if err != nil || s == "" {
		return d, false, err
	}
	if _, err := protocol.Comments(map[string][]string{protocol.CommentsAnswer: {s}}); err != nil {
		q.p.Printf("%s\n", core.Clean(err.Error()))
		return d, false, nil
	}
	d = protocol.Decide{Outcome: string(protocol.Revise)}
	return d, true, setComments(&d, s)
}

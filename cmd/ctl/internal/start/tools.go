package start

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/teamtool"
	"fairlead.dev/fairlead/workflows/session"
)

type toolFlags struct {
	names   string
	verdict bool
}

func (f *toolFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.names, "tools", "none", "tools that codex may call: NAMES of ask_human (asks you a question), deliver (hands over a file), finish (says that the task is done, or that it failed: then the turn fails), report_progress (says how far it is), separated by commas; or all; or none. Instead of these, or as one more item, the `FILE` (.yaml, .yml or .json) with tools of your own")
	c.Flags().BoolVar(&f.verdict, "deliver-verdict", false, "a person judges each file that codex hands over with the tool deliver: accept, revise with comments, or decline (ctl approval); codex waits for the verdict")
}

// set takes names of our tools, and the file of a team's, which is told from a name by its
// slash or its ending.
func (f *toolFlags) set(opt *session.Options) error {
	var names []string
	for _, word := range strings.Split(f.names, ",") {
		switch word = strings.TrimSpace(word); {
		case !isToolFile(word):
			names = append(names, word)
		case opt.TeamTools != nil:
			return core.Usage("--tools: more than one file of tools is given").Hinted("put all tools into one")
		default:
			data, err := core.ReadSmall("--tools", word, protocol.MaxGiven)
			if err != nil {
				return err
			}
			if opt.TeamTools, err = teamtool.Parse(data); err != nil {
				return core.Usage("--tools %s: %v", word, err).Hinted("docs/how-to/give-codex-tools-of-your-own.md shows such a file")
			}
		}
	}
	switch {
	case len(names) == 0, len(names) == 1 && (names[0] == "none" || names[0] == ""):
	case len(names) == 1 && names[0] == "all":
		opt.Tools = pumps.Tools()
	default:
		if err := pumps.CheckTools(names); err != nil {
			return core.Usage("--tools: %v", err).Hinted("or all, or none, or a FILE that ends in .yaml, .yml or .json")
		}
		slices.Sort(names) // equal sets are equal requests
		opt.Tools = names
	}
	if opt.Verdict = f.verdict; f.verdict && !slices.Contains(opt.Tools, protocol.ToolDeliver) {
		return core.Usage("--deliver-verdict: the session does not offer the tool deliver").Hinted("--tools deliver, or --tools all")
	}
	return nil
}

func isToolFile(word string) bool {
	return strings.Contains(word, "/") || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(word))
}

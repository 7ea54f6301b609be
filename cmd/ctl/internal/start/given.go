package start

import (
	"context"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/workflows/session"
)

// threadFlags say what codex is told before all messages.
type threadFlags struct{ instructions, developer, base, personality string }

func (f *threadFlags) add(c *cobra.Command) {
	fl := c.Flags()
	fl.StringVar(&f.instructions, "instructions", "", "instructions that codex reads before the first message, in AGENTS.md of its CODEX_HOME, after those of the organisation and the seed: a `TEXT`, or the FILE that has it")
	fl.StringVar(&f.developer, "developer-instructions", "", "instructions in the role of the developer, which the model ranks above AGENTS.md: a `TEXT`, or the FILE that has it")
	fl.StringVar(&f.base, "base-instructions", "", "the `FILE` with base instructions that replace codex's own, which say how codex works and uses its tools")
	fl.StringVar(&f.personality, "personality", "", "how codex speaks: none, friendly or pragmatic (codex before 0.169)")
}

func (f *threadFlags) set(opt *session.Options) error {
	own, err := textOrFile("--instructions", f.instructions, protocol.MaxGiven)
	if err != nil {
		return err
	}
	developer, err := textOrFile("--developer-instructions", f.developer, protocol.MaxInstructions)
	if err != nil {
		return err
	}
	base := ""
	if f.base != "" {
		data, err := core.ReadSmall("--base-instructions", f.base, protocol.MaxGiven)
		if err != nil {
			return err
		}
		base = string(data)
	}
	for flag, g := range map[string]struct{ given, text string }{"--instructions": {f.instructions, own}, "--base-instructions": {f.base, base}} {
		if g.given == "" {
			continue
		}
		if strings.TrimSpace(g.text) == "" {
			return core.Usage("%s: the text is blank", flag).Hinted("leave %s out to give none", flag)
		}
		if err := protocol.Give(g.text).Check(flag, nil); err != nil {
			return core.Usage("%v", err)
		}
	}
	if err := activities.CheckPersonality(f.personality); err != nil {
		return core.Usage("--personality: %v", err)
	}
	opt.Agents, opt.Base = protocol.Give(own), protocol.Give(base)
	opt.Instructions, opt.Personality = developer, f.personality
	return nil
}

// textOrFile returns a text, or what the file of that name has.
func textOrFile(flag, text string, most int) (string, error) {
	// A text without spaces is a file name, even if there is no such file.
	if _, err := os.Stat(text); text != "" && (err == nil || !strings.ContainsFunc(text, unicode.IsSpace)) {
		data, err := core.ReadSmall(flag, text, most)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	if len(text) > most {
		return "", core.Usage("%s: %d bytes, at most %d", flag, len(text), most)
	}
	if !utf8.ValidString(text) {
		return "", core.Usage("%s is not UTF-8 text", flag)
	}
	return text, nil
}

// KeepGiven uploads long instructions and tools under folder.
func KeepGiven(ctx context.Context, a *core.App, t *conn.Conn, folder string, opt *session.Options) error {
	for _, g := range []**protocol.GivenText{&opt.Agents, &opt.Base} {
		if *g == nil || len((*g).Text) <= protocol.MaxGivenInline {
			continue
		}
		worker, err := conn.AnyWorker(ctx, a, t)
		if err != nil {
			return err
		}
		stored, err := worker.PutMessage(ctx, folder, (*g).Text)
		if err != nil {
			return conn.APIFailure("keep the instructions", err)
		}
		kept := **g // the options of others may share it
		kept.Text, kept.Blob = "", stored.Blob
		*g = &kept
	}
	if g := opt.TeamTools; g != nil && len(g.Text) > maxToolsInline {
		worker, err := conn.AnyWorker(ctx, a, t)
		if err != nil {
			return err
		}
		stored, err := worker.PutMessage(ctx, folder, g.Text)
		if err != nil {
			return conn.APIFailure("keep the tools", err)
		}
		kept := *g
		kept.Text, kept.Blob = "", stored.Blob
		opt.TeamTools = &kept
	}
	return nil
}

// maxToolsInline bounds tools that are not put into the store: each pump gets them.
const maxToolsInline = 1 << 10

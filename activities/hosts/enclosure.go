package hosts

import (
	"context"
	"fmt"
	"path"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/seeds"
)

// enclosure hides the folders of all sessions below root, which is free of links, from the
// commands of one of them.
func enclosure(l protocol.Layout, root string) *seeds.Enclosure {
	return enclosureIn(path.Join(root, "sessions"), l)
}

// enclosureIn is enclosure for a place in another folder than that of sessions.
func enclosureIn(holder string, l protocol.Layout) *seeds.Enclosure {
	l.Dir = path.Join(holder, path.Base(l.Dir))
	e := &seeds.Enclosure{Holder: holder, Boxes: []string{l.Box()}, Fixed: []string{folder.Inputs(l)}, Free: []string{l.Tmp()}}
	if l.OwnWork {
		e.Free = append(e.Free, path.Join(l.Box(), "work"))
	}
	return e
}

const hintApart = "provision the host with codex " + NewestCodex + ", use a login user other than root there, or give people who must not see each other's work different login users"

// trialEnclosure hides the same from the commands of a trial, which has a CODEX_HOME of its own.
func trialEnclosure(e *seeds.Enclosure, l protocol.Layout, root string) *seeds.Enclosure {
	own := path.Join(root, "sessions", path.Base(l.Dir), "trial", "box")
	return &seeds.Enclosure{
		Holder: e.Holder, Free: e.Free, Boxes: append([]string{own}, e.Boxes...), Fixed: append([]string{path.Join(e.Boxes[0], "codex-home")}, e.Fixed...),
	}
}

// laterSession names the folder of a made-up session that a trial prepares later than its own.
// A session cannot have this name.
func laterSession(holder, id string) string { return path.Join(holder, ".later-"+id) }

// laterScript makes the folder of a session: $1, with a text in place of its credential and
// its work: $2.
const laterScript = `umask 077
mkdir -p -- "$1/secret" "$1/box/codex-home" "$1/box/work" && for f in secret/auth.json box/codex-home/history.jsonl box/work/file; do
	printf '%s\n' "$2" >"$1/$f" || exit 1
done`

// hiddenBy returns the paths that commands of a trial must not read, and first makes the
// session that comes later, if the trial has one.
func hiddenBy(ctx context.Context, h hostexec.Host, in trialIn) ([]string, error) {
	if in.later == "" {
		return in.private, nil
	}
	if _, err := h.Run(ctx, hostexec.Command{Script: laterScript, Args: []string{in.later, "made-up"}, Fence: in.fence}); err != nil {
		return nil, fmt.Errorf("make up a session that is prepared later: %w", err)
	}
	hidden := []string{in.later, path.Join(in.later, "secret", "auth.json"), path.Join(in.later, "box", "codex-home", "history.jsonl"), path.Join(in.later, "box", "work", "file")}
	return append(hidden, in.private...), nil
}

// hasSessions reports whether the folder of sessions is there.
func hasSessions(ctx context.Context, h hostexec.Host, sessions string) (bool, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: `[ ! -d "$1" ] || echo y`, Args: []string{sessions}})
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", sessions, err)
	}
	return len(res.Stdout) > 0, nil
}

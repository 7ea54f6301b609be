package hosts

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/internal/protocol"
)

//go:embed codexlook.sh
var lookScript string

// Exit statuses of lookScript.
const (
	lookChanged = 95
	lookCannot  = 96
)

const (
	lookTimeout = 10 * time.Minute
	maxSeen     = 32 << 10 // of what stat says: it travels with each start
	maxNamed    = 8        // files that a message names
)

// A changedError says that a codex package is not what was put there.
type changedError struct {
	dir   string
	files []string
}

func (e *changedError) Error() string {
	return fmt.Sprintf("codex in %s is not what was put there: %s", e.dir, e.what())
}

// what names the files.
func (e *changedError) what() string {
	named := e.files[:min(len(e.files), maxNamed)]
	text := strings.Join(named, ", ")
	if n := len(e.files) - len(named); n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	if text == "" {
		return "its folder"
	}
	return text
}

const (
	hintChanged = "somebody who may log in there as the host's user changes codex, perhaps a command that somebody accepted to run outside the sandbox: " +
		"find out who; then `ctl host provision` puts codex there anew"
	hintInPlace = "this is the worker's own codex: find out who changed it, put it back (`make tools`), and start the worker anew"
	hintNoLook  = "install sha256sum or openssl on the host, so that codex can be verified before it gets a credential"
)

func (e *changedError) refused(hint, why string) error {
	return &kit.TypedError{Kind: protocol.ErrTypeCodexChanged, Hint: hint, Err: fmt.Errorf("%w%s", e, why)}
}

func treeKey(spec protocol.HostSpec, dir string) string {
	return fmt.Sprintf("%s\x00%s\x00%d\x00%s\x00%s", spec.Name, spec.Address, spec.Port, spec.User, dir)
}

// look compares the package in dir with its sums. If it was changed, the error is a
// *changedError. tree, which may be nil, says which files were.
func look(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, dir, sums string, tree *codexpkg.CodexTree) error {
	key := treeKey(spec, dir)
	s.Mu.Lock()
	seen := s.CodexSeen[key]
	s.Mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	res, err := h.Run(ctx, hostexec.Command{Script: lookScript, Args: []string{dir, sums, seen}})
	var exit *hostexec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Code == lookChanged:
		s.Mu.Lock()
		delete(s.CodexSeen, key)
		s.Mu.Unlock()
		return &changedError{dir: dir, files: differing(string(res.Stdout), tree)}
	case errors.As(err, &exit) && exit.Code == lookCannot:
		return &kit.TypedError{Kind: protocol.ErrTypeUnfit, Hint: hintNoLook,
			Err: fmt.Errorf("verify codex in %s: %s", dir, strings.TrimSpace(string(exit.Stderr)))}
	case err != nil:
		return fmt.Errorf("verify codex in %s: %w", dir, err)
	}
	if word, now, _ := strings.Cut(string(res.Stdout), "\n"); word == "right" && len(now) <= maxSeen {
		s.Mu.Lock()
		s.CodexSeen[key] = strings.TrimSuffix(now, "\n")
		s.Mu.Unlock()
	}
	return nil
}

// differing returns the files of a list that are not as in the tree, and those that it
// lacks.
func differing(list string, tree *codexpkg.CodexTree) (files []string) {
	if tree == nil {
		return nil
	}
	want := map[string]string{}
	for _, f := range tree.Listed() {
		want[f.Path] = f.Digest
	}
	for line := range strings.Lines(list) {
		sum, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ./")
		if !ok {
			continue
		}
		if want[name] != sum {
			files = append(files, fmt.Sprintf("%.100q", name))
		}
		delete(want, name)
	}
	for _, f := range tree.Listed() {
		if _, lacking := want[f.Path]; lacking {
			files = append(files, fmt.Sprintf("%.100q (it is gone)", f.Path))
		}
	}
	return files
}

// repair puts a changed package back, once, and says so. The second time it refuses the
// host, until a person has codex provisioned. The caller holds the host's turn to provision.
func repair(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, root string, tree *codexpkg.CodexTree, was *changedError) (repaired string, err error) {
	key := treeKey(spec, "")
	s.Mu.Lock()
	before := s.CodexRepaired[key]
	s.CodexRepaired[key] = true
	s.Mu.Unlock()
	if before {
		return "", was.refused(hintChanged, "; it was put back before, and changed again")
	}
	s.Logger.Warn("codex on a host was changed, and is put back", "host", spec.Name, "folder", was.dir, "changed", was.what())
	m, err := LookAtMachine(ctx, h, root)
	if err != nil {
		return "", err
	}
	// Without its stamp, the changed package counts as incomplete and is replaced.
	if _, err := h.Run(ctx, hostexec.Command{Script: `rm -f -- "$1"`, Args: []string{path.Join(was.dir, "stamp")}}); err != nil {
		return "", fmt.Errorf("put codex back: %w", err)
	}
	if err := Upload(ctx, h, root, tree, m); err != nil {
		return "", err
	}
	err = look(ctx, s, h, spec, was.dir, tree.Sums(), tree)
	if again := (*changedError)(nil); errors.As(err, &again) {
		return "", again.refused(hintChanged, "; it was put back just now, and changed again")
	}
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("codex on %s had been changed by somebody (%s), and was put back before it got a credential", spec.Name, was.what()), nil
}

// forgetRepair lets the next change of codex on a host be repaired again: a person asked for
// it.
func forgetRepair(s *site.Site, spec protocol.HostSpec) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	delete(s.CodexRepaired, treeKey(spec, ""))
}

// A Guard is a shell script that fails if a codex package was changed. It is empty for a
// codex that Fairlead did not bring, and for a session of an earlier version if this worker
// does not have its package.
type Guard struct {
	Script string
	Args   []string
}

// GuardCodex verifies the package that a session's codex is of, and puts a changed one back
// if this worker has it; then repaired says so. The guard is for the process that becomes
// codex.
func GuardCodex(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, l protocol.Layout) (guard Guard, repaired string, err error) {
	dir := path.Dir(path.Dir(l.Codex))
	tree, err := s.Codex.Named(ctx, path.Base(dir))
	if err != nil {
		return guard, "", err
	}
	sums := l.CodexSums
	if spec.Name == protocol.LocalHost {
		// The worker's own package may have been upgraded since the session was prepared.
		own, err := s.Codex.At(ctx, dir)
		if err != nil {
			return guard, "", err
		}
		if own != nil {
			sums = own.Sums()
		}
	}
	if sums == "" && tree != nil {
		sums = tree.Sums()
	}
	if sums == "" {
		return guard, "", nil
	}
	err = look(ctx, s, h, spec, dir, sums, tree)
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		repaired, err = putBack(ctx, s, h, spec, l.Root, sums, tree, changed)
	}
	if err != nil {
		return guard, "", err
	}
	s.Mu.Lock()
	seen := s.CodexSeen[treeKey(spec, dir)]
	s.Mu.Unlock()
	return Guard{Script: lookScript, Args: []string{dir, sums, seen}}, repaired, nil
}

func putBack(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, root, sums string, tree *codexpkg.CodexTree, was *changedError) (string, error) {
	switch {
	case path.Dir(was.dir) != path.Join(root, "codex"):
		return "", was.refused(hintInPlace, "")
	case tree == nil || tree.Sums() != sums:
		return "", was.refused("this worker does not have that version of codex to put it back: park and resume the session, which brings the worker's own", "")
	}
	done, err := s.Alone(ctx, "provision "+h.Name()+" "+root)
	if err != nil {
		return "", err
	}
	defer done()
	// Another call may have put it back.
	err = look(ctx, s, h, spec, was.dir, sums, tree)
	if again := (*changedError)(nil); errors.As(err, &again) {
		return repair(ctx, s, h, spec, root, tree, again)
	}
	return "", err
}

// Refused returns why a start was refused whose guard ended with a status, or nil if it was
// not.
func (g Guard) Refused(status int) error {
	switch status {
	case 0:
		return nil
	case lookChanged:
		return (&changedError{dir: g.Args[0]}).refused(hintChanged, "; it was right a moment before its start")
	}
	return &kit.TypedError{Kind: protocol.ErrTypeUnfit, Hint: hintNoLook, Err: fmt.Errorf("verify codex in %s just before its start: exit status %d", g.Args[0], status)}
}

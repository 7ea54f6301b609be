package hosts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
)

// If a session's folder is missing on its host, the folder may have been removed, or
// the disk that holds the root folder may not be mounted. To tell these apart,
// PrepareSession puts a file with an id, the mark, into the root folder. The store
// records in which root folder a session was prepared (see rootedKey). The record is
// there before anything of the session is on the host, and stays until all of it is
// saved or removed.
//
// The store has no such record for a session that an earlier version prepared. For
// such a session the root folder counts as present if it has a mark, codex or a
// session in it.

// rootMarkFile is the name of the mark in the root folder.
const rootMarkFile = "root-id"

var rootIDRule = regexp.MustCompile(`^[a-z0-9]{1,40}$`)

// A rooted records in which root folder of a host a session was prepared, or a
// person's command was started.
type rooted struct {
	Root       string `json:"root"` // id of the root folder
	Generation int64  `json:"generation"`
}

func rootedKey(session, host string) string { return "rooted/" + session + "/" + host }

// readRooted returns the record of a claim's session and host; nil if there is none.
func readRooted(ctx context.Context, s *site.Site, c protocol.Claim) (*rooted, error) {
	data, err := s.Store.Get(ctx, rootedKey(c.Session, c.Host.Name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var r rooted
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return nil, fmt.Errorf("read in which root folder of %s %s was begun: %w", c.Host.Name, c.Session, err)
	}
	return &r, nil
}

// ForgetRooted deletes the record of a claim's session and host, unless it is of a
// generation above upTo. Callers have saved or removed everything of the generations up
// to upTo before. It logs an error and does not return it.
func ForgetRooted(ctx context.Context, s *site.Site, c protocol.Claim, upTo int64) {
	r, err := readRooted(ctx, s, c)
	if err == nil && r != nil && r.Generation <= upTo {
		err = s.Store.Delete(ctx, rootedKey(c.Session, c.Host.Name))
	}
	if err != nil {
		s.Logger.Warn("in which root folder a session was prepared stays on record", "session", c.Session, "host", c.Host.Name, "err", err)
	}
}

// Enter makes sure that a session may be prepared below root, and records root as the
// session's root folder. If the session was prepared on the host before, root must be
// the root folder of that time; otherwise enter fails with ErrTypeRootMissing. If it
// was not prepared there before, enter makes a missing root folder.
func Enter(ctx context.Context, s *site.Site, h hostexec.Host, c protocol.Claim, root string) error {
	was, err := readRooted(ctx, s, c)
	if err != nil {
		return err
	}
	want := ""
	if was != nil {
		want = was.Root
	}
	id, err := EnterRoot(ctx, h, root, want)
	if err != nil {
		return err
	}
	now := rooted{Root: id, Generation: c.Generation}
	if was != nil && *was == now {
		return nil
	}
	data, err := json.Marshal(now)
	if err == nil {
		err = s.Store.Put(ctx, rootedKey(c.Session, c.Host.Name), data)
	}
	if err != nil {
		return fmt.Errorf("put on record in which root folder of %s %s begins: %w", c.Host.Name, c.Session, err)
	}
	return nil
}

// enterRootScript prints the id of the root folder $1. If there is none and $2 is
// empty, it makes the folder and gives it the id $3. The mark is made with a hard
// link, so that only one of several concurrent scripts succeeds; on a file system
// without hard links it is renamed.
const enterRootScript = `mark=$1/` + rootMarkFile + ` new=$1/.` + rootMarkFile + `-$3
if [ ! -s "$mark" ] && [ -z "$2" ]; then
	umask 077
	mkdir -p -- "$1" && echo "$3" >"$new" || exit 1
	dd if=/dev/null of="$new" conv=notrunc,fsync 2>/dev/null || sync
	ln -- "$new" "$mark" 2>/dev/null || [ -s "$mark" ] || mv -f -- "$new" "$mark" || exit 1
	rm -f -- "$new"
fi
[ ! -s "$mark" ] || head -n 1 "$mark"`

// EnterRoot returns the id of a root folder. If want is not empty and is not that
// id, it fails with ErrTypeRootMissing; if want is empty, it makes a missing mark.
func EnterRoot(ctx context.Context, h hostexec.Host, root, want string) (string, error) {
	made := strings.ToLower(rand.Text())
	res, err := h.Run(ctx, hostexec.Command{Script: enterRootScript, Args: []string{root, want, made}})
	if err != nil {
		return "", fmt.Errorf("mark the root folder %s on %s: %w", root, h.Name(), err)
	}
	id := strings.TrimSpace(string(res.Stdout))
	switch {
	case want != "" && id != want:
		return "", rootMissing(h, root, id)
	case !rootIDRule.MatchString(id):
		return "", fmt.Errorf("mark the root folder %s on %s: its file %s says %.60q", root, h.Name(), rootMarkFile, id)
	}
	return id, nil
}

// rootMissing returns an error of type ErrTypeRootMissing. found is the id of
// another root folder in that place; empty if there is none.
func rootMissing(h hostexec.Host, root, found string) error {
	what := "is not there"
	if found != "" {
		what = "is not the one that it was"
	}
	return &kit.TypedError{Kind: protocol.ErrTypeRootMissing, Retry: true,
		Hint: "mount the disk that holds it, and what waits goes on; `--discard` gives up a session whose root folder is gone for good",
		Err:  fmt.Errorf("the root %s on %s %s: is its disk mounted?", root, h.Name(), what)}
}

// lookRootScript prints the id of the root folder $1. If that has no id but contains
// something that an earlier version put there, the script prints " ours".
const lookRootScript = `if [ -s "$1/` + rootMarkFile + `" ]; then head -n 1 "$1/` + rootMarkFile + `"; exit; fi
for d in "$1"/codex/* "$1"/sessions/*/codex-home "$1"/sessions/*/work "$1"/sessions/*/proc "$1"/sessions/*/generation "$1"/sessions/.gone-*; do
	if [ -e "$d" ]; then echo " ours"; exit; fi
done`

// checkRoot fails with ErrTypeRootMissing unless the root folder in which a session
// was prepared is certainly there. If it fails, the absence of the session's folder
// proves nothing. prepared says that the session was prepared on the host even if
// that is not on record.
func checkRoot(ctx context.Context, s *site.Site, h hostexec.Host, c protocol.Claim, root string, prepared bool) error {
	was, err := readRooted(ctx, s, c)
	if err != nil {
		return err
	}
	if was == nil && !prepared {
		return nil
	}
	res, err := h.Run(ctx, hostexec.Command{Script: lookRootScript, Args: []string{root}})
	if err != nil {
		return fmt.Errorf("look for the root folder %s on %s: %w", root, h.Name(), err)
	}
	found := strings.TrimSuffix(string(res.Stdout), "\n")
	switch {
	case was == nil && found != "", was != nil && found == was.Root:
		return nil
	}
	return rootMissing(h, root, strings.TrimSpace(found))
}

// LookSession looks at a session's folder like LookFolder. If there is none, it
// fails unless the root folder is certainly there. prepared is as for checkRoot.
func LookSession(ctx context.Context, s *site.Site, h hostexec.Host, c protocol.Claim, l protocol.Layout, prepared bool) (folder.Folder, error) {
	f, err := folder.LookFolder(ctx, h, l.Dir)
	if err != nil || f.There {
		return f, err
	}
	return f, checkRoot(ctx, s, h, c, l.Root, prepared)
}

// GiveUpRoot ends the processes that a session left on a host whose root folder is
// missing, and removes what the session's commands made in its place.
func GiveUpRoot(ctx context.Context, h hostexec.Host, l protocol.Layout, c protocol.Claim, attempt int32) ([]process.Survivor, error) {
	found, err := folder.EndUnrecorded(ctx, h, l, c, attempt)
	if err != nil {
		return found, err
	}
	_, err = h.Run(ctx, hostexec.Command{
		Script: `rm -f -- "$1/.gone-$2" && { rmdir -- "$1" && rmdir -- "${1%/*}"; } 2>/dev/null
:`, Args: []string{path.Join(l.Root, "sessions"), path.Base(l.Dir)}})
	if err != nil {
		return found, fmt.Errorf("tidy up on %s: %w", h.Name(), err)
	}
	return found, nil
}

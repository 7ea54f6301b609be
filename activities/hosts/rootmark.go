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

const rootMarkFile = "root-id"

var rootIDRule = regexp.MustCompile(`^[a-z0-9]{1,40}$`)

// A rooted records in which root folder of a host a session was prepared, or a person's
// command was started; see doc.go.
type rooted struct {
	Root       string `json:"root"`
	Generation int64  `json:"generation"`
}

func rootedKey(session, host string) string { return "rooted/" + session + "/" + host }

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
		return nil, fmt.Errorf("read in which root folder of host %s the work of %s began: %w", c.Host.Name, c.Session, err)
	}
	return &r, nil
}

// ForgetRooted deletes the record of a claim's session and host, unless its generation is
// above upTo. Everything up to upTo must be saved or removed. An error is only logged.
func ForgetRooted(ctx context.Context, s *site.Site, c protocol.Claim, upTo int64) {
	r, err := readRooted(ctx, s, c)
	if err == nil && r != nil && r.Generation <= upTo {
		err = s.Store.Delete(ctx, rootedKey(c.Session, c.Host.Name))
	}
	if err != nil {
		s.Logger.Warn("the record of a session's root folder is not deleted", "session", c.Session, "host", c.Host.Name, "err", err)
	}
}

// Enter records root as the root folder of a session to be prepared there, and makes it if
// need be. If the session was prepared on the host in another root folder, Enter fails with
// ErrTypeRootMissing.
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
		return fmt.Errorf("record in which root folder of host %s the work of %s begins: %w", c.Host.Name, c.Session, err)
	}
	return nil
}

// enterRootScript prints the id of the root folder $1. If there is none and $2 is empty, it
// makes the folder and gives it the id $3. By a hard link, only one of several concurrent
// scripts succeeds; a file system without hard links gets a rename.
const enterRootScript = `mark=$1/` + rootMarkFile + ` new=$1/.` + rootMarkFile + `-$3
if [ ! -s "$mark" ] && [ -z "$2" ]; then
	umask 077
	mkdir -p -- "$1" && echo "$3" >"$new" || exit 1
	dd if=/dev/null of="$new" conv=notrunc,fsync 2>/dev/null || sync
	ln -- "$new" "$mark" 2>/dev/null || [ -s "$mark" ] || mv -f -- "$new" "$mark" || exit 1
	rm -f -- "$new"
fi
[ ! -s "$mark" ] || head -n 1 "$mark"`

// EnterRoot returns the id of a root folder. If want is not empty and differs, it fails
// with ErrTypeRootMissing. If want is empty, it makes a missing id.
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

// rootMissing returns an ErrTypeRootMissing error. found is the id of another root folder
// in that place, or empty.
func rootMissing(h hostexec.Host, root, found string) error {
	what := "is not there"
	if found != "" {
		what = "is another folder than before"
	}
	return &kit.TypedError{Kind: protocol.ErrTypeRootMissing, Retry: true,
		Hint: "mount the disk that holds it, and the waiting sessions go on; `--discard` gives up a session whose root folder is gone for good",
		Err:  fmt.Errorf("the root %s on %s %s: is its disk mounted?", root, h.Name(), what)}
}

// lookRootScript prints the id of the root folder $1, or " ours" if it has only things of
// an earlier version.
const lookRootScript = `if [ -s "$1/` + rootMarkFile + `" ]; then head -n 1 "$1/` + rootMarkFile + `"; exit; fi
for d in "$1"/codex/* "$1"/sessions/*/room "$1"/sessions/*/codex-home "$1"/sessions/*/work "$1"/sessions/*/proc "$1"/sessions/*/generation "$1"/sessions/.gone-*; do
	if [ -e "$d" ] || [ -h "$d" ]; then echo " ours"; exit; fi
done`

// checkRoot fails with ErrTypeRootMissing unless the root folder in which a session was
// prepared is certainly there. prepared says that the session was prepared on the host even
// if that is not on record.
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

// LookSession looks at a session's folder. If there is none, it fails as checkRoot does.
func LookSession(ctx context.Context, s *site.Site, h hostexec.Host, c protocol.Claim, l protocol.Layout, prepared bool) (folder.Folder, error) {
	f, err := folder.LookFolder(ctx, h, l.Dir)
	if err != nil || f.There {
		return f, err
	}
	return f, checkRoot(ctx, s, h, c, l.Root, prepared)
}

// GiveUpRoot ends the processes that a session left on a host whose root folder is missing,
// and removes what the session's commands made in its place.
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

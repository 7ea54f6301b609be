package process

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"strings"

	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/internal/script"
)

// A ChangedFile is a watched file that has changed or is gone.
type ChangedFile struct {
	// Session and Process name the folder Session/proc/Process.
	Session, Process string
	// Note is the note that WatchFile got.
	Note string
}

var (
	//go:embed watch_file.sh
	watchFileText string
	//go:embed watch_changed.sh
	watchChangedText string

	watchFileScript    = withLib(watchFileText)
	watchChangedScript = bare(watchChangedText)
)

// WatchFile leaves a watch for a file beside the process in dir, until the next exclusive
// attachment. When the file has changed, LookFiles reports it with note, which is one word.
// Call WatchFile after LeaveWatch, which removes earlier watches. A missing file is not
// watched.
//
// LookFiles may miss a change within the same timestamp as an earlier one (a second in some
// shells). So look at the file directly after this call.
func WatchFile(ctx context.Context, h hostexec.Host, dir, file, note string, fence hostexec.Fence) error {
	err := checkDir(dir)
	if err == nil {
		err = script.CheckPath(file)
	}
	if err == nil && (note == "" || strings.ContainsAny(note, " \t\r\n\x00")) {
		err = fmt.Errorf("note %q is not a word", note)
	}
	if err == nil {
		_, err = h.Run(ctx, hostexec.Command{Script: watchFileScript, Args: []string{dir, file, note}, Fence: &fence})
		err = processError(err)
	}
	if err != nil {
		return fmt.Errorf("watch %s on %s: %w", file, h.Name(), err)
	}
	return nil
}

// LookFiles looks at every watched file below sessionsDir, in one round trip that starts no
// program on the host. It skips output that it cannot parse, so that a damaged watch does
// not hide other files.
func LookFiles(ctx context.Context, h hostexec.Host, sessionsDir string) ([]ChangedFile, error) {
	fail := func(err error) ([]ChangedFile, error) {
		return nil, fmt.Errorf("look at files below %s on %s: %w", sessionsDir, h.Name(), err)
	}
	if err := checkDir(sessionsDir); err != nil {
		return fail(err)
	}
	res, err := h.Run(ctx, hostexec.Command{Script: watchChangedScript, Args: []string{sessionsDir}})
	if err != nil {
		return fail(processError(err))
	}
	var found []ChangedFile
	for line := range bytes.Lines(res.Stdout) {
		words := strings.Fields(string(line))
		if len(words) != 3 || words[0] != "fairlead-changed" {
			continue
		}
		session, process, ok := strings.Cut(words[1], "/proc/")
		if !ok || strings.ContainsRune(session+process, '/') {
			continue
		}
		found = append(found, ChangedFile{Session: session, Process: process, Note: words[2]})
	}
	return found, nil
}

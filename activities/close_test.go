package activities

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec/process"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
)

func marked(session string) int {
	n := 0
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range procs {
		env, _ := os.ReadFile(p)
		if bytes.Contains(append([]byte{0}, env...), []byte("\x00FAIRLEAD_SESSION="+session+"@")) {
			n++
		}
	}
	return n
}

// job starts, in codex's place, a process that keeps running when its folders are
// removed.
func (k *talk) job() {
	k.t.Helper()
	k.incarnation++
	_, err := process.Start(k.t.Context(), k.host(), process.Spec{
		Dir: folder.ServerDir(k.layout, k.incarnation), Fence: folder.FenceOf(k.next(), k.layout.Dir, 1), Mark: folder.Mark(k.claim.Session, k.layout),
		Argv: []string{"sleep", "1000"}, WorkDir: "/",
	})
	if err != nil {
		k.t.Fatal(err)
	}
	if marked(k.claim.Session) == 0 {
		k.t.Fatal("nothing runs that could be left")
	}
}

// sweep removes a folder into which a process may still write.
const sweep = `room=$(readlink -- "$1/room" 2>/dev/null)
case $room in ../../*) room=${1%/*/*}/${room#../../} ;; esac
until rm -rf -- "$1" ${room:+"$room" "${room%/room}/holder"} 2>/dev/null && [ ! -e "$1" ]; do sleep 0.1; done`

// Somebody removed the session's folder on the host, with its records. The processes
// that the session started there are found by their mark, and are ended.
func TestCloseEndsProcessesWhoseFolderIsGone(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("swept", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.job()
	b.sh(sweep, k.layout.Dir)
	in := k.closing(conversation.Note{ID: "closed", Type: "state", Text: "closed"})
	got, err := k.close(in)
	if err != nil || !got.Wiped || !got.Removed || len(got.Survivors) == 0 {
		t.Errorf("closed: %+v, %v", got, err)
	}
	if n := marked("swept"); n != 0 {
		t.Errorf("%d processes of the session are left", n)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" {
		t.Errorf("left on the host: %s", left)
	}
	again, err := k.close(in)
	if err != nil || !again.Removed || again.Seq != got.Seq {
		t.Errorf("closed again: %+v, %v", again, err)
	}
}

// The same holds for stopping, because a new process must not start while the old one
// runs.
func TestStopEndsProcessesWhoseFolderIsGone(t *testing.T) {
	b := newBed(t, readyHost(t))
	k := b.prepared("brushed", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	k.job()
	b.sh(sweep, k.layout.Dir)
	out, err := places.StopServer(t.Context(), k.set.Place.Site, places.StopServerInput{Claim: k.next(), Layout: k.layout, Incarnation: k.incarnation}, 1)
	if err != nil || len(out.Survivors) == 0 || marked("brushed") != 0 {
		t.Errorf("stopped: %+v, %v; %d are left", out, err, marked("brushed"))
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, k.layout.Dir); left != "" {
		t.Errorf("left on the host: %s", left)
	}
}

package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"fairlead.dev/fairlead/activities/folder"
	"fairlead.dev/fairlead/activities/hosts"
	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/activities/pumps"
	"fairlead.dev/fairlead/activities/snaps"
	"fairlead.dev/fairlead/conversation"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/hosttest"
	"fairlead.dev/fairlead/internal/lab/scriptedmodel"
	"fairlead.dev/fairlead/internal/protocol"
)

// looksAround returns a model that tries to read the files of another session below root. It
// tries all names of these files, and it tries again in a user namespace. It also does work of
// its own.
func looksAround(t *testing.T, root string) *scriptedmodel.Server {
	return scriptedmodel.Serve(t, fmt.Sprintf(`
rules:
  - when: {matches: '^work outside$'}
    steps:
      - - shell: {cmd: 'pwd; echo outside >accepted; cat accepted', escalate: true, justification: may I}
      - say: done
  - when: {matches: '^work$'}
    steps:
      - - shell: echo a >f; cat f; pwd
      - say: done
  - when: {matches: '^look at (\S+) in (\S+)$'}
    steps:
      - - shell:
            yield: 60s
            cmd: |
              exec >"$(pwd)/looked" 2>/dev/null
              look() {
                cd %[1]q/sessions/{{ index .Match 1 }} && cat work/left room/work/left codex-home/auth.json room/codex-home/auth.json proc/*/out.log inputs/* generation
                cd {{ index .Match 2 }} && cat work/left codex-home/auth.json tmp/* inputs/*
                cd %[1]q; ls -a sessions sessions/{{ index .Match 1 }}; cat exec/* logins/* kept/*
                find rooms -name left -exec cat {} +
                readlink sessions/{{ index .Match 1 }}/room rooms/*/*/*/*/holder
                chmod -R u+rwx rooms sessions
                cat /proc/[0-9]*/root{{ index .Match 2 }}/work/left; readlink /proc/[0-9]*/cwd; printf '%%s\0' /proc/[0-9]*/fd/* | xargs -0 readlink
                cat /proc/[0-9]*/environ | tr '\0' '\n' | grep /sessions/
                set -- /proc/[0-9]*/cmdline
                grep -aL cmdline "$@" | xargs cat | tr '\0' '\n' | grep "{{ index .Match 2 }}/work" | sed 's/^/seen-in-arguments /'
              }
              look
              export -f look; unshare -rm bash -c look
              unshare -rm sh -c 'umount -l %[1]s/sessions; umount -l %[1]s/rooms/*; ls %[1]s/sessions; cat {{ index .Match 2 }}/work/left'
              echo went on
      - - shell: ls "$CODEX_HOME/config.toml" && echo a >f; git init -q g && echo b >"$TMPDIR/t" && cat f "$TMPDIR/t" && echo did it
      - say: done
`, root))
}

// looked returns what the commands of the model of looksAround saw. They wrote it to a file in the
// work folder: codex may leave out the output of a command that ends at once, and may go on before
// one that takes long has ended.
func (k *talk) looked(work string) string {
	k.t.Helper()
	return k.commandOutput() + k.sh(`n=0; until grep -q '^went on$' "$1/looked" || [ "$n" -ge 600 ]; do n=$((n + 1)); sleep 0.1; done; cat "$1/looked" && rm "$1/looked"`, work)
}

// mustSeeNothing fails the test if a session's commands saw something of another one.
func (k *talk) mustSeeNothing(other *talk) {
	k.t.Helper()
	id := other.claim.Session
	k.pump(conversation.TurnEnded, k.message("look at "+id+" in "+other.layout.Seen()))
	said := k.looked(k.layout.WorkDir)
	for _, seen := range []string{"marked-" + id, "marked-exec", madeUpKey, id + "\n", "@" + id, "generation ", "seen-in-arguments "} {
		if strings.Contains(said, seen) {
			k.t.Errorf("%s saw %q of %s: %s", k.claim.Session, seen, id, said)
		}
	}
	if own := k.sh(`cat "$1/f" "$2/t" && rm -r "$1/f" "$1/g" "$2/t"`, k.layout.WorkDir, k.layout.Tmp()); !strings.Contains(said, "went on") || own != "a\nb\n" {
		k.t.Errorf("%s could not do its own work: %q, %s", k.claim.Session, own, said)
	}
}

// mustWorkOutside has a person accept a command to run outside the sandbox. The test fails if the
// command does not run in the work folder, or if the file that it writes is missing.
func (k *talk) mustWorkOutside() {
	k.t.Helper()
	out := k.run(k.input(k.message("work outside")), 1, conversation.RequestsOpen)
	if len(out.Pump.Requests) != 1 {
		k.t.Fatalf("codex asked %+v", out.Pump.Requests)
	}
	r := out.Pump.Requests[0]
	k.pump(conversation.TurnEnded, conversation.Send{ID: "d-" + k.claim.Session, Kind: conversation.SendDecision, RPC: r.RPC, Incarnation: r.Incarnation, RequestKind: r.Kind, Method: r.Method, Outcome: protocol.Accept})
	if got := k.sh(`cat "$1/accepted"`, k.layout.WorkDir); got != "outside\n" {
		k.t.Errorf("what it wrote is %q", got)
	}
}

// apartHome is a folder that commands may not write, and that the owner of another one may.
func apartHome(t *testing.T, like string) string {
	t.Helper()
	return apartIn(t, "/srv", like)
}

// TestASessionSeesNothingOfOneThatIsPreparedLater has both run at the same time, and each look
// for the other. The root folder lies where commands may write, in a work folder of --dir, and
// where they may not write. The login user is root or not, and codex of each kind.
func TestASessionSeesNothingOfOneThatIsPreparedLater(t *testing.T) {
	for name, c := range map[string]struct {
		at, version string
		user        bool
	}{
		"elsewhere": {}, "elsewhere as a user": {user: true}, "below tmp": {at: "tmp", user: true}, "below tmp as root": {at: "tmp"}, "in the work": {at: "work", user: true},
		"0.133.0 as a user": {version: "0.133.0", user: true}, "0.140.0 as a user": {version: "0.140.0", user: true}, "0.147.0 as a user": {version: "0.147.0", user: true}, "0.149.1": {version: "0.149.1"}, "0.155.1 as a user": {version: "0.155.1", user: true},
	} {
		t.Run(name, func(t *testing.T) {
			sshd := hosttest.StartSSHD(t, hosttest.Options{NewUser: c.user})
			spec := sshd.Spec()
			home := apartHome(t, sshd.Home)
			dir := ""
			switch c.at {
			case "tmp":
				spec.Root = apartIn(t, "/tmp", sshd.Home) + "/root"
			case "work":
				dir, spec.Root = home+"/mine", home+"/mine/.fairlead"
			default:
				spec.Root = home + "/root"
			}
			b := newBed(t, spec)
			if c.version != "" {
				b = b.with(c.version, "")
				b.asked(nil)
			}
			if dir != "" {
				b.sh(`mkdir -p -- "$1"`, dir)
			}
			seed := b.plantable(looksAround(t, spec.Root))
			first := b.prepared("first", dir, "workspace-write", seed)
			first.start()
			first.pump(conversation.TurnEnded, first.message("work"))
			second := b.prepared("second", "", "workspace-write", seed)
			second.start()
			for _, k := range []*talk{first, second} {
				b.sh(`umask 077; mkdir -p "$3/exec"; echo marked-exec >"$3/exec/of-$4"; echo "marked-$4-work" >"$1/left"; echo "marked-$4-input" >"$2/given"`, k.layout.WorkDir, folder.Inputs(k.layout), spec.Root, k.claim.Session)
			}
			if dir == "" { // a person's folder is no secret
				second.mustSeeNothing(first)
			}
			first.mustSeeNothing(second)
			first.mustWorkOutside()
			second.mustWorkOutside()
			if got := checkNamed(t, b.check(), "private"); !got.OK || !strings.Contains(got.Detail, "nothing of other sessions, also of later ones") {
				t.Errorf("host check: %+v", got)
			}
			for _, k := range []*talk{first, second} {
				if out, err := k.close(k.closing()); err != nil || !out.Wiped {
					t.Errorf("closed %s: %+v, %v", k.claim.Session, out, err)
				}
			}
			if left := b.sh(`cd "$1"; ls sessions check; find rooms ! -type d; find rooms -name room`, spec.Root); left != "" && strings.TrimSpace(strings.NewReplacer("check:", "", "sessions:", "").Replace(left)) != "" {
				t.Errorf("left: %s", left)
			}
		})
	}
}

// The check tells of what is open on such a host.
func TestACheckSaysThatLaterSessionsAreOpen(t *testing.T) {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = apartHome(t, "/root") + "/root"
	b := newBed(t, spec).with("0.147.0", hosts.UnprotectedAllow)
	b.asked(nil)
	b.prepared("first", "", "workspace-write", b.plantable(scriptedmodel.Serve(t, `rules: []`)))
	if got := checkNamed(t, b.check(), "private"); got.OK || !strings.Contains(got.Detail, "can read the folders of other sessions, also of those that are prepared later than its own") {
		t.Errorf("host check: %+v", got)
	}
}

// A folder that an earlier release made keeps its names and its work. What is there when such a
// session goes on is hidden from it, and all rooms are.
func TestAFolderOfAnEarlierReleaseGoesOn(t *testing.T) {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = apartHome(t, "/root") + "/root"
	b := newBed(t, spec)
	seed := b.plantable(looksAround(t, spec.Root))
	second := b.prepared("second", "", "workspace-write", seed)
	b.sh(`echo marked-work >"$1/left"`, second.layout.WorkDir)
	former := folder.LayoutOf(spec.Root, "former")
	fence := folder.FenceOf(protocol.Claim{Session: "former", Generation: 1, Pump: 1}, former.Dir, 1)
	mark := folder.FolderMark{Generation: 1, Seed: seed}
	b.sh(`umask 077; cd "$1/sessions" && mkdir -p former/proc former/tmp former/workspace former/codex-home former/work && printf %s "$2" >former/generation && : >former/before`, spec.Root, mark.Text())
	made, err := places.MakeFolders(t.Context(), b.host(), former, mark, fence)
	if err := errors.Join(err, folder.WriteMark(t.Context(), b.host(), former, mark, true, fence)); err != nil || made != former {
		t.Fatalf("%+v, %v", made, err)
	}
	b.sh(`echo kept >"$1/of-before"`, former.WorkDir)
	k := b.prepared("former", "", "workspace-write", seed)
	if former.Codex, former.CodexSums = k.layout.Codex, k.layout.CodexSums; k.layout != former {
		t.Errorf("its layout is %+v, was %+v", k.layout, former)
	}
	k.start()
	k.pump(conversation.TurnEnded, k.message("look at second in "+second.layout.Seen()))
	// It sees the names of other folders, and nothing in them.
	if said := k.looked(former.WorkDir); strings.Contains(said, "marked-") || strings.Contains(said, madeUpKey) || strings.Contains(said, "generation ") || !strings.Contains(said, "went on") {
		t.Errorf("it printed %s", said)
	}
	k.mustWorkOutside()
	if left := b.sh(`cat "$1/of-before" "$1/f"; [ ! -h "$2/room" ] || echo room`, former.WorkDir, former.Dir); left != "kept\na\n" {
		t.Errorf("its work is %q", left)
	}
	one := k.parked(1, "")
	if out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: one.ID, Warm: 1}); err != nil || out.Restored != folder.RestoredWarm || out.Layout != former {
		t.Errorf("resumed: %+v, %v", out, err)
	}
	if out, err := k.close(k.closing()); err != nil || !out.Wiped {
		t.Errorf("closed: %+v, %v", out, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"`, former.Dir); left != "" {
		t.Errorf("left: %s", left)
	}
}

// A worker of an earlier release takes a layout without a room, and works behind links.
func TestAWorkerOfAnEarlierReleaseGoesOnInARoom(t *testing.T) {
	spec := hosttest.StartSSHD(t, hosttest.Options{}).Spec()
	spec.Root = apartHome(t, "/root") + "/root"
	b := newBed(t, spec)
	k := b.prepared("first", "", "workspace-write", b.plantable(looksAround(t, spec.Root)))
	second := b.prepared("second", "", "workspace-write", k.seed)
	b.sh(`echo marked-work >"$1/left"`, second.layout.WorkDir)
	former := folder.LayoutOf(spec.Root, "first")
	former.Codex, former.CodexSums = k.layout.Codex, k.layout.CodexSums
	text, err := json.Marshal(k.layout)
	var read map[string]any
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || read["codex_home"] != former.CodexHome || read["work_dir"] != former.WorkDir {
		t.Errorf("an earlier release reads %s (%v)", text, err)
	}
	var again protocol.Layout
	if err := json.Unmarshal(text, &again); err != nil || again != k.layout {
		t.Errorf("this release reads %+v (%v)", again, err)
	}
	in := k.layout
	k.layout = former
	k.start()
	k.pump(conversation.TurnEnded, k.message("work"))
	k.pump(conversation.TurnEnded, k.message("look at second in "+second.layout.Seen()))
	if said := k.looked(in.WorkDir); strings.Contains(said, "marked-") || !strings.Contains(said, "went on") {
		t.Errorf("it printed %s", said)
	}
	if left := b.sh(`cat "$1/f"`, in.WorkDir); left != "a\n" {
		t.Errorf("its work is %q", left)
	}
}

// A worker may die between any two steps that make or remove a session's folders. The next
// attempt, or the next session of that name, finds what it left.
func TestNothingIsLeftOfARoomWhateverStepWasTheLast(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	l := folder.LayoutOf(b.spec.Root, "room") // a name that is also a folder's
	fence := folder.FenceOf(protocol.Claim{Session: "room", Generation: 1, Pump: 1}, l.Dir, 1)
	steps := []string{"ln", "mkdir", "mv", "rm"}
	for _, what := range []string{"made", "removed"} {
		for n := 1; ; n++ {
			dies := dyingTools{b.host(), steps, n, filepath.Join(t.TempDir(), "reached")}
			var made protocol.Layout
			var err error
			if what == "made" {
				_, err = places.MakeFolders(t.Context(), dies, l, folder.FolderMark{Generation: 1}, fence)
			} else if made, err = places.MakeFolders(t.Context(), b.host(), l, folder.FolderMark{Generation: 1}, fence); err != nil {
				t.Fatal(err)
			} else {
				err = folder.Remove(t.Context(), dies, made, fence)
			}
			_, reached := os.Stat(dies.reached)
			if (err == nil) != (reached != nil) {
				t.Fatalf("%s, step %d: %v; it was reached: %v", what, n, err, reached == nil)
			}
			found, err := folder.LookAtFolders(t.Context(), b.host(), b.spec.Root, 0)
			if held := b.sh(`find "$1" -name holder`, l.Rooms()); held != "" && (err != nil || len(found.Found) != 1 || found.Found[0].Session != "room") {
				t.Errorf("%s, step %d: the look found %+v, %v; there is %s", what, n, found, err, held)
			}
			if what == "made" {
				again, err := places.MakeFolders(t.Context(), b.host(), l, folder.FolderMark{Generation: 1}, fence)
				if held := b.sh(`find "$1" -name holder`, l.Rooms()); err != nil || again.Room == "" || strings.Count(held, "\n") != 1 {
					t.Errorf("%s, step %d: made again: %+v, %v; held %s", what, n, again, err, held)
				}
			}
			if err := folder.Remove(t.Context(), b.host(), l, fence); err != nil {
				t.Errorf("%s, step %d: %v", what, n, err)
			}
			if left := b.sh(`[ ! -e "$1" ] || echo "$1"; find "$2" ! -type d; find "$2" -name room`, l.Dir, l.Rooms()); left != "" {
				t.Errorf("%s, step %d: left %s", what, n, left)
			}
			if reached != nil {
				if n < 6 {
					t.Errorf("%s has only %d steps", what, n-1)
				}
				break
			}
		}
	}
}

// Nobody takes what an interrupted removal left for the session's work. It is restored from the
// snapshot, in a room.
func TestTheWorkIsWholeWhicheverStepOfARemovalWasTheLast(t *testing.T) {
	for name, parked := range map[string]bool{"parked": true, "prepared": false} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
			k := b.worked("whole")
			kept := k.parked(1, "")
			from := snaps.RestoreSpec{Snapshot: kept.ID, Warm: 1}
			if !parked {
				from.Warm = 0
				if out, err := k.up(k.spec, from); err != nil || out.Restored != folder.RestoredSnapshot {
					t.Fatalf("%+v, %v", out, err)
				}
			}
			for n := 1; ; n++ {
				dies := dyingTools{b.host(), []string{"ln", "mkdir", "mv", "rm"}, n, filepath.Join(t.TempDir(), "reached")}
				claim := k.next()
				if parked {
					claim.Generation++ // the attempt that clears the place
				}
				err := folder.Remove(t.Context(), dies, k.layout, folder.FenceOf(claim, k.layout.Dir, 1))
				_, reached := os.Stat(dies.reached)
				if (err == nil) != (reached != nil) {
					t.Fatalf("step %d: %v; it was reached: %v", n, err, reached == nil)
				}
				if parked {
					k.claim.Generation++
				}
				in := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access", Restore: &from}
				out, err := k.prepare(in)
				if err != nil || out.Layout.Room == "" {
					t.Fatalf("step %d: %+v, %v", n, out, err)
				}
				k.layout = out.Layout
				got := b.sh(`cat "$1/work.txt"; cd "$2/sessions" && cat 2026/11/22/*; find "$3" -name room.gone; find "$3" -name holder | wc -l | tr -d ' '`, k.layout.WorkDir, k.layout.CodexHome, k.layout.Rooms())
				if got != "precious\n{\"type\":\"session_meta\"}\n1\n" {
					t.Errorf("step %d: the session has %q (%s)", n, got, out.Restored)
				}
				if parked {
					kept = k.parked(n+1, kept.ID)
					from = snaps.RestoreSpec{Snapshot: kept.ID, Warm: k.claim.Generation}
				}
				if reached != nil {
					if n < 8 {
						t.Errorf("there are only %d steps", n-1)
					}
					break
				}
			}
		})
	}
}

// A worker of an earlier release hands on a layout without the room.
func TestASessionWhoseRoomAnEarlierReleaseForgotIsParkedWithItsWork(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	k := b.worked("forgot")
	in := k.layout
	former := folder.LayoutOf(b.spec.Root, "forgot")
	former.Codex, former.CodexSums = in.Codex, in.CodexSums
	k.layout = former
	file := k.stored(protocol.InputFile, "notes.txt", []byte("the notes"))
	send := k.message("read it")
	send.Inputs = []protocol.Input{file}
	b.sh(`mkdir -p "$1/f"`, pumps.InputPath(in, file)) // not a file
	if err := pumps.PlantInputs(t.Context(), k.set.Pump.Site, k.input(send), 1); err != nil || onHost(t, k, file) != "the notes" {
		t.Errorf("its file: %v", err)
	}
	kept := k.parked(1, "")
	if files := b.exported(kept.ID); files["work/work.txt"] != "precious\n" {
		t.Errorf("kept: %v", files)
	}
	if out, err := k.up(k.spec, snaps.RestoreSpec{Snapshot: kept.ID, Warm: 1}); err != nil || out.Restored != folder.RestoredWarm || out.Layout != in {
		t.Errorf("resumed: %+v, %v", out, err)
	}
}

// A link that leads to another session's room, or to a room of another root, is not followed.
// A close that may discard removes the link, and nothing to which it leads.
func TestALinkToAForeignRoomIsNotFollowed(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	other := b.worked("other")
	link := func(k *talk, to string) {
		t.Helper()
		b.sh(`rm -rf "$2" "${2%room}holder" && cd "$1" && for f in codex-home work tmp inputs; do ln -sfn "$3/$f" "$f" || exit 1; done; ln -sfn "$3" room`, k.layout.Dir, k.layout.Seen(), to)
	}
	for name, to := range map[string]string{
		"held": other.layout.Seen(), "relative": "../../rooms/" + other.layout.Room + "/room", "elsewhere": t.TempDir() + "/rooms/0/0/0/0/room", "above": "../../rooms/0/0/0/0/../room",
	} {
		k := b.worked(name)
		link(k, to)
		if _, err := folder.LookFolder(t.Context(), b.host(), k.layout.Dir); !errors.Is(err, folder.ErrStray) {
			t.Errorf("%s: the look says %v", name, err)
		}
		in := k.closing()
		if out, err := k.close(in); err == nil || out.Removed {
			t.Errorf("%s: closed: %+v", name, out)
		}
		in.Claim, in.Discard = k.next(), true
		if out, err := k.close(in); err != nil || !out.Removed || out.Problem == nil {
			t.Errorf("%s: discarded: %+v, %v", name, out, err)
		}
		if left := b.sh(`[ ! -e "$1" ] || find "$1"; cat "$2/work.txt"; [ -e "$3/auth.json" ] || echo wiped`, k.layout.Dir, other.layout.WorkDir, other.layout.CodexHome); left != "precious\n" {
			t.Errorf("%s: left %q", name, left)
		}
	}
	// So does the removal of what a session left.
	k := b.worked("leftover")
	link(k, other.layout.Seen())
	if out, err := k.wipe(k.leave(false), knows(inquiry.SeedNow{})); err == nil || out.Wiped || !strings.Contains(err.Error(), "is the folder a copy?") {
		t.Errorf("leftover: wiped: %+v, %v", out, err)
	}
	if out, err := k.wipe(k.leave(true), knows(inquiry.SeedNow{})); err != nil || !out.Wiped || !out.Removed {
		t.Errorf("leftover: discarded: %+v, %v", out, err)
	}
	if left := b.sh(`[ ! -e "$1" ] || find "$1"; cat "$2/work.txt"; [ -e "$3/auth.json" ] || echo wiped`, k.layout.Dir, other.layout.WorkDir, other.layout.CodexHome); left != "precious\n" {
		t.Errorf("leftover: left %q", left)
	}
	// The root may have several names.
	b.sh(`ln -s "$1" "$1-too"`, b.spec.Root)
	f, err := folder.LookFolder(t.Context(), b.host(), folder.LayoutOf(b.spec.Root+"-too", "other").Dir)
	if err != nil || f.Room != other.layout.Room {
		t.Errorf("by another name of the root: %+v, %v", f, err)
	}
}

// A place has one holder, also if somebody made a folder where its link leads.
func TestAPlaceIsHeldByOneSession(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	l := folder.LayoutOf(b.spec.Root, "first")
	taken := folder.RoomsFor("first")[0]
	b.sh(`mkdir -p "$1/@second" && ln -s @second "$1/holder"`, filepath.Join(l.Rooms(), taken))
	made, err := places.MakeFolders(t.Context(), b.host(), l, folder.FolderMark{Generation: 1}, folder.FenceOf(protocol.Claim{Session: "first", Generation: 1, Pump: 1}, l.Dir, 1))
	if err != nil || made.Room == "" || made.Room == taken {
		t.Errorf("made %+v, %v", made, err)
	}
}

// A person who removes a session's folder does not remove its room. The work in it is found and
// kept, also when the session's name is used again.
func TestTheWorkOfASessionWhoseFolderIsGoneIsKept(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: filepath.Join(t.TempDir(), "root")})
	k := b.worked("orphan")
	b.sh(`rm -rf "$1"`, k.layout.Dir)
	f, err := folder.LookFolder(t.Context(), b.host(), k.layout.Dir)
	if err != nil || !f.There || f.Prepared || f.Room != k.layout.Room {
		t.Fatalf("%+v, %v", f, err)
	}
	k.claim.Generation++
	in := places.PrepareSessionInput{Claim: k.next(), Seed: k.seed, Sandbox: "danger-full-access"}
	out, err := b.prepare(in)
	if err != nil || out.Left == "" {
		t.Fatalf("%+v, %v", out, err)
	}
	if files := b.exported(out.Left); files["work/work.txt"] != "precious\n" {
		t.Errorf("kept: %v", files)
	}
}

// dyingTools kills a script before its nth step, counted over all scripts. If that step is a
// removal, it has removed the work when the script is killed, and nothing else.
type dyingTools struct {
	hostexec.Host
	steps   []string
	n       int
	reached string
}

func (h dyingTools) Run(ctx context.Context, c hostexec.Command) (hostexec.Result, error) {
	before := fmt.Sprintf(`t_step() {
	printf x >>'%[1]s.steps'
	[ "$(wc -c <'%[1]s.steps')" -eq %[2]d ] || return 0
	: >'%[1]s'
	if [ "$1" = rm ]; then
		for f; do [ ! -d "$f" ] || [ -h "$f" ] || find "$f" -name work.txt -exec rm -f {} +; done
	fi
	kill -9 $$
}
`, h.reached, h.n)
	for _, name := range h.steps {
		before += fmt.Sprintf("%s() { t_step %[1]s \"$@\"; command %[1]s \"$@\"; }\n", name)
	}
	c.Script = before + c.Script
	return h.Host.Run(ctx, c)
}

// apartIn makes a folder in another one, with the owner of a third.
func apartIn(t *testing.T, in, like string) string {
	t.Helper()
	dir, err := os.MkdirTemp(in, "fl-apart-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	is, err := os.Stat(like)
	if err == nil {
		owner := is.Sys().(*syscall.Stat_t)
		err = os.Chown(dir, int(owner.Uid), int(owner.Gid))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

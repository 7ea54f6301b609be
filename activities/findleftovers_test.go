package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"fairlead.dev/fairlead/activities/inquiry"
	"fairlead.dev/fairlead/activities/places"
	"fairlead.dev/fairlead/internal/protocol"
)

// A leftBook is what Temporal answers during a search for leftovers.
type leftBook struct {
	t      *testing.T
	listed []inquiry.HostNow
	knows  []inquiry.LeftThere // the pool
	owners map[string]inquiry.FolderOwner
	told   []inquiry.HostLooked
}

func (b *leftBook) Hosts(context.Context, string) ([]inquiry.HostNow, error)   { return b.listed, nil }
func (b *leftBook) Known(context.Context, string) ([]inquiry.LeftThere, error) { return b.knows, nil }

func (b *leftBook) Owner(_ context.Context, session string, generation int64) (inquiry.FolderOwner, error) {
	o, ok := b.owners[fmt.Sprintf("%s/%d", session, generation)]
	if !ok {
		b.t.Errorf("asked whose the folder of %s of generation %d is", session, generation)
		return "", temporal.NewNonRetryableApplicationError("nobody knows", "unexpected", nil)
	}
	return o, nil
}

func (b *leftBook) Tell(_ context.Context, pool, signal string, what inquiry.HostsLooked) error {
	if pool != "pool/here" || signal != "looked" {
		b.t.Errorf("%s was told by %s", pool, signal)
	}
	b.told = append(b.told, what.Hosts...)
	return nil
}

// in runs FindLeftovers for folders whose mark is older than ten minutes.
func (b *leftBook) in(h *places.Activities, limit int) places.FindLeftoversResult {
	b.t.Helper()
	h.Site.Left, b.told = b, nil
	out, err := h.FindLeftovers(b.t.Context(), places.FindLeftoversInput{Pool: "pool/here", Signal: "looked", Older: 10 * time.Minute, Limit: limit})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

func listed(specs ...protocol.HostSpec) (all []inquiry.HostNow) {
	for _, s := range specs {
		all = append(all, inquiry.HostNow{Name: s.Name, Spec: &s})
	}
	return all
}

// ages sets the time of a session's mark to an hour ago.
const ages = `touch -d "@$(($(date +%s) - 3600))" "$1/generation"`

// asItIs prints the content and the metadata of all files in a folder.
const asItIs = `cd "$1" && find . -type f -exec cksum {} + | sort; find . -exec stat -c '%n %a %Y %Z %i' {} + | sort`

// A session has ended, and its pool has forgotten that its folder is on the host.
// FindLeftovers finds the folder. With its report, the pool can have the work kept, the
// credential wiped and the folder removed.
func TestAFolderThatItsPoolForgotIsFoundAndWiped(t *testing.T) {
	spec := readyHost(t)
	spec.Root = "forgotten-root"
	b := newBed(t, spec)
	k := b.worked("forgotten")
	b.sh(ages, k.layout.Dir)
	book := &leftBook{t: t, listed: listed(spec), owners: map[string]inquiry.FolderOwner{"forgotten/1": inquiry.OwnerEnded}}
	out := book.in(b.set.Place, 10)
	if fmt.Sprint(out.Told) != "["+spec.Name+"/forgotten]" || len(out.Problems) > 0 || out.Hosts != 1 || out.Folders != 1 || len(book.told) != 1 {
		t.Fatalf("found %+v, told %+v", out, book.told)
	}
	told := book.told[0]
	if len(told.Ended) != 1 || told.Ended[0].Generation != 1 || told.Host.Root != spec.Root || len(told.Unknown) > 0 || k.planted() != "auth.json\nconfig.toml\n" {
		t.Errorf("told %+v; planted is %q", told, k.planted())
	}
	// This is what the pool then asks for.
	in := k.leave(false)
	in.Generation, in.Seed, in.ThreadID, in.Layout = told.Ended[0].Generation, nil, "", protocol.Layout{}
	wiped, err := k.wipe(in, knows(inquiry.SeedNow{Generation: 1, Ref: k.seed}))
	if err != nil || !wiped.Wiped || !wiped.Removed || b.exported(wiped.Archive)["work/work.txt"] != "precious\n" {
		t.Errorf("wiped %+v, %v", wiped, err)
	}
	if out := book.in(b.set.Place, 10); out.Folders != 0 || out.Hosts != 1 || len(out.Problems) > 0 {
		t.Errorf("afterwards it finds %+v", out)
	}
}

// Only folders that are known to be ours, ended and forgotten are reported as such.
// Folders of running sessions, folders that the pool knows, and folders of others stay
// as they are. Folders of others are named in the result. A host that is away or in
// quarantine does not delay the others.
func TestALookForLeftoversTouchesNothingAndNamesStrangers(t *testing.T) {
	spec := readyHost(t)
	spec.Root = "stranger-root"
	b := newBed(t, spec)
	root := strings.TrimSpace(b.sh(`cd && mkdir -p "$1/sessions" && cd "$1" && pwd`, spec.Root))
	defer b.sh(`rm -rf "$1"`, root)
	book := &leftBook{t: t, owners: map[string]inquiry.FolderOwner{}}
	make := func(session string, generation int64, owner inquiry.FolderOwner, young ...bool) {
		t.Helper()
		dir := root + "/sessions/" + session
		b.sh(`mkdir -p "$1/codex-home" "$1/work" && echo secret >"$1/codex-home/auth.json" && printf 'generation %s\ndir /srv\n' "$2" >"$1/generation"`, dir, fmt.Sprint(generation))
		if len(young) == 0 {
			b.sh(ages, dir)
		}
		if owner != "" {
			book.owners[fmt.Sprintf("%s/%d", session, generation)] = owner
		}
	}
	make("runs", 1_790_000_000, inquiry.OwnerRuns)
	make("just-ended", 1_790_000_001, inquiry.OwnerEnded, true)
	make("ended", 1_790_000_002, inquiry.OwnerEnded)
	make("held", 1_790_000_003, "")
	make("left", 1_790_000_004, "")
	make("stranger", 1_790_000_005, inquiry.OwnerNobody)
	make("namesake", 1_790_000_006, inquiry.OwnerAnother)
	make("torn", 0, inquiry.OwnerUnmarked)
	b.sh(`cd "$1/sessions" && printf 'generation 17' >torn/generation && mkdir "Not ours" only-a-lock && ln -s runs link && : >file`, root)
	away, resting := spec, spec
	away.Name, away.Address, away.Port = "away", "127.0.0.1", 1
	resting.Name = "resting"
	book.knows = []inquiry.LeftThere{{Session: "held", Host: "elsewhere", Held: true}, {Session: "left", Host: spec.Name}, {Session: "ended", Host: "elsewhere"}}
	book.listed = append(listed(away, spec, resting), inquiry.HostNow{Name: "unsaid"})
	book.listed[2].Health = &struct {
		State string `json:"state"`
	}{"quarantined"}

	before := b.sh(asItIs, root)
	out := book.in(b.set.Place, 10)
	if after := b.sh(asItIs, root); after != before {
		t.Errorf("it was\n%s\nand is\n%s", before, after)
	}
	if len(book.told) != 1 || book.told[0].Dir != root+"/sessions" || book.told[0].Others != 1 || book.told[0].At.IsZero() {
		t.Fatalf("told %+v", book.told)
	}
	if e := book.told[0].Ended; len(e) != 1 || e[0].Session != "ended" || e[0].Generation != 1_790_000_002 {
		t.Errorf("ended %+v", e)
	}
	want := []inquiry.FoundFolder{
		{Session: "namesake", Generation: 1_790_000_006, Since: time.Unix(1_790_000_006, 0).UTC(), Why: string(inquiry.OwnerAnother)},
		{Session: "stranger", Generation: 1_790_000_005, Since: time.Unix(1_790_000_005, 0).UTC(), Why: string(inquiry.OwnerNobody)},
		{Session: "torn", Generation: 0, Since: time.Time{}, Why: string(inquiry.OwnerUnmarked)},
	}
	if !slices.Equal(book.told[0].Unknown, want) {
		t.Errorf("unknown %+v", book.told[0].Unknown)
	}
	if out.Hosts != 1 || out.Skipped != 1 || out.Unknown != 4 || out.Folders != 8 || len(out.Told) != 1 {
		t.Errorf("found %+v", out)
	}
	for _, named := range []string{"host unsaid:", "host away:", "4 folders", "stranger (no session of that name is known)"} {
		if !strings.Contains(strings.Join(out.Problems, "\n"), named) {
			t.Errorf("nothing is said of %q: %q", named, out.Problems)
		}
	}
}

// A run looks at a limited number of hosts, starting with those that were looked at
// longest ago.
func TestHostsAreLookedAtInTurn(t *testing.T) {
	b := newBed(t, protocol.HostSpec{Name: protocol.LocalHost, Root: t.TempDir()})
	book := &leftBook{t: t}
	for i, name := range []string{"newest", "oldest", "between"} {
		h := inquiry.HostNow{Name: name, Spec: &b.spec}
		h.Folders = &struct {
			At time.Time `json:"at"`
		}{time.Unix(int64([]int{30, 10, 20}[i]), 0)}
		book.listed = append(book.listed, h)
	}
	fresh := b.spec
	fresh.Root += "/fresh"
	book.listed = append(book.listed, inquiry.HostNow{Name: "never", Spec: &fresh})
	out := book.in(b.set.Place, 2)
	if out.Hosts != 2 || out.Left != 2 || len(book.told) != 2 || book.told[0].Host.Root != fresh.Root {
		t.Errorf("looked %+v, told %+v", out, book.told)
	}
	book.listed = nil
	if out := book.in(b.set.Place, 2); out.Hosts != 0 || len(book.told) != 0 {
		t.Errorf("without hosts: %+v, told %+v", out, book.told)
	}
}

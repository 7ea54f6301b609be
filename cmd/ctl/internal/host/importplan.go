package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/inventory"
	"fairlead.dev/fairlead/internal/protocol"
)

// Outcomes for a host, in JSON.
const (
	hostAdded     = "added"
	hostChanged   = "changed"
	hostUnchanged = "unchanged"
	hostDiffers   = "differs" // other settings, without --update
	hostNotAdded  = "not_added"
	wouldAdd      = "would_add"
	wouldChange   = "would_change"
)

// An importedHost is one host's JSON line.
type importedHost struct {
	Name    string   `json:"name"`
	Outcome string   `json:"outcome"`
	Zone    string   `json:"zone"`
	Changes []string `json:"changes,omitempty"`
}

// compare finds known hosts, and fills in settings that the file lacks.
func (im *hostImport) compare(ctx context.Context) error {
	var there []protocol.HostView
	zone := cmp.Or(im.flags.zone, "default")
	err := im.t.Query(ctx, "import hosts", protocol.PoolID(im.flags.zone), protocol.QueryHosts, &there)
	if conn.NoInventory(err) {
		return core.Unreachable("import hosts: no worker has served zone %s yet, and its first one makes the inventory", zone).
			Hinted("start a worker of that zone, or check --zone").Because(err)
	}
	if err != nil {
		return err
	}
	specs := map[string]*protocol.HostSpec{}
	byName := map[string]*protocol.HostView{}
	for i := range there {
		specs[there[i].Name], byName[there[i].Name] = there[i].Spec, &there[i]
	}
	var missing []string
	for _, h := range im.hosts {
		h.old = byName[h.put.Spec.Name]
		if jump := h.put.Jump; jump != "" {
			if specs[jump] == nil {
				missing = append(missing, inventory.Problem{Place: h.from.At("jump"), Text: fmt.Sprintf("host %s jumps over %s, which neither the file nor zone %s has", h.put.Spec.Name, jump, zone)}.String())
			}
			h.put.Spec.Jump = specs[jump]
		}
		if h.old != nil {
			h.keep()
			h.differs = h.changes()
		}
		h.unpinned = len(h.put.Spec.HostKeys) == 0 && h.put.Spec.KnownHosts == ""
		specs[h.put.Spec.Name] = &h.put.Spec
	}
	if len(missing) > 0 {
		return core.Usage("import hosts: %s: %s", im.path, strings.Join(missing, "\n  ")).Hinted("nothing was changed; add the jump host first, or to the file")
	}
	return nil
}

// keep copies settings that the file lacks from old.
func (h *imported) keep() {
	old := h.old
	if h.put.Slots == 0 {
		h.put.Slots = old.Slots
	}
	if h.put.Spec.Root == "" {
		h.put.Spec.Root = old.Spec.Root
	}
	labels := maps.Clone(old.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, h.put.Labels)
	h.put.Labels = labels
	spec := &h.put.Spec
	unsaid := len(spec.HostKeys) == 0 && spec.KnownHosts == ""
	if reached := spec.Address == old.Spec.Address && port(spec) == port(old.Spec); reached && unsaid {
		spec.HostKeys, spec.KnownHosts = old.Spec.HostKeys, old.Spec.KnownHosts
	}
	// Another spelling is no change.
	if port(spec) == port(old.Spec) {
		spec.Port = old.Spec.Port
	}
	if slices.Equal(fingerprints(spec), fingerprints(old.Spec)) {
		spec.HostKeys = old.Spec.HostKeys
	}
}

func port(s *protocol.HostSpec) int {
	if s.Port == 0 {
		return 22
	}
	return s.Port
}

func fingerprints(s *protocol.HostSpec) []string {
	var out []string
	for _, k := range s.HostKeys {
		if fields := strings.Fields(k); len(fields) > 1 {
			if raw, err := base64.StdEncoding.DecodeString(fields[1]); err == nil {
				sum := sha256.Sum256(raw)
				k = "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
			}
		}
		out = append(out, strings.TrimRight(k, "="))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h *imported) changes() []string {
	var out []string
	is, be := h.old.Spec, h.put.Spec
	change := func(what, from, to string) {
		if from != to {
			out = append(out, fmt.Sprintf("%s: %s → %s", what, cmp.Or(from, "none"), cmp.Or(to, "none")))
		}
	}
	change("address", is.Address, be.Address)
	change("port", fmt.Sprint(port(is)), fmt.Sprint(port(&be)))
	change("user", is.User, be.User)
	change("identity", is.Identity, be.Identity)
	change("root", is.Root, be.Root)
	change("keys", strings.Join(fingerprints(is), " "), strings.Join(fingerprints(&be), " "))
	change("known_hosts", is.KnownHosts, be.KnownHosts)
	change("jump", jumpName(is), jumpName(&be))
	if jumpName(is) != "" && jumpName(is) == jumpName(&be) && !sameWay(is.Jump, be.Jump) {
		out = append(out, "jump: the way over "+jumpName(is))
	}
	change("slots", fmt.Sprint(h.old.Slots), fmt.Sprint(h.put.Slots))
	change("labels", labels(h.old.Labels), labels(h.put.Labels))
	return out
}

func jumpName(s *protocol.HostSpec) string {
	if s.Jump == nil {
		return ""
	}
	return s.Jump.Name
}

func sameWay(a, b *protocol.HostSpec) bool {
	x, errx := json.Marshal(a)
	y, erry := json.Marshal(b)
	return errx == nil && erry == nil && string(x) == string(y)
}

// pin asks about unpinned keys. If ctl may not ask, one error names all such hosts.
func (im *hostImport) pin(ctx context.Context) error {
	var names []string
	for _, h := range im.hosts {
		if h.unpinned {
			name := h.put.Spec.Name
			if at := h.from.Place.String(); at != "" {
				name += " (" + at + ")"
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if !im.app.MayAsk() {
		return core.Usage("import hosts: %s: %d hosts have no pinned key, and there is nobody to ask: %s", im.path, len(names), strings.Join(names, ", ")).
			Hinted("nothing was changed; give --known-hosts FILE (`ssh-keyscan ADDRESS` prints keys, compare the fingerprints with ones you trust), or host_keys in the file")
	}
	if im.flags.dryRun || im.refusal() != nil {
		return nil
	}
	for _, h := range im.hosts {
		if !h.unpinned {
			continue
		}
		keys, err := askKeyOf(ctx, im.app, im.t, "import host "+h.put.Spec.Name, im.flags.zone, h.put.Spec)
		if err != nil {
			return err
		}
		h.put.Spec.HostKeys = keys
	}
	return nil
}

// outcome returns a host's outcome, or what it would be.
func (im *hostImport) outcome(h *imported, done bool) string {
	switch {
	case h.old == nil && done:
		return hostAdded
	case h.old == nil && im.flags.dryRun:
		return wouldAdd
	case h.old == nil:
		return hostNotAdded
	case len(h.differs) == 0:
		return hostUnchanged
	case !im.flags.update:
		return hostDiffers
	case done:
		return hostChanged
	}
	return wouldChange
}

// refusal is the error for hosts with other settings.
func (im *hostImport) refusal() error {
	if im.flags.update {
		return nil
	}
	var names []string
	for _, h := range im.hosts {
		if len(h.differs) > 0 {
			names = append(names, h.put.Spec.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return core.Refused("import hosts: %s: the inventory already has these hosts with other settings: %s", im.path, strings.Join(names, ", ")).
		Hinted("nothing was changed; --update changes them, --only leaves them out")
}

// mostAtOnce bounds one update of a pool, in bytes.
const mostAtOnce = 1500 << 10

func (im *hostImport) carryOut(ctx context.Context) error {
	if err := im.refusal(); err != nil {
		return firstErr(im.show(false), err)
	}
	if im.flags.dryRun {
		return im.show(false)
	}
	var in protocol.PutHosts
	for _, h := range im.hosts {
		if h.old != nil && len(h.differs) == 0 {
			continue
		}
		put := h.put
		put.Spec.Jump, put.Replace = nil, h.old != nil
		in.Hosts = append(in.Hosts, put)
	}
	if len(in.Hosts) > 0 {
		if raw, err := json.Marshal(in); err != nil || len(raw) > mostAtOnce {
			return core.Usage("import hosts: %d hosts at once are too much for one change of a zone", len(in.Hosts)).Hinted("nothing was changed; import parts of them with --only")
		}
		var out protocol.PutHostsDone
		if err := im.t.Update(ctx, "import hosts", protocol.PoolID(im.flags.zone), protocol.UpdatePutHosts, "", &out, in); err != nil {
			return err
		}
	}
	return im.show(true)
}

func firstErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (im *hostImport) show(done bool) error {
	zone := cmp.Or(im.flags.zone, "default")
	list := make([]importedHost, 0, len(im.hosts))
	for _, h := range im.hosts {
		v := importedHost{Name: h.put.Spec.Name, Outcome: im.outcome(h, done), Zone: zone, Changes: h.differs}
		if h.unpinned && v.Outcome == wouldAdd {
			v.Changes = []string{"its key is not pinned: ctl would ask"}
		}
		list = append(list, v)
	}
	return core.ShowAll(im.app.Print(), list, func(p *core.Printer) {
		counts := map[string]int{}
		var rows [][]core.Cell
		for i, v := range list {
			counts[v.Outcome]++
			h := protocol.HostView{Name: v.Name, User: im.hosts[i].put.Spec.User, Address: im.hosts[i].put.Spec.Address, Port: port(&im.hosts[i].put.Spec)}
			rows = append(rows, []core.Cell{core.Painted(core.Bold, v.Name), core.Plain(strings.ReplaceAll(v.Outcome, "_", " ")), core.Plain(target(h)), core.Plain(strings.Join(v.Changes, "; "))})
		}
		p.Table([]string{"NAME", "OUTCOME", "ADDRESS", "CHANGES"}, rows)
		var sum []string
		for _, o := range slices.Sorted(maps.Keys(counts)) {
			sum = append(sum, fmt.Sprintf("%d %s", counts[o], strings.ReplaceAll(o, "_", " ")))
		}
		p.Printf("zone %s: %s\n", zone, strings.Join(sum, ", "))
	})
}

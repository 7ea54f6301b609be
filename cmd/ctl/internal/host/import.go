package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/inventory"
	"fairlead.dev/fairlead/internal/protocol"
)

type importFlags struct {
	format     string
	zone       string
	labels     []string
	slots      int
	only       []string
	knownHosts []string
	dryRun     bool
	update     bool
	slotsGiven bool
}

func importCommand(a *core.App) *cobra.Command {
	var f importFlags
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "add the hosts of a file: our YAML, an Ansible inventory, an OpenSSH config",
		Long: `Adds the hosts of a file to the inventory of a zone, all of them or none. FILE (- is
standard input) is YAML of our own (as ` + "`ctl host export`" + ` writes it), an Ansible inventory,
or an OpenSSH client config such as ~/.ssh/config; what it was taken for is said. Names
are written in small letters from then on.

Your own ansible-inventory reads Ansible's files, or FILE is the JSON that
` + "`ansible-inventory --list`" + ` prints. Groups become labels: group.NAME=yes for each group
that a host is in, also by way of its children. The names behind Host of an OpenSSH
config are hosts, also of files that it includes, and your own ssh says their settings
(ssh -G). These programs run what your files tell them to run, such as inventory plugins
and Match exec. --timeout (2 minutes) ends them, but not what they have started.

Every key must be pinned: by the file (host_keys, UserKnownHostsFile), by
--known-hosts, which is a file on this machine here, or by looking at each fingerprint
when ctl asks; without a terminal, hosts that have none are listed (exit 2). The paths
of identities are paths on the workers; ~ in the file is your own home folder.

A second import changes nothing. Labels, slots, root and pins that the file does not
speak of stay. A host that is there with other settings is changed with --update only,
otherwise nothing at all is done (exit 6).`,
		Example: `  ctl host import hosts.yaml --dry-run
  ctl host import inventory.ini --known-hosts ~/.ssh/known_hosts --zone lab --only 'web-*'
  ansible-inventory -i site/ --list | ctl host import - --known-hosts ~/.ssh/known_hosts
  ctl host import ~/.ssh/config --known-hosts ~/.ssh/known_hosts --only build-1`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			f.slotsGiven = c.Flags().Changed("slots")
			return importHosts(c.Context(), a, args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.format, "format", "", "what FILE is: yaml, ansible-ini, ansible-yaml, ansible-json or ssh-config (default: found out)")
	fl.StringVar(&f.zone, "zone", "", "the zone whose workers reach them")
	fl.StringArrayVar(&f.labels, "label", nil, "a `key=value` that all of them get; repeatable")
	fl.IntVar(&f.slots, "slots", 0, "how many sessions at once on each (default: what the file says, or 4)")
	fl.StringArrayVar(&f.only, "only", nil, "those whose name matches this `PATTERN`, and whom they jump over; repeatable")
	fl.StringArrayVar(&f.knownHosts, "known-hosts", nil, "take keys from this known_hosts `FILE`, on this machine; repeatable")
	fl.BoolVar(&f.dryRun, "dry-run", false, "show what would be added, changed, left as it is; change nothing")
	fl.BoolVar(&f.update, "update", false, "change hosts that are there with other settings")
	return c
}

// importHosts compares the file with the inventory, asks about unknown host keys, and makes
// all changes at once.
func importHosts(ctx context.Context, a *core.App, path string, f importFlags) error {
	file, err := readInventory(ctx, a, path, f)
	if err != nil {
		return err
	}
	im := &hostImport{app: a, flags: f, path: path, file: file}
	if err := im.prepare(); err != nil {
		return err
	}
	if im.t, err = conn.Open(ctx, a); err != nil {
		return err
	}
	if err := im.compare(ctx); err != nil {
		return err
	}
	if err := im.pin(ctx); err != nil {
		return err
	}
	return im.carryOut(ctx)
}

// programTime bounds programs that read a file.
const programTime = 2 * time.Minute

var programHints = map[string]string{
	"ansible-inventory": "install ansible-core (apt-get install ansible-core), or run `ansible-inventory -i FILE --list` where it is, and import what it prints",
	"ssh":               "install OpenSSH's client (apt-get install openssh-client)",
}

// readInventory tells which format it took the file for.
func readInventory(ctx context.Context, a *core.App, path string, f importFlags) (*inventory.File, error) {
	name, r := path, a.In
	if path == "-" {
		name = "standard input"
	} else {
		file, _, err := core.OpenRegular("host import", path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		r = file
	}
	data, err := io.ReadAll(io.LimitReader(r, inventory.MaxList+1))
	if err != nil {
		return nil, core.Failed("read %s: %v", name, err)
	}
	o := inventory.Options{Name: name, Format: inventory.Format(f.format), Only: f.only, Glob: filepath.Glob, Read: readIncluded}
	if o.Format != "" && !slices.Contains(inventory.Formats, o.Format) {
		return nil, core.Usage("--format %q is not a known format", f.format).Hinted("yaml, ansible-ini, ansible-yaml, ansible-json or ssh-config")
	}
	if o.Home, err = os.UserHomeDir(); err != nil {
		o.Home = ""
	}
	if abs, err := filepath.Abs(path); err == nil && path != "-" {
		o.Name, o.Path = abs, abs // shows whether it is the config in ~/.ssh
	}
	format := o.Format
	if format == "" {
		format = inventory.Detect(o.Name, data)
	}
	o.Name, o.Format = name, format
	ctx, cancel := a.Bounded(ctx, programTime)
	defer cancel()
	file, err := inventory.Parse(ctx, data, o)
	var bad *inventory.Error
	var missing *inventory.MissingError
	switch {
	case errors.As(err, &missing):
		return nil, core.Usage("import hosts: %s is needed to read %s (%s), and it is not installed here", missing.Program, core.Clean(name), format).Hinted("%s", programHints[missing.Program])
	case err != nil && !errors.As(err, &bad):
		return nil, fmt.Errorf("import hosts: %s: %w", core.Clean(name), err)
	case err != nil:
		return nil, core.Usage("import hosts: %s", core.Clean(err.Error())).Hinted("nothing was changed; --format says what the file is if that was mistaken, --only leaves hosts out")
	}
	how := "by its content and name"
	if f.format != "" {
		how = "as --format says"
	}
	a.Note("%s: read as %s, %s; hosts: %d", core.Clean(name), file.Format, how, len(file.Hosts))
	for _, w := range file.Warnings {
		fmt.Fprintf(a.Err, "%s: %s: %s\n", a.Program(), core.Clean(name), core.Clean(w.String()))
	}
	return file, nil
}

// readIncluded is for OpenSSH's Include.
func readIncluded(name string) ([]byte, error) {
	data, err := core.ReadSmall("Include", name, inventory.MaxFile)
	var e *core.Error
	if errors.As(err, &e) {
		return nil, errors.New(e.Message)
	}
	return data, err
}

type hostImport struct {
	app   *core.App
	t     *conn.Conn
	flags importFlags
	path  string
	file  *inventory.File
	hosts []*imported
}

// An imported is a host of the file.
type imported struct {
	from *inventory.Host
	put  protocol.PutHost
	old  *protocol.HostView // in the inventory; may be nil
	// differs lists settings in which old differs from put.
	differs []string
	// unpinned says that a person has to check the host's key.
	unpinned bool
}

// prepare checks what needs no worker, host or person.
func (im *hostImport) prepare() error {
	labels, err := pairs("--label", im.flags.labels)
	if err != nil {
		return err
	}
	if im.flags.slots < 0 || im.flags.slots == 0 && im.flags.slotsGiven {
		return core.Usage("--slots %d: at least 1", im.flags.slots)
	}
	var pins inventory.Pins
	for _, file := range im.flags.knownHosts { // even if no host needs it
		if _, err := pins.Keys(file, &inventory.Host{Address: "localhost"}, false); err != nil {
			return core.Usage("--known-hosts: %v", err).Hinted("nothing was changed")
		}
	}
	bad := &inventory.Error{Name: im.path, Format: im.file.Format}
	for i := range im.file.Hosts {
		h := &im.file.Hosts[i]
		put, at, err := im.put(h, &pins)
		if err != nil {
			text := err.Error()
			var e *core.Error
			if errors.As(err, &e) && e.Hint != "" {
				text += " (" + e.Hint + ")"
			}
			bad.Problems = append(bad.Problems, inventory.Problem{Place: h.At(at), Text: "host " + h.Name + ": " + text})
			continue
		}
		for k, v := range labels {
			if put.Labels == nil {
				put.Labels = map[string]string{}
			}
			put.Labels[k] = v
		}
		im.hosts = append(im.hosts, &imported{from: h, put: put})
	}
	if len(bad.Problems) > 0 {
		return core.Usage("import hosts: %s", core.Clean(bad.Error())).Hinted("nothing was changed")
	}
	return nil
}

// put makes the request of `host add`, with its checks. After an error, at names the wrong
// setting.
func (im *hostImport) put(h *inventory.Host, pins *inventory.Pins) (put protocol.PutHost, at string, err error) {
	f := hostFlags{slots: h.Slots, zone: im.flags.zone, jump: h.Jump, identity: h.Identity, root: h.Root, hostKeys: h.HostKeys, knownHosts: h.KnownHosts}
	if im.flags.slots > 0 {
		f.slots = im.flags.slots
	}
	if len(f.hostKeys) == 0 && f.knownHosts == "" {
		if f.hostKeys, err = im.keys(h, pins); err != nil {
			return put, "pin_files", err
		}
	}
	address := h.Address
	if strings.Contains(address, ":") {
		address = "[" + address + "]"
	}
	if h.Port > 0 {
		address = fmt.Sprintf("%s:%d", address, h.Port)
	}
	if h.User != "" {
		address = h.User + "@" + address
	}
	put, err = f.put([]string{h.Name, address})
	put.Labels = h.Labels
	if err != nil {
		for _, of := range []struct{ name, value string }{{"identity", h.Identity}, {"known_hosts", h.KnownHosts}, {"root", h.Root}, {"address", h.Address}} {
			if of.value != "" && strings.Contains(err.Error(), of.value) {
				at = of.name
			}
		}
		switch {
		case strings.Contains(err.Error(), "--host-key"):
			at = "host_keys"
		case strings.HasPrefix(err.Error(), "address "):
			at = "address"
		}
	}
	return put, at, err
}

// keys returns a host's keys in this machine's known_hosts files.
func (im *hostImport) keys(h *inventory.Host, pins *inventory.Pins) ([]string, error) {
	var out []string
	take := func(file string, missing bool) error {
		keys, err := pins.Keys(file, h, missing)
		for _, k := range keys {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
		return err
	}
	for _, file := range im.flags.knownHosts {
		if err := take(file, false); err != nil {
			return nil, err
		}
	}
	for _, file := range h.PinFiles {
		if err := take(file, true); err != nil {
			return nil, err
		}
	}
	return out, nil
}

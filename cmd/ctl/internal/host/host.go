package host

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/cmd/ctl/internal/show"
	"fairlead.dev/fairlead/cmd/internal/flows"
	"fairlead.dev/fairlead/internal/protocol"
)

// Command is `ctl host`.
func Command(a *core.App) *cobra.Command {
	return core.Group("host", "the machines that sessions run on",
		addCommand(a), listCommand(a), showCommand(a), removeCommand(a),
		checkCommand(a), provisionCommand(a), execCommand(a), tunnelCommand(a),
		cordonCommand(a, "cordon", "let no new session onto a host", true),
		cordonCommand(a, "uncordon", "let new sessions onto a host again; ends a drain", false),
		drainCommand(a), setCommand(a), importCommand(a), exportCommand(a))
}

type hostFlags struct {
	labels     []string
	slots      int
	slotsGiven bool // --slots was given, even as 0
	zone       string
	jump       string
	identity   string
	root       string
	hostKeys   []string
	knownHosts string
	replace    bool
}

func addCommand(a *core.App) *cobra.Command {
	var f hostFlags
	c := &cobra.Command{
		Use:   "add NAME [USER@]ADDRESS[:PORT]",
		Short: "add a host to the inventory",
		Long: `Adds a host to the inventory of a zone. Its key must be pinned: with --host-key,
with --known-hosts, or by looking at the fingerprint when ctl asks.
--identity and --known-hosts are paths on the workers, --root is a path on the host.`,
		Example: `  ctl host add web-1 dev@web-1.example --host-key 'SHA256:kJ…' --label gpu=no
  ctl host add web-2 'dev@[2001:db8::2]:2222' --known-hosts /etc/fairlead/known_hosts`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			f.slotsGiven = c.Flags().Changed("slots")
			put, err := f.put(args)
			if err != nil {
				return err
			}
			return addHost(c.Context(), a, put)
		},
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.labels, "label", nil, "a `key=value` that selectors look at; repeatable")
	fl.IntVar(&f.slots, "slots", 0, "how many sessions at once (default 4)")
	fl.StringVar(&f.zone, "zone", "", "the zone whose workers reach it")
	fl.StringVar(&f.jump, "jump", "", "`NAME` of the host to go through")
	fl.StringVar(&f.identity, "identity", "", "private key `FILE` on the workers (default: agent and ~/.ssh)")
	fl.StringVar(&f.root, "root", "", "`DIR` on the host for all that is ours (default ~/.fairlead)")
	fl.StringArrayVar(&f.hostKeys, "host-key", nil, "the host's key: 'type base64' or SHA256:…; repeatable")
	fl.StringVar(&f.knownHosts, "known-hosts", "", "known_hosts `FILE` on the workers")
	fl.BoolVar(&f.replace, "replace", false, "change a host that is there already")
	return c
}

// put checks all flags, and sends nothing.
func (f hostFlags) put(args []string) (protocol.PutHost, error) {
	var put protocol.PutHost
	if err := core.CheckName("host name", args[0]); err != nil {
		return put, err
	}
	put.Spec.Name = args[0]
	put.Slots, put.Zone, put.Jump, put.Replace = f.slots, f.zone, f.jump, f.replace
	put.Spec.Root, put.Spec.Identity = f.root, f.identity
	put.Spec.HostKeys, put.Spec.KnownHosts = f.hostKeys, f.knownHosts
	if len(f.hostKeys) > 0 && f.knownHosts != "" {
		return put, core.Usage("--host-key and --known-hosts: give one of them")
	}
	if f.slots < 0 || f.slots == 0 && f.slotsGiven {
		return put, core.Usage("--slots %d: at least 1 (`ctl host cordon` keeps new sessions out)", f.slots)
	}
	if f.root != "" && !filepath.IsAbs(f.root) {
		return put, core.Usage("--root %q is not an absolute path on the host", f.root)
	}
	for _, file := range []string{f.identity, f.knownHosts} {
		if file != "" && !filepath.IsAbs(file) {
			return put, core.Usage("%q is not an absolute path on the workers", file)
		}
	}
	for _, key := range f.hostKeys {
		if err := flows.CheckHostKey(key); err != nil {
			return put, err
		}
	}
	labels, err := pairs("--label", f.labels)
	if err != nil {
		return put, err
	}
	put.Labels = labels
	switch {
	case len(args) == 1 && args[0] != protocol.LocalHost:
		return put, core.Usage("host %s needs an address", args[0]).Hinted("ctl host add %s [USER@]ADDRESS[:PORT]", args[0])
	case len(args) == 2 && args[0] == protocol.LocalHost:
		return put, core.Usage("host local is this machine: it has no address")
	case len(args) == 2:
		put.Spec.User, put.Spec.Address, put.Spec.Port, err = parseAddress(args[1])
	}
	return put, err
}

// parseAddress parses [USER@]ADDRESS[:PORT], IPv6 in brackets.
func parseAddress(s string) (login, address string, port int, err error) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		login, s = s[:i], s[i+1:]
		if login == "" {
			return "", "", 0, core.Usage("address %q has an empty user", s)
		}
	}
	bad := func(why string) (string, string, int, error) {
		return "", "", 0, core.Usage("address %q: %s", s, why).Hinted("[USER@]ADDRESS[:PORT], IPv6 in brackets")
	}
	switch {
	case strings.HasPrefix(s, "["):
		end := strings.IndexByte(s, ']')
		if end < 0 || net.ParseIP(s[1:end]) == nil {
			return bad("no IPv6 address in the brackets")
		}
		address = s[1:end]
		s = s[end+1:]
		if s != "" && !strings.HasPrefix(s, ":") {
			return bad("something odd follows the brackets")
		}
		s = strings.TrimPrefix(s, ":")
	case strings.Count(s, ":") > 1:
		return bad("IPv6 addresses go in brackets")
	default:
		address, s, _ = strings.Cut(s, ":")
	}
	if s != "" {
		if port, err = strconv.Atoi(s); err != nil || port < 1 || port > 65535 {
			return bad("the port is not a number from 1 to 65535")
		}
	}
	if address == "" || strings.ContainsAny(address, " \t/'\"") || strings.HasPrefix(address, "-") {
		return bad("that is not an address")
	}
	return login, address, port, nil
}

// pairs parses key=value flags.
func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, core.Usage("%s %q is not key=value", flag, kv)
		}
		out[k] = v
	}
	return out, nil
}

func addHost(ctx context.Context, a *core.App, put protocol.PutHost) error {
	unpinned := put.Spec.Name != protocol.LocalHost && len(put.Spec.HostKeys) == 0 && put.Spec.KnownHosts == ""
	if unpinned && !a.MayAsk() {
		return core.Usage("add host %s: its key is not pinned, and there is nobody to ask", put.Spec.Name).
			Hinted("give --host-key 'type base64' (or SHA256:…), or --known-hosts FILE")
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	if unpinned {
		if put.Spec.HostKeys, err = askHostKey(ctx, a, t, put); err != nil {
			return err
		}
	}
	done := "added to"
	if put.Replace {
		if _, err := t.Host(ctx, "add host "+put.Spec.Name, put.Zone, put.Spec.Name); err == nil {
			done = "replaced in"
		}
	}
	var v protocol.HostView
	err = t.Update(ctx, "add host "+put.Spec.Name, protocol.PoolID(put.Zone), protocol.UpdatePutHost, "", &v, put)
	if conn.NoInventory(err) {
		return core.Unreachable("add host %s: no worker has served zone %s yet, and its first one makes the inventory", put.Spec.Name, cmp.Or(put.Zone, "default")).
			Hinted("start a worker of that zone, or check --zone").Because(err)
	}
	if err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) { p.Printf("host %s %s zone %s\n", v.Name, done, v.Zone) })
}

// askHostKey fetches a host's key and asks about it.
func askHostKey(ctx context.Context, a *core.App, t *conn.Conn, put protocol.PutHost) ([]string, error) {
	doing := "add host " + put.Spec.Name
	spec := put.Spec
	if put.Jump != "" {
		var jump protocol.HostView
		if err := t.Query(ctx, doing, protocol.PoolID(put.Zone), protocol.QueryHost, &jump, put.Jump); err != nil {
			return nil, err
		}
		spec.Jump = jump.Spec
	}
	return askKeyOf(ctx, a, t, doing, put.Zone, spec)
}

// askKeyOf is askHostKey with a resolved jump host.
func askKeyOf(ctx context.Context, a *core.App, t *conn.Conn, doing, zone string, spec protocol.HostSpec) ([]string, error) {
	var out protocol.ScanHostKeysResult
	err := t.HostTask(ctx, doing, zone, protocol.HostTaskID(spec.Name, "scan"), protocol.TypeScan,
		protocol.ScanHostKeysInput{Host: spec}, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Keys) == 0 {
		return nil, core.Failed("%s: %s showed no key", doing, spec.Address)
	}
	for _, k := range out.Keys {
		fmt.Fprintf(a.Err, "%s shows the key %s %s\n", spec.Address, core.Clean(k.Type), core.Clean(k.Fingerprint))
	}
	ok, err := a.Confirm(ctx, "Is that its key, and is it to be trusted from now on?")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, core.Refused("%s: the key was not trusted; nothing was added", doing)
	}
	var keys []string
	for _, k := range out.Keys {
		keys = append(keys, k.Key)
	}
	return keys, nil
}

func listCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "list", Short: "hosts, their slots and states", Args: cobra.NoArgs,
		Example: "  ctl host list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			hosts, err := t.Hosts(c.Context(), zone)
			if err != nil {
				return err
			}
			return core.ShowAll(a.Print(), hosts, func(p *core.Printer) {
				var rows [][]core.Cell
				left := 0
				for _, h := range hosts {
					left += h.Unclean
					rows = append(rows, []core.Cell{core.Painted(core.Bold, h.Name), core.Plain(target(h)), core.Painted(hostColour(h.State), h.State),
						core.Plain(fmt.Sprintf("%d/%d", h.Used, h.Slots)), core.Plain(h.Codex), core.Plain(h.Sandbox), core.Plain(labels(h.Labels)), core.Plain(h.CheckedAt)})
				}
				p.Table([]string{"NAME", "ADDRESS", "STATE", "USED", "CODEX", "SANDBOX", "LABELS", "CHECKED"}, rows)
				for _, h := range hosts {
					if h.Health != nil {
						p.Printf("%s\n", p.Paint(core.Yellow, fmt.Sprintf("host %s is %s", h.Name, healthText(h.Name, h.Health))))
					}
				}
				if len(hosts) > 0 && hosts[0].Paused != nil {
					p.Printf("%s\n", p.Paint(core.Yellow, "the zone is paused "+show.PauseText(hosts[0].Paused)+" (`ctl pool resume` ends it)"))
				}
				if len(hosts) > 0 && hosts[0].WaitingFor != nil {
					p.Printf("%s\n", p.Paint(core.Yellow, "the zone grants no slot: "+poolWaitText(hosts[0].WaitingFor)))
				}
				if left > 0 {
					p.Printf("%s\n", p.Paint(core.Yellow, unclean(left)+" (`ctl host show NAME` says more)"))
				}
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the zone to look at")
	return c
}

func target(h protocol.HostView) string {
	if h.Address == "" {
		return "this machine"
	}
	s := net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
	if h.User != "" {
		s = h.User + "@" + s
	}
	return s
}

func hostColour(state string) core.Style {
	switch state {
	case "ready":
		return core.Green
	case "unfit", "quarantined":
		return core.Red
	case "cordoned", "draining", "drained", "suspect":
		return core.Yellow
	}
	return ""
}

func labels(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func showCommand(a *core.App) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "show NAME", Short: "all that is known of a host", Args: cobra.ExactArgs(1),
		Example: "  ctl host show web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := conn.Open(c.Context(), a)
			if err != nil {
				return err
			}
			h, err := t.Host(c.Context(), "show host "+args[0], zone, args[0])
			if err != nil {
				return err
			}
			return a.Print().Show(h, func(p *core.Printer) {
				p.Fields(core.Plain("name"), core.Painted(core.Bold, h.Name), core.Plain("address"), core.Plain(target(h)), core.Plain("state"), core.Painted(hostColour(h.State), h.State),
					core.Plain("paused"), core.Painted(core.Yellow, show.PauseText(h.Paused)), core.Plain("grants no slot"), core.Painted(core.Yellow, poolWaitText(h.WaitingFor)), core.Plain("slots"), core.Plain(fmt.Sprintf("%d of %d used", h.Used, h.Slots)), core.Plain("held by"), core.Plain(strings.Join(h.Holders, ", ")),
					core.Plain("zone"), core.Plain(h.Zone), core.Plain("key"), core.Plain(h.Fingerprint), core.Plain("codex"), core.Plain(h.Codex),
					core.Plain("sandbox"), core.Plain(h.Sandbox), core.Plain("labels"), core.Plain(labels(h.Labels)), core.Plain("found"), core.Plain(labels(h.Found)), core.Plain("checked"), core.Plain(h.CheckedAt), core.Plain("health"), core.Plain(healthText(h.Name, h.Health)), core.Plain("folders"), core.Plain(foldersText(h)))
				showLeftovers(p, h)
				showUnknownFolders(p, h)
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func removeCommand(a *core.App) *cobra.Command {
	var zone string
	var force bool
	c := &cobra.Command{
		Use: "remove NAME", Short: "take a host out of the inventory", Args: cobra.ExactArgs(1),
		Example: "  ctl host remove web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return changeHost(c.Context(), a, zone, args[0], protocol.UpdateRemoveHost, protocol.RemoveHost{Name: args[0], Force: force}, "removed")
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also when a session may have left a credential there, which nobody will wipe then")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func cordonCommand(a *core.App, use, short string, cordon bool) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1), Example: "  ctl host " + use + " web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return changeHost(c.Context(), a, zone, args[0], protocol.UpdateSetHost, protocol.SetHost{Name: args[0], Cordon: &cordon}, use+"ed")
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func changeHost(ctx context.Context, a *core.App, zone, name, update string, arg any, done string) error {
	if err := core.CheckName("host name", name); err != nil {
		return err
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	var v protocol.HostView
	if err := t.Update(ctx, "change host "+name, protocol.PoolID(zone), update, "", &v, arg); err != nil {
		return err
	}
	return a.Print().Show(v, func(p *core.Printer) { p.Printf("host %s %s\n", name, done) })
}

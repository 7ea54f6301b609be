package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"

	"fairlead.dev/fairlead/activities"
	"fairlead.dev/fairlead/workflows"
)

func hostCommand(a *app) *cobra.Command {
	return group("host", "the machines that sessions run on",
		hostAddCommand(a), hostListCommand(a), hostShowCommand(a), hostRemoveCommand(a),
		hostCheckCommand(a), hostProvisionCommand(a), hostExecCommand(a),
		hostCordonCommand(a, "cordon", "let no new session onto a host", true),
		hostCordonCommand(a, "uncordon", "let new sessions onto a host again; ends a drain", false),
		hostDrainCommand(a), hostSetCommand(a), hostImportCommand(a), hostExportCommand(a))
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "somebody"
}

// hostFlags are what a person says of a host.
type hostFlags struct {
	labels     []string
	slots      int
	slotsGiven bool // tells a given 0 from the default
	zone       string
	jump       string
	identity   string
	root       string
	hostKeys   []string
	knownHosts string
	replace    bool
}

func hostAddCommand(a *app) *cobra.Command {
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
			return a.addHost(c.Context(), put)
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

// put turns the flags into the request for the host pool. It checks all of them, and sends
// nothing.
func (f hostFlags) put(args []string) (workflows.PutHost, error) {
	var put workflows.PutHost
	if err := checkName("host name", args[0]); err != nil {
		return put, err
	}
	put.Spec.Name = args[0]
	put.Slots, put.Zone, put.Jump, put.Replace = f.slots, f.zone, f.jump, f.replace
	put.Spec.Root, put.Spec.Identity = f.root, f.identity
	put.Spec.HostKeys, put.Spec.KnownHosts = f.hostKeys, f.knownHosts
	if len(f.hostKeys) > 0 && f.knownHosts != "" {
		return put, usage("--host-key and --known-hosts: give one of them")
	}
	if f.slots < 0 || f.slots == 0 && f.slotsGiven {
		return put, usage("--slots %d: at least 1 (`ctl host cordon` lets nobody in)", f.slots)
	}
	if f.root != "" && !filepath.IsAbs(f.root) {
		return put, usage("--root %q is not an absolute path on the host", f.root)
	}
	for _, file := range []string{f.identity, f.knownHosts} {
		if file != "" && !filepath.IsAbs(file) {
			return put, usage("%q is not an absolute path on the workers", file)
		}
	}
	for _, key := range f.hostKeys {
		if err := checkHostKey(key); err != nil {
			return put, err
		}
	}
	labels, err := pairs("--label", f.labels)
	if err != nil {
		return put, err
	}
	put.Labels = labels
	switch {
	case len(args) == 1 && args[0] != activities.LocalHost:
		return put, usage("host %s needs an address", args[0]).hinted("ctl host add %s [USER@]ADDRESS[:PORT]", args[0])
	case len(args) == 2 && args[0] == activities.LocalHost:
		return put, usage("host local is this machine: it has no address")
	case len(args) == 2:
		put.Spec.User, put.Spec.Address, put.Spec.Port, err = parseAddress(args[1])
	}
	return put, err
}

// checkHostKey refuses text that cannot be a host key, before it is pinned.
func checkHostKey(key string) error {
	bad := func(why string) error {
		return usage("--host-key %q %s", key, why).
			hinted("'type base64' as in known_hosts, or SHA256:… as ssh-keygen -l prints; `ssh-keyscan ADDRESS` prints keys, compare the fingerprint with one you trust")
	}
	if sum, ok := strings.CutPrefix(key, "SHA256:"); ok {
		raw, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(sum, "="))
		if err != nil || len(raw) != 32 {
			return bad("is no fingerprint: it must be 43 letters of base64")
		}
		return nil
	}
	fields := strings.Fields(key)
	if len(fields) < 2 {
		return bad("is neither a key nor a fingerprint")
	}
	// A key's binary form begins with the length and the name of its type.
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil || len(blob) < 4+len(fields[0]) || string(blob[4:4+len(fields[0])]) != fields[0] {
		return bad("is no key: what follows the type is not of that type, or not whole")
	}
	return nil
}

// parseAddress parses [USER@]ADDRESS[:PORT]. IPv6 addresses are in brackets.
func parseAddress(s string) (login, address string, port int, err error) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		login, s = s[:i], s[i+1:]
		if login == "" {
			return "", "", 0, usage("address %q has an empty user", s)
		}
	}
	bad := func(why string) (string, string, int, error) {
		return "", "", 0, usage("address %q: %s", s, why).hinted("[USER@]ADDRESS[:PORT], IPv6 in brackets")
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
		return bad("that is no address")
	}
	return login, address, port, nil
}

// pairs parses flags of the form key=value.
func pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usage("%s %q is not key=value", flag, kv)
		}
		out[k] = v
	}
	return out, nil
}

func (a *app) addHost(ctx context.Context, put workflows.PutHost) error {
	unpinned := put.Spec.Name != activities.LocalHost && len(put.Spec.HostKeys) == 0 && put.Spec.KnownHosts == ""
	if unpinned && !a.mayAsk() {
		return usage("add host %s: its key is not pinned, and there is nobody to ask", put.Spec.Name).
			hinted("give --host-key 'type base64' (or SHA256:…), or --known-hosts FILE")
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	if unpinned {
		if put.Spec.HostKeys, err = a.askHostKey(ctx, t, put); err != nil {
			return err
		}
	}
	done := "added to"
	if put.Replace {
		if _, err := t.host(ctx, "add host "+put.Spec.Name, put.Zone, put.Spec.Name); err == nil {
			done = "replaced in"
		}
	}
	var v workflows.HostView
	err = t.update(ctx, "add host "+put.Spec.Name, workflows.PoolID(put.Zone), workflows.UpdatePutHost, "", &v, put)
	if noInventory(err) {
		return unreachable("add host %s: no worker has served zone %s yet, and its first one makes the inventory", put.Spec.Name, cmp.Or(put.Zone, "default")).
			hinted("start a worker of that zone, or check --zone").because(err)
	}
	if err != nil {
		return err
	}
	return a.print().show(v, func(p *printer) { p.printf("host %s %s zone %s\n", v.Name, done, v.Zone) })
}

// askHostKey fetches the host's key and asks a person whether it is the right one.
func (a *app) askHostKey(ctx context.Context, t *temporal, put workflows.PutHost) ([]string, error) {
	doing := "add host " + put.Spec.Name
	spec := put.Spec
	if put.Jump != "" {
		var jump workflows.HostView
		if err := t.query(ctx, doing, workflows.PoolID(put.Zone), workflows.QueryHost, &jump, put.Jump); err != nil {
			return nil, err
		}
		spec.Jump = jump.Spec
	}
	return a.askKeyOf(ctx, t, doing, put.Zone, spec)
}

// askKeyOf is askHostKey for a host whose jump host is already resolved.
func (a *app) askKeyOf(ctx context.Context, t *temporal, doing, zone string, spec activities.HostSpec) ([]string, error) {
	var out activities.ScanHostKeysResult
	err := t.hostTask(ctx, doing, zone, workflows.HostTaskID(spec.Name, "scan"), workflows.TypeScan,
		activities.ScanHostKeysInput{Host: spec}, &out)
	if err != nil {
		return nil, err
	}
	if len(out.Keys) == 0 {
		return nil, failed("%s: %s showed no key", doing, spec.Address)
	}
	for _, k := range out.Keys {
		fmt.Fprintf(a.err, "%s shows the key %s %s\n", spec.Address, clean(k.Type), clean(k.Fingerprint))
	}
	ok, err := a.confirm(ctx, "Is that its key, and is it to be trusted from now on?")
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refused("%s: the key was not trusted; nothing was added", doing)
	}
	var keys []string
	for _, k := range out.Keys {
		keys = append(keys, k.Key)
	}
	return keys, nil
}

func hostListCommand(a *app) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "list", Short: "hosts, their slots and states", Args: cobra.NoArgs,
		Example: "  ctl host list -o json",
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			hosts, err := a.hosts(c.Context(), t, zone)
			if err != nil {
				return err
			}
			return showAll(a.print(), hosts, func(p *printer) {
				var rows [][]cell
				left := 0
				for _, h := range hosts {
					left += h.Unclean
					rows = append(rows, []cell{painted(bold, h.Name), plain(target(h)), painted(hostColour(h.State), h.State),
						plain(fmt.Sprintf("%d/%d", h.Used, h.Slots)), plain(h.Codex), plain(h.Sandbox), plain(labels(h.Labels)), plain(h.CheckedAt)})
				}
				p.table([]string{"NAME", "ADDRESS", "STATE", "USED", "CODEX", "SANDBOX", "LABELS", "CHECKED"}, rows)
				for _, h := range hosts {
					if h.Health != nil {
						p.printf("%s\n", p.paint(yellow, fmt.Sprintf("host %s is %s", h.Name, healthText(h.Name, h.Health))))
					}
				}
				if len(hosts) > 0 && hosts[0].Paused != nil {
					p.printf("%s\n", p.paint(yellow, "the zone is paused "+pauseText(hosts[0].Paused)+" (`ctl pool resume` ends it)"))
				}
				if len(hosts) > 0 && hosts[0].WaitingFor != nil {
					p.printf("%s\n", p.paint(yellow, "the zone grants no slot: "+poolWaitText(hosts[0].WaitingFor)))
				}
				if left > 0 {
					p.printf("%s\n", p.paint(yellow, unclean(left)+" (`ctl host show NAME` says more)"))
				}
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the zone to look at")
	return c
}

// hosts lists a zone's hosts. A zone's inventory is created by its first worker, so a zone
// without one has no hosts, which is not an error.
func (a *app) hosts(ctx context.Context, t *temporal, zone string) ([]workflows.HostView, error) {
	var hosts []workflows.HostView
	err := t.ask(ctx, "list hosts", workflows.PoolID(zone), workflows.QueryHosts, &hosts)
	if noInventory(err) {
		a.note("no worker has served zone %s yet: it has no hosts", cmp.Or(zone, "default"))
		return nil, nil
	}
	return hosts, err
}

// noInventory reports whether an error means that the zone has no host pool.
func noInventory(err error) bool {
	var none *serviceerror.NotFound
	return errors.As(err, &none)
}

func target(h workflows.HostView) string {
	if h.Address == "" {
		return "this machine"
	}
	s := net.JoinHostPort(h.Address, strconv.Itoa(h.Port))
	if h.User != "" {
		s = h.User + "@" + s
	}
	return s
}

func hostColour(state string) style {
	switch state {
	case "ready":
		return green
	case "unfit", "quarantined":
		return red
	case "cordoned", "draining", "drained", "suspect":
		return yellow
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

func hostShowCommand(a *app) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: "show NAME", Short: "all that is known of a host", Args: cobra.ExactArgs(1),
		Example: "  ctl host show web-1",
		RunE: func(c *cobra.Command, args []string) error {
			t, err := a.temporal(c.Context())
			if err != nil {
				return err
			}
			h, err := t.host(c.Context(), "show host "+args[0], zone, args[0])
			if err != nil {
				return err
			}
			return a.print().show(h, func(p *printer) {
				p.fields(plain("name"), painted(bold, h.Name), plain("address"), plain(target(h)), plain("state"), painted(hostColour(h.State), h.State),
					plain("paused"), painted(yellow, pauseText(h.Paused)), plain("grants no slot"), painted(yellow, poolWaitText(h.WaitingFor)), plain("slots"), plain(fmt.Sprintf("%d of %d used", h.Used, h.Slots)), plain("held by"), plain(strings.Join(h.Holders, ", ")),
					plain("zone"), plain(h.Zone), plain("key"), plain(h.Fingerprint), plain("codex"), plain(h.Codex),
					plain("sandbox"), plain(h.Sandbox), plain("labels"), plain(labels(h.Labels)), plain("found"), plain(labels(h.Found)), plain("checked"), plain(h.CheckedAt), plain("health"), plain(healthText(h.Name, h.Health)), plain("folders"), plain(foldersText(h)))
				showLeftovers(p, h)
				showUnknownFolders(p, h)
			})
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

// host returns one host, as the host pool knows it.
func (t *temporal) host(ctx context.Context, doing, zone, name string) (workflows.HostView, error) {
	var h workflows.HostView
	if err := checkName("host name", name); err != nil {
		return h, err
	}
	err := t.ask(ctx, doing, workflows.PoolID(zone), workflows.QueryHost, &h, name)
	if noInventory(err) {
		err = notFound("%s: zone %s has no hosts: no worker has served it yet", doing, cmp.Or(zone, "default")).
			hinted("`ctl status` shows the workers and their zones").because(err)
	}
	return h, err
}

func hostRemoveCommand(a *app) *cobra.Command {
	var zone string
	var force bool
	c := &cobra.Command{
		Use: "remove NAME", Short: "take a host out of the inventory", Args: cobra.ExactArgs(1),
		Example: "  ctl host remove web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeHost(c.Context(), zone, args[0], workflows.UpdateRemoveHost, workflows.RemoveHost{Name: args[0], Force: force}, "removed")
		},
	}
	c.Flags().BoolVar(&force, "force", false, "also when a session may have left a credential there, which nobody will wipe then")
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func hostCordonCommand(a *app, use, short string, cordon bool) *cobra.Command {
	var zone string
	c := &cobra.Command{
		Use: use + " NAME", Short: short, Args: cobra.ExactArgs(1), Example: "  ctl host " + use + " web-1",
		RunE: func(c *cobra.Command, args []string) error {
			return a.changeHost(c.Context(), zone, args[0], workflows.UpdateSetHost, workflows.SetHost{Name: args[0], Cordon: &cordon}, use+"ed")
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the host's zone")
	return c
}

func (a *app) changeHost(ctx context.Context, zone, name, update string, arg any, done string) error {
	if err := checkName("host name", name); err != nil {
		return err
	}
	t, err := a.temporal(ctx)
	if err != nil {
		return err
	}
	var v workflows.HostView
	if err := t.update(ctx, "change host "+name, workflows.PoolID(zone), update, "", &v, arg); err != nil {
		return err
	}
	return a.print().show(v, func(p *printer) { p.printf("host %s %s\n", name, done) })
}

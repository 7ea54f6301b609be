package host

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/inventory"
	"fairlead.dev/fairlead/internal/protocol"
)

func exportCommand(a *core.App) *cobra.Command {
	var zone, format string
	c := &cobra.Command{
		Use:   "export [NAME...]",
		Short: "write hosts as a file that `ctl host import` reads",
		Long: `Writes the hosts of a zone, or those that are named and whom they jump over: what people
said of them, and nothing that a probe found. No secret is in it: identities are paths
on the workers. The host local is not in it: every zone has its own.`,
		Example: `  ctl host export > hosts.yaml
  ctl host export --format ssh-config web-1 >> ~/.ssh/config`,
		RunE: func(c *cobra.Command, names []string) error {
			return exportHosts(c.Context(), a, zone, inventory.Format(format), names)
		},
	}
	c.Flags().StringVar(&zone, "zone", "", "the hosts' zone")
	c.Flags().StringVar(&format, "format", string(inventory.YAML), "yaml, ansible-yaml or ssh-config")
	return c
}

func exportHosts(ctx context.Context, a *core.App, zone string, format inventory.Format, names []string) error {
	if _, err := inventory.Write(format, nil); err != nil {
		return core.Usage("--format %v", err)
	}
	for _, n := range names {
		if err := core.CheckName("host name", n); err != nil {
			return err
		}
		if n == protocol.LocalHost {
			return core.Usage("export host %s: it is the worker's own machine, and every zone has one", n)
		}
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	var there []protocol.HostView
	err = t.Query(ctx, "export hosts", protocol.PoolID(zone), protocol.QueryHosts, &there)
	if conn.NoInventory(err) {
		a.Note("no worker has served zone %s yet: it has no hosts", cmp.Or(zone, "default"))
		err = nil
	}
	if err != nil {
		return err
	}
	list, lacking := exportedHosts(there, names)
	if len(lacking) > 0 {
		return core.NotFound("export hosts: zone %s has no host %s", cmp.Or(zone, "default"), strings.Join(lacking, ", "))
	}
	data, err := inventory.Write(format, list)
	if err != nil {
		return core.Usage("export hosts: %v", err)
	}
	_, err = a.Out.Write(data)
	return err
}

// exportedHosts returns the named hosts, or all, with their jump hosts. lacking are unknown
// names.
func exportedHosts(there []protocol.HostView, names []string) (list []inventory.Host, lacking []string) {
	wanted := map[string]bool{}
	find := func(name string) int {
		return slices.IndexFunc(there, func(v protocol.HostView) bool { return v.Name == name })
	}
	if len(names) == 0 {
		for _, v := range there {
			names = append(names, v.Name)
		}
	}
	for _, name := range names {
		if find(name) < 0 {
			lacking = append(lacking, name)
		}
		for i := find(name); i >= 0 && !wanted[there[i].Name]; i = find(jumpName(there[i].Spec)) {
			wanted[there[i].Name] = true
		}
	}
	for _, v := range there {
		if v.Name == protocol.LocalHost || !wanted[v.Name] {
			continue
		}
		s := v.Spec
		list = append(list, inventory.Host{Name: v.Name, Address: s.Address, User: s.User, Port: s.Port, Identity: s.Identity,
			KnownHosts: s.KnownHosts, Root: s.Root, HostKeys: s.HostKeys, Labels: v.Labels, Slots: v.Slots, Jump: jumpName(s)})
	}
	return list, lacking
}

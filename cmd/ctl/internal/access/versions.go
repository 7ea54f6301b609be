package access

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/access"
	"fairlead.dev/fairlead/internal/api"
)

func versionsCommand(a *core.App) *cobra.Command {
	return &cobra.Command{
		Use: "versions", Short: "the access files that were in force", Args: cobra.NoArgs,
		Long: `Lists the access files that workers have kept in the store, the newest first. KEPT is when a
worker put the file there, soon after it first came into force. IN FORCE marks the file in force
at the worker that was asked: the name of that worker, and since when. Needs access.read.`,
		Example: "  ctl access versions\n  ctl access show --version 3f2a91c04b77 --raw > access.yaml",
		RunE: func(c *cobra.Command, _ []string) error {
			const doing = "list the versions of the access file"
			var list []api.AccessVersion
			err := conn.EachWorker(c.Context(), a, func(ctx context.Context, w *api.Client) (err error) {
				ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
				defer cancel()
				list, err = w.AccessVersions(ctx)
				return err
			})
			if err != nil {
				return conn.APIFailure(doing, err)
			}
			return core.ShowAll(a.Print(), list, func(p *core.Printer) {
				var rows [][]core.Cell
				for _, v := range list {
					force := ""
					if v.InForce != "" {
						force = core.OneLine(v.InForce, 100) + ", since " + v.Since.UTC().Format(time.RFC3339)
					}
					rows = append(rows, []core.Cell{core.Painted(core.Bold, core.OneLine(v.Digest, 64)), core.Plain(v.KeptAt.UTC().Format(time.RFC3339)), core.Plain(force)})
				}
				p.Table([]string{"DIGEST", "KEPT", "IN FORCE"}, rows)
			})
		},
	}
}

// minVersion is the shortest beginning of a digest that names a version.
const minVersion = 8

// kept returns an access file that a worker has kept: that of a digest or of its beginning, or
// the one that is in force at the worker if version is empty.
func kept(ctx context.Context, a *core.App, doing, version string) (data []byte, err error) {
	if version != "" && len(version) < minVersion {
		return nil, core.Usage("%s: --version %q is too short: give the digest, or its first %d digits at least", doing, version, minVersion)
	}
	err = conn.EachWorker(ctx, a, func(ctx context.Context, w *api.Client) error {
		ctx, cancel := a.Bounded(ctx, conn.AnswerWait)
		defer cancel()
		list, err := w.AccessVersions(ctx)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(v api.AccessVersion) bool {
			return version == "" && v.InForce == "" || !strings.HasPrefix(v.Digest, version)
		})
		switch {
		case len(list) == 0 && version == "":
			return core.NotFound("%s: the worker has not kept the access file that is in force", doing).Hinted("give --file FILE; `ctl doctor` shows what is in force")
		case len(list) == 0:
			return core.NotFound("%s: no access file that was in force has the digest %s", doing, version).Hinted("`ctl access versions` lists them")
		case len(list) > 1:
			return core.Usage("%s: %d access files have a digest that begins with %s", doing, len(list), version).Hinted("`ctl access versions` lists them; give more digits")
		}
		data, err = w.AccessVersion(ctx, list[0].Digest)
		return err
	})
	if err != nil {
		return nil, conn.APIFailure(doing, err)
	}
	return data, nil
}

// showKept shows an access file that a worker has kept, or writes it as it is.
func showKept(ctx context.Context, a *core.App, doing, version string, raw bool) error {
	data, err := kept(ctx, a, doing, version)
	if err != nil {
		return err
	}
	if raw {
		return writeRaw(a, data)
	}
	f, err := access.Parse(data)
	if err != nil {
		return core.Failed("%s: %v", doing, err).Hinted("it was made for another version; --raw writes it as it is").Because(err)
	}
	return reveal(a, "", f.View())
}

func writeRaw(a *core.App, data []byte) error {
	return a.Print().Show(map[string]string{"text": string(data)}, func(p *core.Printer) { p.Exact(string(data)) })
}

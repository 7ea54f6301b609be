package seed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/cmd/ctl/internal/conn"
	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/api"
	"fairlead.dev/fairlead/internal/protocol"
	"fairlead.dev/fairlead/internal/store"
	"fairlead.dev/fairlead/seeds"
)

// An exportView is an export's JSON, without secrets.
type exportView struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"`
	Generation int64  `json:"generation"`
	Recipient  string `json:"recipient"`
	File       string `json:"file"`
	Bytes      int    `json:"bytes"`
	SHA256     string `json:"sha256"`
}

func exportCommand(a *core.App) *cobra.Command {
	var recipient, out string
	c := &cobra.Command{
		Use: "export NAME --recipient age1…", Short: "take a seed out, encrypted for a key of yours", Args: cobra.ExactArgs(1),
		Long: `A worker encrypts the seed's newest generation for the recipient, and for nobody else;
there is no plain export. The file is an age file of a tar archive, which 'ctl seed
import NAME --from FILE --identity KEY' takes back. Who asked, and for whom, is on
record in the seed's workflow and in the worker's log.

A login that rotates (ChatGPT) can have one holder. While a session holds it, it is not
exported (exit 6). Otherwise it is suspect afterwards and no session gets it, until
'ctl seed revive NAME' says that nobody uses the copy.`,
		Example: "  age-keygen -o me.txt\n  ctl seed export team --recipient age1…\n  ctl seed import team --from team.seed.age --identity me.txt",
		RunE: func(c *cobra.Command, args []string) error {
			return exportSeed(c.Context(), a, args[0], recipient, out)
		},
	}
	c.Flags().StringVar(&recipient, "recipient", "", "the age `recipient` (age1…) that alone can open it")
	c.Flags().StringVar(&out, "out", "", "`file` to write, which must not be there yet; - is standard output (default: NAME.seed.age)")
	return c
}

func exportSeed(ctx context.Context, a *core.App, name, recipient, out string) error {
	if err := core.CheckName("seed name", name); err != nil {
		return err
	}
	doing := "export seed " + name
	if recipient == "" {
		return core.Usage("%s: --recipient is missing: a seed leaves only encrypted, for a key that you name", doing).
			Hinted("age-keygen -o me.txt makes one, and prints its recipient")
	}
	if to, err := store.ParseRecipients(recipient); err != nil || len(to) != 1 {
		return core.Usage("%s: --recipient is not one age recipient (age1…)", doing)
	}
	if out == "" {
		out = name + ".seed.age"
	}
	if out == "-" && (core.IsTerminal(a.Out) || a.Flags.Output == "json") {
		return core.Usage("%s: --out - writes binary: name a file", doing)
	}
	if _, err := os.Lstat(out); out != "-" && !errors.Is(err, fs.ErrNotExist) {
		return core.Usage("%s: %s is there already", doing, out).Hinted("--out names another file")
	}
	t, err := conn.Open(ctx, a)
	if err != nil {
		return err
	}
	worker, err := conn.AnyWorker(ctx, a, t)
	if err != nil {
		return err
	}
	got, err := worker.ExportSeed(ctx, name, api.ExportSeed{Recipient: recipient, By: core.Person()})
	if err != nil {
		return conn.APIFailure(doing, err)
	}
	data := got.Data
	if out == "-" {
		_, err = a.Out.Write(data)
	} else {
		err = writeNew(out, data)
	}
	if err != nil {
		return core.Failed("%s: %v", doing, err)
	}
	var v protocol.SeedView
	if err := t.Query(ctx, "show seed "+name, protocol.SeedID(name), protocol.QuerySeed, &v); err != nil {
		a.Note("%v", err)
	} else if v.Health == protocol.Suspect {
		a.Note("%s: %s (%s)", name, v.Reason, v.Hint)
	}
	if out == "-" {
		return nil
	}
	sum := sha256.Sum256(data)
	return a.Print().Show(exportView{name, got.Kind, got.Generation, recipient, out, len(data), hex.EncodeToString(sum[:])}, func(p *core.Printer) {
		p.Printf("seed %s, generation %d: %s, for %s alone\n", name, got.Generation, out, recipient)
	})
}

// writeNew writes a new file with mode 0600, and fails if it exists.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// exported decrypts a seed with the user's key. This is the only place where ctl decrypts
// content of a store, and that was encrypted for its user.
func exported(doing, from, identity string) (*seeds.Bundle, error) {
	if identity == "" {
		return nil, core.Usage("%s: --from needs --identity, the age identity file that opens it", doing)
	}
	ids, err := store.LoadIdentities(identity)
	if err != nil {
		return nil, core.Usage("%s: %v", doing, err)
	}
	f, err := os.Open(from)
	if err != nil {
		return nil, core.Usage("%s: %v", doing, err)
	}
	defer f.Close()
	bundle, err := seeds.OpenExport(io.Reader(f), ids...)
	if err != nil {
		return nil, core.Usage("%s: %s: %v", doing, from, strings.TrimPrefix(err.Error(), "open an exported seed: "))
	}
	return bundle, nil
}

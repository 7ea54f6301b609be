package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"fairlead.dev/fairlead/internal/api"
)

// A snapshotFile is the JSON of an export.
type snapshotFile struct {
	ID   string `json:"id"`
	File string `json:"file"`
	api.Exported
}

func snapshotExportCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "export SNAP FILE|-", Short: "a snapshot as a plain tar archive", Args: cobra.ExactArgs(2),
		Long: `Writes a snapshot as a plain tar archive: manifest.json, rollouts/ (the conversation) and
work/ (the work folder). Of a session with --snapshot git, work/ has what is new or changed
there, and git/ the commits that upstream does not have (a pack) with what they belong on
(state.json); 'ctl snapshot restore' puts it all together. The archive is not encrypted, and
for your user alone (0600). It is there under its name, in place of what was there, only once
it is whole and every digest in it was right. What goes to standard output (-) is good only if
ctl exits 0.`,
		Example: "  ctl snapshot export release-42.snap-20260102t030405-0a1b2c release-42.tar\n  ctl snapshot export release-42.snap-20260102t030405-0a1b2c - | tar -x work/",
		RunE: func(c *cobra.Command, args []string) error {
			return a.exportSnapshot(c.Context(), args[0], args[1])
		},
	}
}

func (a *app) exportSnapshot(ctx context.Context, id, file string) error {
	doing := "export snapshot " + id
	if err := checkSnapshot(id); err != nil {
		return err
	}
	if file == "-" && (isTerminal(a.out) || a.flags.output == "json") {
		return usage("%s: - writes a tar archive: name a file, or give it to a program", doing)
	}
	place, err := "", error(nil)
	if file != "-" {
		if place, err = plainFile(doing, file); err != nil {
			return err
		}
	}
	_, worker, err := a.storeWorker(ctx)
	if err != nil {
		return err
	}
	if file == "-" {
		_, err := worker.ExportSnapshot(ctx, id, a.out)
		return a.exportFailure(doing, err)
	}
	var got api.Exported
	var failure error
	err = writeWhole(place, func(w io.Writer) error {
		got, failure = worker.ExportSnapshot(ctx, id, w)
		return failure
	})
	if failure != nil {
		return a.exportFailure(doing, failure)
	}
	if err != nil {
		return failed("%s: %v", doing, err)
	}
	return a.print().show(snapshotFile{id, file, got}, func(p *printer) {
		p.printf("%s: %s, every digest is right\n", file, size(got.Bytes))
	})
}

// exportFailure returns different errors for a damaged snapshot and for a worker that went
// away.
func (a *app) exportFailure(doing string, err error) error {
	var e *api.Error
	if err != nil && !errors.As(err, &e) && errors.Is(err, io.ErrUnexpectedEOF) {
		return unreachable("%s: %v", doing, err).hinted("the worker went away: do it again").because(err)
	}
	return apiFailure(doing, err)
}

// writeWhole writes a file with mode 0600. The file appears under its name only when all of
// it was written. Until then the old file stays.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // it may be closed already
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// plainFile returns the path to write to, with links resolved. It refuses anything but a
// regular or new file, such as a folder or a device.
func plainFile(doing, path string) (string, error) {
	if path == "" {
		return "", usage("%s: the file's name is empty", doing)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if dir, err := os.Stat(filepath.Dir(path)); err != nil || !dir.IsDir() {
			return "", usage("%s: there is no folder %s", doing, filepath.Dir(path)).hinted("make it, or name another file")
		}
		return path, nil
	case err != nil:
		return "", usage("%s: %v", doing, err)
	case !info.Mode().IsRegular():
		return "", usage("%s: %s is there and is no plain file", doing, path).hinted("name another file, or - for standard output")
	}
	return filepath.EvalSymlinks(path)
}

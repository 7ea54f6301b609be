package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/deploy/internal/bom"
	"fairlead.dev/fairlead/deploy/internal/programs"
)

// lockFile pins codex; `make tools` and `make platforms` install what it names.
const lockFile = "deploy/tools/package-lock.json"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	dist := flags.String("out", "dist", "`folder` for the image; one of the same version there is replaced")
	version := flags.String("version", "", "what the image is called (default: what git calls the commit)")
	names := flags.String("platforms", "linux/amd64 linux/arm64", "platforms of the images, separated by spaces")
	codex := flags.String("codex", "linux-x64 linux-arm64", "platforms of hosts that codex is brought to, separated by spaces")
	work := flags.String("work", "", "`folder` for programs and layers (default: a temporary one)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	platforms, err := programs.Parse(*names)
	if err != nil {
		return err
	}
	for _, p := range platforms {
		if p.OS != "linux" {
			return fmt.Errorf("platform %s: images are for linux", p)
		}
	}
	if *version == "" {
		if *version, err = programs.Version(ctx); err != nil {
			return err
		}
	}
	at, err := programs.Time(ctx)
	if err != nil {
		return err
	}
	trees, err := codexTrees(strings.Fields(*codex))
	if err != nil {
		return err
	}
	if *work == "" {
		if *work, err = os.MkdirTemp("", "fairlead-image-"); err != nil {
			return err
		}
		defer os.RemoveAll(*work)
	}
	b := builder{version: *version, at: at, codex: trees, work: *work}
	for _, p := range platforms {
		fmt.Fprintf(out, "image %s: compiles for %s\n", *version, p)
		pair, err := programs.Build(ctx, filepath.Join(*work, p.OS+"-"+p.Arch), *version, p)
		if err != nil {
			return err
		}
		if err := b.add(p, pair); err != nil {
			return err
		}
	}
	digest, err := b.write(*dist)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "image %s: %s\n", *version, digest)
	return err
}

// codexTrees finds the packages of codex that the tools installed.
func codexTrees(platforms []string) (trees []tree, err error) {
	if len(platforms) == 0 {
		return nil, errors.New("-codex names no platform: a worker brings codex to its hosts")
	}
	for _, name := range platforms {
		dir := filepath.Join(".tools", "codex-platforms", name)
		command := "make platforms PLATFORMS=" + name
		if name == programs.Own().Codex() {
			dir, command = filepath.Join(".tools", "codex"), "make tools"
		}
		// .tools/codex is a link.
		if dir, err = filepath.EvalSymlinks(dir); err == nil {
			_, err = os.Stat(filepath.Join(dir, "bin", "codex"))
		}
		if err != nil {
			return nil, fmt.Errorf("find codex for %s: %w (run `%s` in the folder of the repository)", name, err, command)
		}
		pkg, err := bom.Codex(lockFile, name)
		if err != nil {
			return nil, err
		}
		trees = append(trees, tree{platform: name, dir: dir, pkg: pkg})
	}
	return trees, nil
}

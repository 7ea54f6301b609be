package hosts

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"fairlead.dev/fairlead/activities/codexpkg"
	"fairlead.dev/fairlead/activities/internal/kit"
	"fairlead.dev/fairlead/activities/site"
	"fairlead.dev/fairlead/hostexec"
	"fairlead.dev/fairlead/hostexec/tree"
	"fairlead.dev/fairlead/internal/protocol"
)

// On a host, codex is in <root>/codex/<version>-<digest>/. A complete folder is renamed to
// that. Trees of other versions stay: sessions may run from them.

const hintNoCodex = "run `make tools` where the worker runs, or name a codex package for the host's platform in its config (codex.source, codex.platforms: see `make platforms`); or install codex " +
	oldestCodex + " to " + NewestCodex + " on the host"

type stamp struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
	Target  string `json:"target"`
	Bytes   int64  `json:"bytes"`
}

// ProvisionCodex brings the host a codex that sessions can use, if need be. Concurrent
// calls are safe.
func (h *Activities) ProvisionCodex(ctx context.Context, in ProvisionCodexInput) (protocol.ProvisionCodexResult, error) {
	forgetRepair(h.Site, in.Host)
	out, err := Provision(ctx, h.Site, in.Host)
	return out, kit.Failing{}.Failure(ctx, "provision "+in.Host.Name, err)
}

// Provision does the work of ProvisionCodex.
func Provision(ctx context.Context, s *site.Site, spec protocol.HostSpec) (protocol.ProvisionCodexResult, error) {
	h, err := s.Host(spec)
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	root, err := hostexec.Root(ctx, h, spec)
	if err != nil {
		return protocol.ProvisionCodexResult{}, fmt.Errorf("find the root folder: %w", err)
	}
	m, err := LookAtMachine(ctx, h, root)
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	return CodexOn(ctx, s, h, spec, root, m)
}

// CodexOn finds codex on a host, or copies it there. m comes from LookAtMachine.
func CodexOn(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, root string, m Machine) (protocol.ProvisionCodexResult, error) {
	tree, err := s.Codex.Tree(ctx, m.OS, m.Arch)
	if errors.Is(err, codexpkg.ErrNoSource) {
		return codexThere(ctx, s, h, root, m, err)
	}
	if err != nil {
		return protocol.ProvisionCodexResult{}, &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: "run `make tools` where the worker runs", Err: err}
	}
	if spec.Name == protocol.LocalHost && spec.Address == "" {
		return useInPlace(ctx, s, h, spec, tree)
	}
	dir := path.Join(root, "codex", tree.Name())
	out := protocol.ProvisionCodexResult{
		Path: path.Join(dir, "bin", "codex"), Version: tree.Version,
		How: "present", Digest: tree.Digest, Bytes: tree.Size, Sums: tree.Sums(),
	}
	var changed *changedError
	if m.whole(tree) {
		if err := look(ctx, s, h, spec, dir, out.Sums, tree); !errors.As(err, &changed) {
			return out, err
		}
	}
	done, err := s.Alone(ctx, "provision "+h.Name()+" "+root)
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	defer done()
	if m, err = LookAtMachine(ctx, h, root); err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	if m.whole(tree) {
		if err := look(ctx, s, h, spec, dir, out.Sums, tree); !errors.As(err, &changed) {
			return out, err
		}
		out.How = "repaired"
		out.Repaired, err = repair(ctx, s, h, spec, root, tree, changed)
		return out, err
	}
	if err := Upload(ctx, h, root, tree, m); err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	out.How = "uploaded"
	return out, nil
}

// A Machine has what CodexOn needs to know of a host.
type Machine struct {
	OS, Arch string
	FreeKB   int64            // where root is or will be; -1 if not known
	Stamps   map[string]stamp // by folder name
}

const machineScript = `umask 077
echo "os $(uname -s)"
echo "arch $(uname -m)"
d=$1
while [ ! -d "$d" ]; do d=${d%/*}; [ -n "$d" ] || d=/; done
echo "free $(df -Pk -- "$d" 2>/dev/null | awk 'NR == 2 { print $4 }')"
for s in "$1"/codex/*/stamp; do
	[ -x "${s%/*}/bin/codex" ] || continue
	t=${s%/*}
	echo "stamp ${t##*/} $(head -c 4096 -- "$s")"
done
:`

// LookAtMachine looks at a host in one round trip.
func LookAtMachine(ctx context.Context, h hostexec.Host, root string) (Machine, error) {
	m := Machine{Stamps: map[string]stamp{}}
	res, err := h.Run(ctx, hostexec.Command{Script: machineScript, Args: []string{root}})
	if err != nil {
		return m, fmt.Errorf("look at the host: %w", err)
	}
	for line := range strings.Lines(string(res.Stdout)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "os":
			m.OS = value
		case "arch":
			m.Arch = value
		case "free":
			if m.FreeKB, err = strconv.ParseInt(value, 10, 64); err != nil {
				m.FreeKB = -1
			}
		case "stamp":
			name, text, _ := strings.Cut(value, " ")
			var s stamp
			if json.Unmarshal([]byte(text), &s) == nil {
				m.Stamps[name] = s
			}
		}
	}
	if m.OS == "" || m.Arch == "" {
		return m, fmt.Errorf("look at the host: uname printed nothing")
	}
	return m, nil
}

func (m Machine) whole(t *codexpkg.CodexTree) bool { return m.Stamps[t.Name()].Digest == t.Digest }

func (m Machine) room(bytes int64, what string) error {
	need := bytes>>10 + 64<<10
	if m.FreeKB >= 0 && m.FreeKB < need {
		return fmt.Errorf("%w: %s needs %d MiB, %d MiB are free", hostexec.ErrNoSpace, what, need>>10, m.FreeKB>>10)
	}
	return nil
}

// useInPlace uses the worker's own package on the worker's own machine.
func useInPlace(ctx context.Context, s *site.Site, h hostexec.Host, spec protocol.HostSpec, t *codexpkg.CodexTree) (protocol.ProvisionCodexResult, error) {
	bin := path.Join(t.Dir, "bin", "codex")
	err := look(ctx, s, h, spec, t.Dir, t.Sums(), t)
	if changed := (*changedError)(nil); errors.As(err, &changed) {
		err = changed.refused(hintInPlace, "")
	}
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	v, err := versionAt(ctx, h, bin)
	if err != nil {
		return protocol.ProvisionCodexResult{}, err
	}
	if v != t.Version {
		return protocol.ProvisionCodexResult{}, &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: "run `make tools`",
			Err: fmt.Errorf("%s says that it is version %q and not %s", bin, v, t.Version)}
	}
	return protocol.ProvisionCodexResult{Path: bin, Version: v, How: "present", Digest: t.Digest, Bytes: t.Size, Sums: t.Sums()}, nil
}

// Upload copies a tree to the host. An incomplete tree never has its final name, and is
// removed after a failure. If the disk has room for the tree twice, the tree is sent in
// parts that are stored first. If the connection is lost or the time runs out, these stay,
// and the next call goes on from there.
func Upload(ctx context.Context, h hostexec.Host, root string, t *codexpkg.CodexTree, m Machine) error {
	if err := m.room(t.Size, "codex"); err != nil {
		return err
	}
	base := path.Join(root, "codex")
	temp := path.Join(base, ".new-"+strings.ToLower(rand.Text()[:10]))
	parts := ""
	if m.FreeKB >= 0 && m.room(2*t.Size, "codex twice") == nil {
		parts = path.Join(base, ".parts-"+t.Name())
	}
	err := send(ctx, h, temp, parts, t)
	if err == nil {
		err = Settle(ctx, h, base, temp, parts, t)
	}
	if err != nil {
		undo, cancel := kit.Afterwards(ctx)
		defer cancel()
		// Another call may have completed and removed the parts.
		now, lookErr := LookAtMachine(undo, h, root)
		done := lookErr == nil && now.whole(t)
		var exit *hostexec.ExitError
		if parts != "" && (done || errors.Is(err, hostexec.ErrNoSpace) || errors.As(err, &exit)) {
			if rmErr := hostexec.RemoveTree(undo, h, parts, base, nil); rmErr != nil {
				err = fmt.Errorf("%w (and %s stays: %w)", err, parts, rmErr)
			}
		}
		if rmErr := hostexec.RemoveTree(undo, h, temp, base, nil); rmErr != nil {
			return fmt.Errorf("bring codex: %w (and %s stays: %w)", err, temp, rmErr)
		}
		if done {
			return nil
		}
		return fmt.Errorf("bring codex: %w", err)
	}
	return nil
}

// send unpacks a tree to temp, through the folder parts unless that is empty.
func send(ctx context.Context, h hostexec.Host, temp, parts string, t *codexpkg.CodexTree) error {
	if parts != "" {
		return tree.PutInParts(ctx, h, temp, parts, t.Tar)
	}
	r, w := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		err := t.Tar(w)
		w.CloseWithError(err)
		sent <- err
	}()
	err := tree.Put(ctx, h, temp, r, nil)
	r.CloseWithError(errors.New("the host accepts no more input"))
	readErr := <-sent
	if err != nil {
		return err
	}
	return readErr
}

// settleScript verifies a tree, stamps it and renames it. If another call has completed
// first, mv puts the tree inside that call's tree, where the script removes it. Folders
// older than any call can be are removed; nothing runs from them.
//
// openssl comes first: it takes a sixth of the time of sha256sum, since it uses the
// processor's own instructions.
const settleScript = `temp=$1 final=$2 version=$3 stamp=$4 parts=$5
sum() { OPENSSL_CONF=/dev/null openssl dgst -sha256 -r; }
if case $(sum </dev/null 2>/dev/null) in e3b0c44298fc1c14*) ;; *) false ;; esac; then
	(
		cd "$temp" || exit
		got=
		while read -r want file; do
			got=$(sum <"$file") && [ "${got%% *}" = "$want" ] || exit
		done
		[ -n "$got" ]
	) || { echo "what arrived is not what was sent" >&2; exit 3; }
elif command -v sha256sum >/dev/null 2>&1; then
	(cd "$temp" && sha256sum -c >/dev/null) || { echo "what arrived is not what was sent" >&2; exit 3; }
elif command -v shasum >/dev/null 2>&1; then
	(cd "$temp" && shasum -a 256 -c >/dev/null) || { echo "what arrived is not what was sent" >&2; exit 3; }
else
	cat >/dev/null
fi
said=$("$temp/bin/codex" --version 2>&1 </dev/null) || { echo "codex does not run here: $said" >&2; exit 4; }
case $said in *"$version"*) ;; *) echo "codex says it is $said" >&2; exit 4 ;; esac
printf '%s\n' "$stamp" >"$temp/stamp" || exit 1
find "$temp" -type f -exec sync {} + 2>/dev/null || sync
mine=${temp##*/}
i=0
until [ -e "$final/stamp" ]; do
	i=$((i + 1))
	[ $i -lt 5 ] || { echo "cannot move codex into place at $final" >&2; exit 1; }
	if [ -e "$final" ]; then
		mv -- "$final" "${temp%/*}/.broken-$mine-$i" 2>/dev/null
	fi
	mv -- "$temp" "$final" 2>/dev/null
	[ ! -e "$final/$mine" ] || rm -rf -- "${final:?}/$mine"
done
rm -rf -- "$temp" "${temp%/*}/.broken-$mine"-*
[ -z "$parts" ] || rm -rf -- "$parts"
for old in '.new-*' '.fl-tree-*' '.broken-*'; do
	find "${temp%/*}/." ! -name . -prune -name "$old" -mtime +1 -exec rm -rf {} + 2>/dev/null
done
find "${temp%/*}/." ! -name . -prune -name '.parts-*' -mtime +7 -exec rm -rf {} + 2>/dev/null
[ -x "$final/bin/codex" ]`

// Settle puts an uploaded tree into its place, unless a good one is there.
func Settle(ctx context.Context, h hostexec.Host, base, temp, parts string, t *codexpkg.CodexTree) error {
	var sums strings.Builder
	for _, f := range t.Files {
		fmt.Fprintf(&sums, "%s  %s\n", f.Digest, f.Path)
	}
	st, err := json.Marshal(stamp{Version: t.Version, Digest: t.Digest, Target: t.Target, Bytes: t.Size})
	if err != nil {
		return err
	}
	_, err = h.Run(ctx, hostexec.Command{
		Script: settleScript, Stdin: []byte(sums.String()),
		Args: []string{temp, path.Join(base, t.Name()), t.Version, string(st), parts},
	})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) && exit.Code == 4 {
		return &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Err: err,
			Hint: "the host cannot run the codex that was brought: check that the folder is not mounted noexec, and its processor"}
	}
	return err
}

func versionAt(ctx context.Context, h hostexec.Host, bin string) (string, error) {
	res, err := h.Run(ctx, hostexec.Command{Script: `exec "$1" --version`, Args: []string{bin}})
	var exit *hostexec.ExitError
	if errors.As(err, &exit) {
		return "", &kit.TypedError{Kind: protocol.ErrTypeCodexMissing, Hint: hintNoCodex, Err: fmt.Errorf("%s does not run: %w", bin, err)}
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", bin, err)
	}
	return plainVersion(string(res.Stdout)), nil
}

package seeds

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fairlead.dev/fairlead/hostexec"
)

// ErrNotPlanted means that the seed cannot be planted as asked: a retry will not help. No
// credential was written.
var ErrNotPlanted = errors.New("seed cannot be planted")

// PlantSpec says which seed to plant, and where.
type PlantSpec struct {
	// CodexHome is the session's CODEX_HOME on the host, absolute.
	CodexHome string
	// Within is the session's folder, above CodexHome.
	Within string
	// Bundle is the seed; nil plants only our part of config.toml.
	Bundle *Bundle
	// Sandbox is read-only, workspace-write, danger-full-access or ByProfile.
	Sandbox string
	// Confine has paths as the host resolves them.
	Confine Confinement
	// NoProfile is for a codex that does not know permission profiles by name: it writes
	// none.
	NoProfile bool
	// Private are existing paths, free of symbolic links, that commands must not read. They
	// lie neither in one another nor above CODEX_HOME or WorkDir.
	Private []string
	// WorkDir need not exist yet.
	WorkDir string
	// Gateway is the port on the host's loopback address at which codex reaches the model;
	// 0 leaves that to the seed. Bundle must be one of ForGateway.
	Gateway int
	// Agents replaces the seed's instructions for codex (see Bundle.Agents); nil leaves them.
	Agents []byte
	Fence  *hostexec.Fence
}

// Planted is the result of Plant.
type Planted struct {
	// Permissions is the profile for thread/start and thread/resume. If empty
	// (danger-full-access, NoProfile), send the sandbox.
	Permissions string `json:"permissions,omitempty"`
	// Files describes config.toml with our settings.
	Files []FileInfo `json:"files"`
	// Kept says that the host's auth.json is a later one of the same login and stayed:
	// codex rotated it, and it may be saved nowhere else.
	Kept bool `json:"kept,omitempty"`
	// Trusted says that codex will read the work folder's AGENTS.md: Settings.Trust is not
	// never, and no folder from there up to the one with .git has a .codex with content.
	Trusted bool `json:"trusted"`
	// Skipped are settings of ours that the owner's config.toml sets, or has no place for.
	Skipped []string `json:"skipped,omitempty"`
}

// Plant puts a seed into a CODEX_HOME (mode 0700) on a host. Files have mode 0600 (0700 for
// scripts of skills). Each is written to a temporary file, checked by its digest and
// renamed. A file that is already right is not touched, so Plant may be repeated. It
// removes nothing, and checks all files before it writes one. It must run before codex
// starts: see the note on rename at the permission profiles.
func Plant(ctx context.Context, h hostexec.Host, spec PlantSpec) (_ Planted, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("plant seed on %s: %w", h.Name(), err)
		}
	}()
	if err := spec.check(); err != nil {
		return Planted{}, fmt.Errorf("%w: %w", ErrNotPlanted, err)
	}
	site, err := look(ctx, h, spec)
	if err != nil {
		return Planted{}, err
	}
	spec.CodexHome = site.home
	if site.work != "" {
		spec.WorkDir = site.work
	}
	planted := Planted{Permissions: spec.profile(), Trusted: site.trust.trusted}
	files, err := sessionFiles(spec, site, &planted)
	if err != nil {
		return Planted{}, fmt.Errorf("%w: %w", ErrNotPlanted, err)
	}
	for _, f := range files {
		if planted.Kept && f.path == authFile {
			f.data = site.auth
		} else if f.path == tokenFile && site.states[tokenFile] == plainFile(false) {
			continue // it may have a token by now
		} else if err := plantFile(ctx, h, spec, site, f); err != nil {
			return Planted{}, err
		}
		planted.Files = append(planted.Files, FileInfo{
			Path: f.path, Mode: fmt.Sprintf("%04o", f.mode()), Digest: digest(f.data), Size: int64(len(f.data)),
		})
	}
	return planted, nil
}

func (s PlantSpec) profile() string {
	if s.NoProfile {
		return ""
	}
	return Profile(s.Sandbox)
}

func (s PlantSpec) check() error {
	for name, p := range map[string]string{"CODEX_HOME": s.CodexHome, "session folder": s.Within, "work directory": s.WorkDir} {
		if name == "work directory" && p == "" {
			continue
		}
		if !path.IsAbs(p) || path.Clean(p) != p || !writable(p) {
			return fmt.Errorf("%s %q is not a clean absolute path in UTF-8", name, p)
		}
	}
	if !below(s.CodexHome, s.Within) {
		return fmt.Errorf("CODEX_HOME %s does not lie in %s", s.CodexHome, s.Within)
	}
	if s.WorkDir == s.CodexHome || below(s.WorkDir, s.CodexHome) {
		return fmt.Errorf("work directory %s lies in CODEX_HOME, which commands must not write", s.WorkDir)
	}
	if s.WorkDir == s.Within {
		return fmt.Errorf("work directory %s is the session's own folder (use one below or beside it)", s.WorkDir)
	}
	if err := checkSandbox(s.Sandbox); err != nil {
		return err
	}
	if s.NoProfile && !s.Confine.None() {
		return errors.New("without a permission profile nothing can be confined beyond the sandbox's mode")
	}
	if err := s.Confine.Check(s.Sandbox); err != nil {
		return err
	}
	if err := s.checkPrivate(); err != nil {
		return err
	}
	return s.Confine.CheckSeed(s.Bundle)
}

// sessionFiles returns the files to plant, the credential last.
func sessionFiles(spec PlantSpec, site site, planted *Planted) ([]file, error) {
	var files []file
	var config, auth []byte
	var own *Settings
	var err error
	if spec.Bundle != nil {
		for _, f := range spec.Bundle.files {
			switch f.path {
			case configFile:
				config = f.data
			case authFile:
				auth = f.data
			case settingsFile:
				if own, err = settingsOf(f.data); err != nil {
					return nil, err
				}
			default:
				files = append(files, f)
			}
		}
	}
	if spec.Agents != nil {
		files = withAgents(spec.Bundle, files, spec.Agents)
	}
	denied := []string{configFile}
	switch {
	case auth != nil:
		denied = append(denied, authFile)
		planted.Kept = site.auth != nil && rotatedFrom(auth, site.auth)
	case site.states[authFile] != "":
		return nil, errors.New("CODEX_HOME on the host has an auth.json and this seed has none: codex would use that other login (remove that auth.json first)")
	}
	if spec.Gateway != 0 {
		if auth != nil {
			return nil, errors.New("a seed with an auth.json was to be planted for the model gateway: this is a bug in Fairlead")
		}
		denied = append(denied, tokenFile)
		files = append(files, file{path: tokenFile, data: noToken()})
	}
	if own != nil && own.Trust == "never" {
		site.trust.trusted, planted.Trusted = false, false
	}
	settings, err := sessionSettings(spec, denied, site.trust, own)
	if err != nil {
		return nil, err
	}
	merged, skipped, err := mergeConfig(config, settings)
	if err != nil {
		return nil, err
	}
	planted.Skipped = skipped
	files = append(files, file{path: configFile, data: merged})
	if auth != nil {
		files = append(files, file{path: authFile, data: auth})
	}
	return files, nil
}

func plantFile(ctx context.Context, h hostexec.Host, spec PlantSpec, site site, f file) error {
	target := path.Join(spec.CodexHome, f.path)
	if site.states[f.path] == plainFile(f.exec) {
		there, err := hostexec.ReadFile(ctx, h, target, int64(len(f.data)))
		var long *hostexec.OutputTooLongError
		switch {
		case err == nil && bytes.Equal(there, f.data):
			return nil
		case err != nil && !errors.As(err, &long) && !errors.Is(err, hostexec.ErrNotExist):
			return err
		}
	}
	return hostexec.WriteFile(ctx, h, target, f.data, f.mode(), spec.Fence)
}

// plainFile returns a planted file's mode as ls writes it.
func plainFile(exec bool) string {
	if exec {
		return "-rwx------"
	}
	return "-rw-------"
}

type site struct {
	home   string
	work   string // "" if it does not exist
	trust  trustLevel
	states map[string]string // by file, as ls writes type and mode; "" if absent
	auth   []byte            // on the host; nil if none
}

// siteScript creates CODEX_HOME and prints its state as answers that end in NUL.
//
// $1 session folder, $2 CODEX_HOME, $3 work folder or empty, then paths below CODEX_HOME.
const siteScript = `LC_ALL=C; export LC_ALL
umask 077
mkdir -p -- "$2" || exit 1
within=$(cd -P -- "$1" && pwd -P && echo .) && home=$(cd -P -- "$2" && pwd -P && echo .) || exit 1
within=${within%
.} home=${home%
.}
case $home in "$within"/*) ;; *) echo "$2 leads out of $1: to $home" >&2; exit 1 ;; esac
chmod 700 -- "$home" || exit 1
printf '%s\0' "$home"
work= own=no
if [ -n "$3" ] && work=$(cd -P -- "$3" 2>/dev/null && pwd -P && echo .); then
	work=${work%
.}
	# codex reads .codex in every folder from the one with .git down to its own.
	root=$work p=$work
	while :; do
		if [ -e "$p/.git" ]; then root=$p; break; fi
		[ -n "$p" ] && [ "$p" != / ] || break
		p=${p%/*}
	done
	p=$work
	while :; do
		if [ -e "$p/.codex" ] || [ -L "$p/.codex" ]; then
			[ -d "$p/.codex" ] && [ -z "$(ls -A -- "$p/.codex" 2>&1)" ] || own=yes
		fi
		[ "$p" != "$root" ] && [ -n "$p" ] && [ "$p" != / ] || break
		p=${p%/*}
	done
else work=
fi
printf '%s\0%s\0' "$work" "$own"
shift 3
for f; do
	state=
	if [ -e "$home/$f" ] || [ -L "$home/$f" ]; then
		state=$(ls -ld -- "$home/$f") || exit 1
		state=$(printf %.10s "$state")
	fi
	printf '%s\0' "$state"
done`

func look(ctx context.Context, h hostexec.Host, spec PlantSpec) (site, error) {
	names := []string{authFile, configFile, tokenFile}
	if spec.Bundle != nil {
		for _, f := range spec.Bundle.files {
			if f.path != authFile && f.path != configFile && f.path != settingsFile {
				names = append(names, f.path)
			}
		}
	}
	if name, text := spec.Bundle.Agents(); spec.Agents != nil && text == nil && !slices.Contains(names, name) {
		names = append(names, name)
	}
	r, err := h.Run(ctx, hostexec.Command{
		Script: siteScript, Args: append([]string{spec.Within, spec.CodexHome, spec.WorkDir}, names...), Fence: spec.Fence,
	})
	if err != nil {
		return site{}, err
	}
	answers := strings.Split(string(r.Stdout), "\x00")
	if len(answers) != 3+len(names)+1 {
		return site{}, fmt.Errorf("look at CODEX_HOME: the script on the host printed %d answers, expected %d", len(answers)-1, 3+len(names))
	}
	s := site{home: answers[0], work: answers[1], states: map[string]string{}}
	if !writable(s.home) || !writable(s.work) {
		return site{}, fmt.Errorf("%q or %q is not UTF-8, which codex needs", s.home, s.work)
	}
	s.trust.trusted = answers[2] == "no"
	for _, dir := range []string{s.work, spec.WorkDir} {
		if dir != "" && (len(s.trust.dirs) == 0 || s.trust.dirs[0] != dir) {
			s.trust.dirs = append(s.trust.dirs, dir)
		}
	}
	for i, name := range names {
		s.states[name] = answers[3+i]
	}
	if s.states[authFile] == plainFile(false) {
		if s.auth, err = hostexec.ReadFile(ctx, h, path.Join(s.home, authFile), maxFile); err != nil {
			return site{}, err
		}
	}
	return s, nil
}

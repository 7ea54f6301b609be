package main

import (
	"encoding/pem"
	"fmt"
	"io/fs"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	roots "golang.org/x/crypto/x509roots/fallback/bundle"

	"fairlead.dev/fairlead/deploy/internal/bom"
	"fairlead.dev/fairlead/deploy/internal/bundle"
	"fairlead.dev/fairlead/deploy/internal/programs"
)

const (
	// user is the id of the image's user and of its group. Kubernetes accepts runAsNonRoot only
	// for a number.
	user = 65532
	// home is where a worker keeps what must survive a restart.
	home      = "var/lib/fairlead"
	codexRoot = "opt/fairlead/codex"
	rootsPath = "golang.org/x/crypto/x509roots/fallback"
)

// A tree is the codex for a platform.
type tree struct {
	platform, dir string
	pkg           cdx.Component
}

// A builder makes the images of one version.
type builder struct {
	version string
	at      time.Time
	codex   []tree
	work    string

	codexLayers []*layer // made once, for all images
	images      []platformImage
}

type platformImage struct {
	platform programs.Platform
	image    v1.Image
	bill     []byte
}

// add makes the image of a platform.
func (b *builder) add(p programs.Platform, pair programs.Pair) error {
	bill, err := b.bill(pair)
	if err != nil {
		return fmt.Errorf("make the image for %s: %w", p, err)
	}
	layers, err := b.layers(pair, bill)
	if err != nil {
		return fmt.Errorf("make the image for %s: %w", p, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, layers...); err != nil {
		return fmt.Errorf("make the image for %s: %w", p, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("make the image for %s: %w", p, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created, config.Config = p.OS, p.Arch, v1.Time{Time: b.at}, b.config()
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("make the image for %s: %w", p, err)
	}
	b.images = append(b.images, platformImage{p, image, bill})
	return nil
}

// layers makes the layers of an image. What changes least comes first, so that registries and
// machines have it already.
func (b *builder) layers(pair programs.Pair, bill []byte) (all []mutate.Addendum, err error) {
	if err := b.codexOnce(); err != nil {
		return nil, err
	}
	for i, l := range b.codexLayers {
		all = append(all, b.addendum(l, "codex for "+b.codex[i].platform))
	}
	base, err := makeLayer(b.work, append(system(), bundle.File{Name: "usr/share/fairlead/image.cdx.json", Mode: 0o644, Data: bill}), b.at)
	if err != nil {
		return nil, err
	}
	ours, err := makeLayer(b.work, []bundle.File{bundle.Program("usr/bin/fairlead", pair.Fairlead), bundle.Program("usr/bin/fairlead-worker", pair.Worker)}, b.at)
	if err != nil {
		return nil, err
	}
	return append(all, b.addendum(base, "user, certificate authorities, folders"), b.addendum(ours, "fairlead and fairlead-worker "+b.version)), nil
}

func (b *builder) codexOnce() error {
	if b.codexLayers != nil {
		return nil
	}
	for _, t := range b.codex {
		files, err := bundle.Tree(path.Join(codexRoot, t.platform), t.dir)
		if err != nil {
			return fmt.Errorf("codex for %s: %w", t.platform, err)
		}
		l, err := makeLayer(b.work, files, b.at)
		if err != nil {
			return fmt.Errorf("codex for %s: %w", t.platform, err)
		}
		b.codexLayers = append(b.codexLayers, l)
	}
	return nil
}

func (b *builder) addendum(l *layer, by string) mutate.Addendum {
	return mutate.Addendum{Layer: l, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: b.at}, CreatedBy: by}}
}

// config says how an image is run.
func (b *builder) config() v1.Config {
	return v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/usr/bin/fairlead-worker"},
		Env: []string{
			"PATH=/usr/bin",
			"HOME=/" + home,
			"FAIRLEAD_CONFIG=/etc/fairlead/worker.yaml",
			"FAIRLEAD_STATE=/" + home + "/state",
		},
		WorkingDir: "/" + home,
		Volumes:    map[string]struct{}{"/" + home: {}, "/tmp": {}},
		StopSignal: "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title":       "Fairlead",
			"org.opencontainers.image.description": "runs OpenAI codex on remote hosts, durably",
			"org.opencontainers.image.version":     b.version,
			"org.opencontainers.image.created":     b.at.Format(time.RFC3339),
		},
	}
}

// bill lists what an image is made of.
func (b *builder) bill(pair programs.Pair) ([]byte, error) {
	packages := []cdx.Component{bom.Module(rootsPath, rootsVersion())}
	for _, t := range b.codex {
		packages = append(packages, t.pkg)
	}
	return bom.Of(bom.Content{Name: "fairlead-image", Version: b.version, Programs: []string{pair.Fairlead, pair.Worker}, Packages: packages}, b.at)
}

// rootsVersion is the version of the certificate authorities, if the program says which
// modules it is made of; a test does not.
func rootsVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == rootsPath })
		if i >= 0 {
			return info.Deps[i].Version
		}
	}
	return "unknown"
}

// system are the files that programs expect of a system.
func system() []bundle.File {
	const shell = "/usr/sbin/nologin"
	return []bundle.File{
		bundle.Text("etc/passwd", fmt.Sprintf("root:x:0:0:root:/:%[1]s\nfairlead:x:%[2]d:%[2]d:fairlead:/%[3]s:%[1]s\n", shell, user, home)),
		bundle.Text("etc/group", fmt.Sprintf("root:x:0:\nfairlead:x:%d:\n", user)),
		bundle.Text("etc/nsswitch.conf", "hosts: files dns\n"),
		bundle.Text("etc/ssl/certs/ca-certificates.crt", authorities()),
		bundle.Folder("etc/fairlead", 0o755),
		{Name: "tmp", Mode: fs.ModeDir | fs.ModeSticky | 0o777},
		{Name: home, Mode: fs.ModeDir | 0o700, UID: user, GID: user},
	}
}

// authorities are the certificate authorities that Mozilla trusts without further conditions:
// a condition, such as a last date, cannot be said in this file.
func authorities() string {
	var text strings.Builder
	for root := range roots.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.String()
}

package bom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// A Content is what a bill lists.
type Content struct {
	Name, Version string
	// Programs are files with Go programs.
	Programs []string
	// Packages are further components, such as codex.
	Packages []cdx.Component
}

// Of returns a bill as JSON. It depends on the content and on at alone.
func Of(c Content, at time.Time) ([]byte, error) {
	found := map[string]cdx.Component{}
	for _, p := range c.Packages {
		found[p.BOMRef] = p
	}
	for _, program := range c.Programs {
		if err := addProgram(found, program); err != nil {
			return nil, fmt.Errorf("list what %s is made of: %w", filepath.Base(program), err)
		}
	}
	components := make([]cdx.Component, 0, len(found))
	for _, f := range found {
		components = append(components, f)
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	refs := make([]string, len(components))
	for i, f := range components {
		refs[i] = f.BOMRef
	}
	b := cdx.NewBOM()
	whole := cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: c.Name, Name: c.Name, Version: c.Version}
	b.Metadata = &cdx.Metadata{Timestamp: at.UTC().Format(time.RFC3339), Component: &whole}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: whole.BOMRef, Dependencies: &refs}}
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(b); err != nil {
		return nil, fmt.Errorf("write a bill of materials: %w", err)
	}
	b.SerialNumber = serial(sum.Sum(nil))
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write a bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// addProgram adds the modules that a program is linked from, and Go's own library.
func addProgram(found map[string]cdx.Component, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	if len(info.Deps) == 0 {
		return fmt.Errorf("it names no modules")
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	add := func(c cdx.Component) { found[c.BOMRef] = c }
	add(library("stdlib", version, ""))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(library(m.Path, m.Version, m.Sum))
	}
	return nil
}

// library returns a module of Go. Its checksum is that of go.sum, which is no digest of a file.
func library(module, version, sum string) cdx.Component {
	c := cdx.Component{Type: cdx.ComponentTypeLibrary, Name: module, Version: version}
	c.PackageURL = "pkg:golang/" + module + "@" + url.PathEscape(version)
	c.BOMRef = c.PackageURL
	if sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

// Module returns a module of Go whose content is in a product and not in its programs.
func Module(path, version string) cdx.Component { return library(path, version, "") }

// Codex returns the npm package of codex for a platform, such as linux-x64, as a lock file of
// npm pins it.
func Codex(lockFile, platform string) (cdx.Component, error) {
	doing := fmt.Sprintf("find codex for %s in %s", platform, lockFile)
	text, err := os.ReadFile(lockFile)
	if err != nil {
		return cdx.Component{}, fmt.Errorf("%s: %w", doing, err)
	}
	var lock struct {
		Packages map[string]struct{ Name, Version, Integrity, License string }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return cdx.Component{}, fmt.Errorf("%s: %w", doing, err)
	}
	p, is := lock.Packages["node_modules/@openai/codex-"+platform]
	if !is {
		return cdx.Component{}, fmt.Errorf("%s: it pins none", doing)
	}
	digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(p.Integrity, "sha512-"))
	if err != nil || len(digest) != 64 {
		return cdx.Component{}, fmt.Errorf("%s: %q is not a SHA-512 digest", doing, p.Integrity)
	}
	c := cdx.Component{Type: cdx.ComponentTypeApplication, Name: p.Name, Version: p.Version}
	c.PackageURL = "pkg:npm/" + url.PathEscape("@") + strings.TrimPrefix(p.Name, "@") + "@" + p.Version
	c.BOMRef = c.PackageURL
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA512, Value: hex.EncodeToString(digest)}}
	if p.License != "" {
		c.Licenses = &cdx.Licenses{{License: &cdx.License{ID: p.License}}}
	}
	return c, nil
}

// serial makes a UUID (version 8, RFC 9562) from a digest: equal bills have equal numbers.
func serial(digest []byte) string {
	id := slices.Clone(digest[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

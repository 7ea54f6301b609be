// Command release makes a release: `make release`.
//
//	release [-out dist] [-version v0.2] [-platforms "linux/amd64 darwin/arm64"] [-work FOLDER]
//
// It compiles ctl and the worker for each platform and packs them as fairlead and
// fairlead-worker, since ctl and worker say nothing in a PATH:
//
//	fairlead_VERSION_OS_ARCH.tar.gz   the programs, manual pages, completions, units of systemd, the changelog
//	fairlead_VERSION_OS_ARCH.cdx.json what the programs are made of (CycloneDX)
//	CHANGELOG.md                      what users notice
//	SHA256SUMS                        digests of all of these
//
// An archive is laid out so that it can be unpacked below /usr/local:
// tar -xzf … -C /usr/local --strip-components=1.
//
// The same commit and the same version of Go give the same bytes. A version that is a tag
// (v0.2) needs a section of that name in CHANGELOG.md.
package main

// Command image makes a container image without Docker: `make image`.
//
//	image [-out dist] [-version v0.2] [-platforms "linux/amd64 linux/arm64"] [-codex "linux-x64 linux-arm64"] [-work FOLDER]
//
// It writes
//
//	fairlead_VERSION_image/              an OCI image layout with an index of one image for each platform
//	fairlead_VERSION_image.tar           the same as an archive: podman load, skopeo copy oci-archive:…, ctr image import
//	fairlead_VERSION_image_ARCH.cdx.json what an image is made of (CycloneDX); the image has it, too
//
// and prints the digest of the index. The same commit, the same version of Go and the same
// packages of codex give the same digest.
//
// # What is in an image
//
//	/usr/bin/fairlead, /usr/bin/fairlead-worker   static programs; the worker is the entrypoint
//	/opt/fairlead/codex/PLATFORM                  the pinned codex, which the worker brings to hosts
//	/etc/ssl/certs/ca-certificates.crt            Mozilla's certificate authorities (golang.org/x/crypto/x509roots)
//	/etc/passwd, /etc/group, /etc/nsswitch.conf   the user fairlead, 65532
//	/usr/share/fairlead/image.cdx.json            what the image is made of
//	/etc/fairlead                                 where worker.yaml is mounted
//	/var/lib/fairlead, /tmp                       the only folders that a worker writes to: volumes, if the root is read-only
//
// There is no shell, no package manager, no ssh and no git: a worker speaks SSH itself, and git
// runs on hosts.
//
// codex is one layer for each platform, the same in every image. `make platforms` brings the
// packages.
package main

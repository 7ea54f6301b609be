// Package secretfile tells files that others may read from those that keep a secret. It
// imports the standard library alone.
package secretfile

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// Exposed reports whether others than the user of this process may read or change a file.
//
// Only the owner may have permissions, with one exception: Kubernetes mounts a secret as a
// file of root, mode 0440, in a group that the pod's processes are in (fsGroup). So a group
// may read a file of root if this process is in that group. The group of root itself does
// not count.
func Exposed(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return mode&0o037 != 0 || !ok || st.Uid != 0 || st.Gid == 0 || !inGroup(int(st.Gid))
}

func inGroup(id int) bool {
	if os.Getegid() == id {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, id)
}

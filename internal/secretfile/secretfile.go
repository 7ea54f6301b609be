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
// Only the owner may have permissions, with two exceptions, both for files of root with mode
// 0440:
//
//   - Kubernetes mounts a secret in a group that the pod's processes are in (fsGroup). So a
//     group may read the file if this process is in that group. The group of root itself does
//     not count.
//   - systemd (LoadCredential) gives a service a file of root and of root's group, with an
//     access control list that names the service's user. The mode of such a file shows the most
//     that the list permits, in place of what the group may do. So a file of root's group counts
//     if this process is neither root nor in that group: without a list it could not read it.
func Exposed(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if mode&0o077 == 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if mode&0o037 != 0 || !ok || st.Uid != 0 {
		return true
	}
	if st.Gid == 0 {
		return os.Geteuid() == 0 || inGroup(0)
	}
	return !inGroup(int(st.Gid))
}

func inGroup(id int) bool {
	if os.Getegid() == id {
		return true
	}
	groups, err := os.Getgroups()
	return err == nil && slices.Contains(groups, id)
}

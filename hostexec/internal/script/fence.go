package script

import "fmt"

// FenceBegin returns shell text that takes the lock of dir, which it creates if missing.
// The text ends the script if the host knows a higher epoch, and otherwise records ours.
// The script holds the lock until FenceEnd, and must not wait for a person, a peer or a
// process meanwhile. Command.Fence fences a whole script.
//
// The caller checks the fence's values first. Names in the text begin with fl_. Positional
// parameters are not changed. Descriptor 9 is used, so a child that outlives the script
// must be started with 9>&-. The exit status is 97 for a refusal, 98 for a busy lock, and
// 96 on a host that cannot lock; Run and Stream.Wait turn these into errors.
//
// If the host has flock(1), the lock is an flock, which the kernel releases when its
// holders end. Otherwise it is a symbolic link that names the holder, because a link and
// its content are created in one atomic step. The link of a dead holder, or of one whose
// pid belongs to another process by now, is removed.
func FenceBegin(dir string, generation, pump, attempt int64) string {
	return "fl_d=" + QuoteInScript(dir) + "\n" + fenceText + "\n" + FenceAgain(generation, pump, attempt)
}

// FenceAgain returns shell text that takes the lock and compares epochs again, after
// FenceBegin and FenceEnd.
func FenceAgain(generation, pump, attempt int64) string {
	return fmt.Sprintf("fl_fence %d %d %d", generation, pump, attempt)
}

// FenceEnd releases the lock.
const FenceEnd = "fl_unlock"

// fenceText defines the functions of FenceBegin. The file fl_gone beside the session's
// folder keeps the epoch of a removed folder (see RemoveTree), so that a late script of a
// former holder cannot create the folder again. It is written under the lock before the
// folder is removed.
const fenceText = `fl_say() { echo "fairlead-fence: $2" >&2; exit "$1"; }
fl_gone=${fl_d%/*}/.gone-${fl_d##*/}
fl_i=0
fl_wait() {
	fl_i=$((fl_i + 1))
	[ $fl_i -lt 600 ] || fl_say 98 busy
	sleep 0.05 2>/dev/null || { sleep 1; fl_i=$((fl_i + 19)); }
}
fl_start() { IFS= read -r fl_s <"/proc/$1/stat" || return 1; set -- ${fl_s##*)}; fl_s=${20}; } 2>/dev/null
fl_lock() {
	[ -d "$fl_d" ] || (umask 077; mkdir -p -- "$fl_d") || exit 1
	if command -v flock >/dev/null 2>&1; then
		# Who removes the folder may do so before this line. After command, exec
		# does not end the shell when it fails.
		command exec 9>>"$fl_d/lock" || { [ ! -d "$fl_d" ] || exit 1; fl_wait; fl_lock; return; }
		# 9>&9: some shells close the descriptor for their children.
		until flock -n 9 9>&9; do fl_wait; done
		# The folder may have been renamed and removed by whom we waited for.
		[ ! -e /proc/self/fd/9 ] || [ "$fl_d/lock" -ef /proc/self/fd/9 ] || { exec 9>&-; fl_lock; }
		return
	fi
	IFS=' ' read -r fl_me fl_x </proc/self/stat && fl_start "$fl_me" || fl_say 96 "lacks flock or /proc: no script of a session can be fenced"
	while ! ln -s "$fl_me.$fl_s" "$fl_d/lock.held" 2>/dev/null; do
		[ -d "$fl_d" ] || (umask 077; mkdir -p -- "$fl_d") || exit 1
		fl_h=$(readlink "$fl_d/lock.held") || continue
		if fl_mine=$fl_s; ! fl_start "${fl_h%%.*}" || [ "$fl_s" != "${fl_h#*.}" ]; then
			# Only one may break it, and only while it is still the dead one's.
			if mkdir "$fl_d/lock.break" 2>/dev/null; then
				[ "$(readlink "$fl_d/lock.held")" != "$fl_h" ] || rm -f "$fl_d/lock.held"
				rmdir "$fl_d/lock.break"
			elif [ -n "$(find "$fl_d/lock.break" -prune -mmin +1 2>/dev/null)" ]; then
				rmdir "$fl_d/lock.break"
			fi
		fi
		fl_s=$fl_mine
		fl_wait
	done
}
fl_unlock() {
	if command -v flock >/dev/null 2>&1; then
		# Also for children that hold the descriptor, where they do.
		flock -u 9 9>&9
		exec 9>&-
	else
		rm -f "$fl_d/lock.held"
	fi
}
# fl_bury EPOCH writes the epoch beside the folder, which is to be removed. On a
# full disk the file that is in the folder goes there: it says the same.
fl_bury() {
	{ echo "$1" >"$fl_d/epoch.new"; } 2>/dev/null && mv -f -- "$fl_d/epoch.new" "$fl_gone" 2>/dev/null ||
		{ rm -f -- "$fl_d/epoch.new"; mv -f -- "$fl_d/epoch" "$fl_gone"; }
}
# fl_leave gives up a lock whose folder was renamed: a link went with it, and the
# one that is at its place by now is another's.
fl_leave() {
	if command -v flock >/dev/null 2>&1; then fl_unlock; fi
}
# On a full disk: over the bytes that are there, in one write. What is left of a
# longer line is on the next one, which nobody reads.
fl_over() { rm -f -- "$fl_d/epoch.new"; [ -s "$fl_d/epoch" ] && echo "$1 $2 $3" 1<>"$fl_d/epoch"; }
fl_fence() {
	fl_lock
	fl_g='' fl_p='' fl_a=''
	if [ -s "$fl_d/epoch" ]; then
		IFS=' ' read -r fl_g fl_p fl_a <"$fl_d/epoch"
	elif [ -s "$fl_gone" ]; then
		IFS=' ' read -r fl_g fl_p fl_a <"$fl_gone"
	else
		fl_g=0 fl_p=0 fl_a=0
	fi
	for fl_x in "$fl_g" "$fl_p" "$fl_a"; do
		case $fl_x in '' | *[!0-9]*) fl_unlock; fl_say 1 "$fl_d/epoch is damaged: a person must look" ;; esac
	done
	if [ "$fl_g" -gt "$1" ] || { [ "$fl_g" -eq "$1" ] && { [ "$fl_p" -gt "$2" ] || { [ "$fl_p" -eq "$2" ] && [ "$fl_a" -gt "$3" ]; }; }; }; then
		# A refused caller leaves no folder behind that only its lock made.
		[ -e "$fl_d/epoch" ] || rm -f "$fl_d/lock"
		fl_unlock
		[ -e "$fl_d/epoch" ] || rmdir "$fl_d" 2>/dev/null
		fl_say 97 "refused $1 $2 $3 $fl_g $fl_p $fl_a"
	fi
	if [ "$fl_g $fl_p $fl_a" != "$1 $2 $3" ] || [ ! -e "$fl_d/epoch" ]; then
		# The second try says why: some shells call a full disk an I/O error.
		{ echo "$1 $2 $3" >"$fl_d/epoch.new" || echo "$1 $2 $3" | cat >"$fl_d/epoch.new"; } &&
			mv -f -- "$fl_d/epoch.new" "$fl_d/epoch" || fl_over "$@" || { fl_unlock; exit 1; }
		rm -f -- "$fl_gone"
	fi
}`

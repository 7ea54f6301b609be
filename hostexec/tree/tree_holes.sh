# Writes files with holes below $1, which tar does not everywhere. The input is
# lines, some with data behind them:
#   f=…          the file that is meant from here on, a word for the shell; made anew
#   l=… f=…      the file that f becomes another name of
#   B N M        M blocks of B bytes of data, to be written at block N
#   end SIZE MODE TIME SECONDS   the time with its fraction, and whole seconds
LC_ALL=C
export LC_ALL
umask 077
_n='
'
cd -- "$1/" || exit 1
while IFS= read -r line; do
	case $line in
	f=*)
		eval "$line"
		mkdir -p -- "${f%/*}" && : >"$f" || exit 1
		;;
	l=*)
		eval "$line"
		mkdir -p -- "${f%/*}" && ln -- "$l" "$f" || exit 1
		;;
	end*)
		IFS=' ' read -r x size mode time sec <<-END
			$line
		END
		dd if=/dev/null of="$f" bs=1 seek="$size" 2>/dev/null || exit 1
		chmod "$mode" "$f" || exit 1
		touch -d "@$time" "$f" 2>/dev/null || touch -d "@$sec" "$f" || exit 1
		;;
	*)
		IFS=' ' read -r size first n <<-END
			$line
		END
		dd of="$f" bs="$size" seek="$first" count="$n" iflag=fullblock conv=notrunc 2>/dev/null || {
			# It says why.
			dd if=/dev/zero bs=65536 count=16 >>"$f"
			exit 1
		}
		;;
	esac
done

[ -p "$j_d/in" ] || exit 81
case ${BASH_VERSION-} in ?*) shopt -s execfail ;; esac
exec "$@" <>"$j_d/in" >>"$j_d/out.log" 2>>"$j_d/err.log"
exit 81

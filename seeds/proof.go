package seeds

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Decoy returns a seed with a made-up text, the mark, in place of a credential. It serves
// to prove that auth.json and config.toml are protected. A codex with it asks nobody on the
// network: without the address, 0.169 asks a name server for chatgpt.com when it starts
// (measured). Only root could listen at the port.
func Decoy() (b *Bundle, mark string) {
	mark = "made-up-" + rand.Text()
	auth, err := json.Marshal(map[string]string{"auth_mode": "apikey", "OPENAI_API_KEY": "sk-" + mark})
	if err == nil {
		b, err = newBundle([]file{{path: authFile, data: auth}, {path: configFile, data: []byte("# " + mark + "\nopenai_base_url = \"http://127.0.0.1:9/v1\"\n")}}, nil)
	}
	if err != nil {
		panic(err)
	}
	return b, mark
}

// A Proof says what a command could do in a sandbox with a planted Decoy.
type Proof struct {
	// Leaks are the ways in which the command reached the mark, or a file that decides what
	// commands may do.
	Leaks []string
	// Works says that the sandbox was usable.
	Works bool
}

// Holds reports whether the protection works.
func (p Proof) Holds() bool { return len(p.Leaks) == 0 && p.Works }

// ProofCommand returns the command. ReadProof reads its output.
func ProofCommand(codexHome, mark, sandbox string) []string {
	return []string{"/bin/sh", "-c", proofScript, "sh", codexHome, mark, sandbox}
}

// proofScript also tries what a command with some of root's powers can do: with codex 0.133
// to 0.147, root's commands can unmount what "deny" mounted (measured). Attempts that
// change something come last.
const proofScript = `home=$1 mark=$2 sandbox=$3
t=${TMPDIR:-/tmp}/proof-$$
mkdir -p "$t" 2>/dev/null
reads() { if (eval "$2") 2>/dev/null | grep -q -F -e "$mark" 2>/dev/null; then echo "leak $1 ${f##*/}"; fi; }
does() { if (eval "$2") >/dev/null 2>&1; then echo "leak $1 ${f##*/}"; fi; }
for f in "$home/auth.json" "$home/config.toml"; do
	reads cat 'cat "$f"'
	reads 'a descriptor' 'exec 3<"$f" && cat <&3'
	reads cp 'cp "$f" "$t/copy" && cat "$t/copy"'
	reads dd 'dd if="$f"'
	reads tar 'tar cf - -C "$home" "${f##*/}"'
	reads 'a relative path' 'cd "$home/rules/.." || cd "$home" && cat "./${f##*/}"'
	reads 'a hard link' 'ln -f "$f" "$t/hard" && cat "$t/hard"'
	reads 'a symbolic link' 'ln -sf "$f" "$t/soft" && cat "$t/soft"'
	reads '/proc/self/root' 'cat "/proc/self/root$f"'
	reads '/proc of others' 'for p in /proc/[0-9]*; do cat "$p/root$f" "$p/cwd/${f##*/}"; done'
	reads 'an environment' 'cat /proc/[0-9]*/environ'
	reads chmod 'chmod 644 "$f"; cat "$f"'
	reads 'a mount' 'mkdir -p "$t/m" && mount --bind "$home" "$t/m" && { cat "$t/m/${f##*/}"; umount "$t/m"; }'
	reads 'a namespace' 'unshare -rm sh -c '\''umount "$1"; cat "$1"; mount --bind "${1%/*}" /mnt && cat "/mnt/${1##*/}"'\'' sh "$f"'
	reads 'another namespace' 'nsenter -t 1 -m cat "$f"'
	reads 'mv' 'mv "$f" "$t/moved" && cat "$t/moved"'
	reads umount 'umount "$f"; cat "$f" || { umount -l "$f"; cat "$f"; }'
	does 'writing' 'printf x >>"$f"'
	does 'removing' 'rm -f "$f"'
done
f=$home/rules
does 'writing rules' 'mkdir -p "$home/rules" && : >"$home/rules/default.rules"'
f=$home
does 'moving the folder' 'mv "$home" "$home.moved"'
if (: >.fairlead-proof) 2>/dev/null; then
	rm -f .fairlead-proof
	if [ "$sandbox" = read-only ]; then echo "leak writing work"; else echo works; fi
elif [ "$sandbox" = read-only ] || [ "$sandbox" = profile ]; then echo works
fi
rm -rf "$t" 2>/dev/null
echo end`

// ReadProof returns an error if the command did not finish.
func ReadProof(printed string) (Proof, error) {
	var p Proof
	lines := strings.Split(strings.TrimRight(printed, "\n"), "\n")
	if lines[len(lines)-1] != "end" {
		return p, errors.New("the trial did not come to its end")
	}
	for _, line := range lines[:len(lines)-1] {
		way, leaks := strings.CutPrefix(line, "leak ")
		switch {
		case line == "works":
			p.Works = true
		case !leaks:
			return p, fmt.Errorf("the output of the sandbox trial has an unexpected line (%d lines in all)", len(lines))
		case !slices.Contains(p.Leaks, way):
			p.Leaks = append(p.Leaks, way)
		}
	}
	return p, nil
}

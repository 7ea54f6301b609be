// Package signkey loads the SSH keys that ctl signs with.
package signkey

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"fairlead.dev/fairlead/cmd/ctl/internal/core"
	"fairlead.dev/fairlead/internal/config"
	"fairlead.dev/fairlead/internal/localsocket"
	"fairlead.dev/fairlead/internal/sshsig"
)

// Load returns the key that the argument with names: a file of a private key, of a public key or of a
// certificate, agent, agent:FINGERPRINT, or login, the key of `ctl login`. choice decides if several keys fit. It asks the
// person at the terminal for a passphrase. With a key in a FIDO device, an agent signs.
func Load(ctx context.Context, a *core.App, with string, choice sshsig.Choice) (sshsig.Signer, error) {
	if with == config.LoginKey {
		return fromLogin(a)
	}
	if name, ok := strings.CutPrefix(with, "agent"); ok && (name == "" || name[0] == ':') {
		choice.Fingerprint = strings.TrimPrefix(name, ":")
		return fromAgent(ctx, a, choice)
	}
	if rest, ok := strings.CutPrefix(with, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, err
		}
		with = filepath.Join(home, rest)
	}
	file, cert := with, with+certSuffix
	if name, ok := strings.CutSuffix(with, certSuffix); ok {
		file, cert = name, with
	}
	pem, err := os.ReadFile(file)
	if err != nil && file == with {
		return nil, err
	}
	if public, ok := strings.CutSuffix(with, ".pub"); ok && (file == with || err != nil) {
		if _, err := os.Stat(public); err == nil {
			return nil, fmt.Errorf("it is the public key: name the private key, %s", public)
		}
		if choice.Public, err = os.ReadFile(with); err != nil {
			return nil, err
		}
		return fromAgent(ctx, a, choice) // the file has the public key and the agent the private one, as with ssh-keygen
	}
	if key, ok := sshsig.DeviceKey(pem); ok {
		if choice.Fingerprint = sshsig.Fingerprint(key); cert == with {
			if choice.Public, err = os.ReadFile(cert); err != nil {
				return nil, err
			}
		}
		signer, err := fromAgent(ctx, a, choice)
		if err != nil {
			return nil, fmt.Errorf("the key of %s is in a FIDO device, so an ssh-agent must sign: %w (`ssh-add %[1]s` adds the key to the agent)", file, err)
		}
		return signer, nil
	}
	key, err := unlocked(ctx, a, file, pem)
	if err != nil {
		return nil, err
	}
	signers := []sshsig.Signer{key}
	if line, err := os.ReadFile(cert); err == nil {
		certified, err := sshsig.Certified(key, line)
		switch {
		case err == nil:
			signers = append(signers, certified)
		case cert == with:
			return nil, err
		}
	}
	if cert == with {
		signers = signers[1:]
	}
	return choice.Pick(signers)
}

const certSuffix = "-cert.pub"

// tries is how often a passphrase is asked for, as by ssh.
const tries = 3

func unlocked(ctx context.Context, a *core.App, file string, pem []byte) (sshsig.Signer, error) {
	signer, err := sshsig.ParseKey(pem, nil)
	for try := 1; errors.Is(err, sshsig.ErrPassphrase) && try <= tries; try++ {
		if try > 1 {
			fmt.Fprintln(a.Err, "that does not open it")
		}
		phrase, perr := passphrase(ctx, a, file)
		if perr != nil {
			return nil, perr
		}
		signer, err = sshsig.ParseKey(pem, []byte(phrase))
	}
	return signer, err
}

func passphrase(ctx context.Context, a *core.App, of string) (string, error) {
	if !a.MayAsk() {
		return "", errors.New("the key is encrypted, and there is nobody at a terminal to ask for its passphrase (`ssh-add` it, and give --sign-with agent)")
	}
	return a.AnswerUnseen(ctx, "passphrase of "+core.Clean(of)+":")
}

// fromAgent returns a key of the agent at SSH_AUTH_SOCK, which signs within ctx.
func fromAgent(ctx context.Context, a *core.App, choice sshsig.Choice) (sshsig.Signer, error) {
	socket := os.Getenv("SSH_AUTH_SOCK")
	if socket == "" {
		return nil, errors.New("there is no agent: SSH_AUTH_SOCK is not set")
	}
	conn, err := localsocket.DialAgent(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("reach the agent: %w", err)
	}
	context.AfterFunc(ctx, func() { conn.Close() })
	a.OnClose(conn)
	return sshsig.FromAgent(conn, choice)
}

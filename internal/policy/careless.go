package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"

	"fairlead.dev/fairlead/internal/shellwords"
)

// obedient lists programs that obey files of the folder that they run in, such as
// configuration, hooks, scripts and tests.
var obedient = strings.Fields(`git hg svn go make gmake cmake ninja meson bazel just task npm npx pnpm pnpx yarn bun bunx node deno tsc eslint jest vitest
	python python2 python3 pip pip3 pipx uv uvx poetry tox nox pytest ruff mypy pre-commit ruby bundle rake gem rspec perl php composer
	cargo rustc mvn mvnw gradle gradlew ant sbt dotnet mix swift docker docker-compose podman terraform tofu ansible-playbook
	sh bash dash ash ksh zsh fish env xargs find tar rsync vim vi ssh sudo`)

// asks lists the facts that say what a request would do.
var asks = []string{"words", "plain", "split", "command", "action", "paths", "grant_root", "changes", "network_host",
	"wants.read", "wants.write", "wants.network", "wants.other", "server", "tool", "digest"}

// careless returns the warnings for a rule that accepts.
func careless(root ast.Expr) (warnings []string) {
	if seen := surely(root); !seen.any(asks...) {
		warnings = append(warnings, "it accepts without looking at what is asked for: any command, any file")
	}
	programs, git := map[string]bool{}, false
	ast.PreOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		for _, program := range named(e.AsCall()) {
			programs[program] = true
		}
		git = git || underGit(e.AsCall())
	}))
	var which []string
	for program := range programs {
		if slices.Contains(obedient, path.Base(program)) || strings.Contains(program, "/") && !path.IsAbs(program) {
			which = append(which, program)
		}
	}
	if slices.Sort(which); len(which) > 0 {
		warnings = append(warnings, fmt.Sprintf("it accepts %s, which runs what the folder says (its configuration, hooks, scripts, tests), and the model may have written that: it then runs outside of the sandbox",
			strings.Join(which, ", ")))
	}
	if git {
		warnings = append(warnings, `under(… ".git") matches only that one folder, and neither sub/.git nor, on file systems that ignore case, .GIT; paths.exists(p, p.matches("(?i)/\\.git(/|$)")) finds all of them`)
	}
	return warnings
}

// named returns the programs that a call compares a command with.
func named(c ast.CallExpr) (programs []string) {
	args := c.Args()
	if c.IsMemberFunction() {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	if len(args) != 2 || !slices.Contains([]string{"starts", operators.Equals, operators.In}, c.FunctionName()) {
		return nil
	}
	of, with := args[0], args[1]
	if !commands(of) {
		of, with = with, of
	}
	if !commands(of) {
		return nil
	}
	for i, text := range texts(with) {
		words := []string{text}
		switch {
		case of.Kind() == ast.IdentKind && of.AsIdent() == "command":
			words, _ = shellwords.Split(text)
		case i > 0 && !isIndex(of):
			return programs // only the first word is the program
		}
		if len(words) > 0 {
			programs = append(programs, words[0])
		}
	}
	return programs
}

// commands reports whether e is a command or words of one.
func commands(e ast.Expr) bool {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent() == "words" || e.AsIdent() == "command"
	case ast.CallKind:
		c := e.AsCall()
		return c.FunctionName() == "split" || isIndex(e) && commands(c.Args()[0])
	}
	return false
}

func isIndex(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Index
}

// texts returns e's text literals, also in a list.
func texts(e ast.Expr) (all []string) {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			all = append(all, string(s))
		}
	case ast.ListKind:
		for _, one := range e.AsList().Elements() {
			all = append(all, texts(one)...)
		}
	}
	return all
}

// underGit reports whether a call tests for paths under one .git folder.
func underGit(c ast.CallExpr) bool {
	if c.FunctionName() != "under" || len(c.Args()) != 1 {
		return false
	}
	folder := c.Args()[0]
	if folder.Kind() == ast.CallKind && folder.AsCall().FunctionName() == operators.Add {
		folder = folder.AsCall().Args()[1]
	}
	return slices.ContainsFunc(texts(folder), func(s string) bool { return slices.Contains(strings.Split(strings.ToLower(s), "/"), ".git") })
}

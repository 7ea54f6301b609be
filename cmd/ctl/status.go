package main

import "github.com/spf13/cobra"

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "status", RunE: func(c *cobra.Command, args []string) error { return failed("not yet") }}
}

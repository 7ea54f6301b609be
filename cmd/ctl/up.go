package main

import "github.com/spf13/cobra"

func upCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "up", RunE: func(c *cobra.Command, args []string) error { return failed("not yet") }}
}

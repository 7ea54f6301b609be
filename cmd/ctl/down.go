package main

import "github.com/spf13/cobra"

func downCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "down", RunE: func(c *cobra.Command, args []string) error { return failed("not yet") }}
}

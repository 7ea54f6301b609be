package main

import "github.com/spf13/cobra"

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "doctor", RunE: func(c *cobra.Command, args []string) error { return failed("not yet") }}
}

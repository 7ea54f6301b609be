package protocol

import "fmt"

// A SeedTool is a tool that a seed gives to each of its sessions, as people see it.
type SeedTool struct {
	Name string `json:"name"`
	// Handler is who carries out the calls: a webhook, or an activity on a queue.
	Handler string `json:"handler"`
}

// MaxSeedHandler bounds SeedTool.Handler, in bytes.
const MaxSeedHandler = 300

// CheckSeedTools returns an error if no seed can give these tools.
func CheckSeedTools(tools []SeedTool) error {
	var names []string
	for _, t := range tools {
		if len(t.Handler) > MaxSeedHandler {
			return fmt.Errorf("tool %.70q: its handler has %d bytes, at most %d", t.Name, len(t.Handler), MaxSeedHandler)
		}
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return checkToolNames(names)
}

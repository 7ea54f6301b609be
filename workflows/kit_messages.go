package workflows

import "go.temporal.io/sdk/workflow"

// unread receives all signals that wait in a channel.
func unread[T any](ch workflow.ReceiveChannel) (all []T) {
	for {
		var v T
		if !ch.ReceiveAsync(&v) {
			return all
		}
		all = append(all, v)
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

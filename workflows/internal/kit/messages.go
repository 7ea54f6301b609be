package kit

import "go.temporal.io/sdk/workflow"

// Unread receives all signals that wait in a channel.
func Unread[T any](ch workflow.ReceiveChannel) (all []T) {
	for {
		var v T
		if !ch.ReceiveAsync(&v) {
			return all
		}
		all = append(all, v)
	}
}

// FirstError returns the first error that is not nil.
func FirstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sethvargo/go-retry"
	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
)

// Prepare registers the search attributes that a namespace lacks, and returns them. It waits
// until a query for all of them works, because a server takes new ones with a delay. It may
// be repeated, and run by several people at once. An attribute of another type is an error,
// and nothing is registered then.
func Prepare(ctx context.Context, c Client, namespace string) ([]Attribute, error) {
	l, err := lack(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	if len(l.Other) > 0 {
		return nil, &LackError{Namespace: namespace, Lack: Lack{Other: l.Other}}
	}
	if len(l.Missing) > 0 {
		types := map[string]enums.IndexedValueType{}
		for _, a := range l.Missing {
			types[a.Name] = a.Type
		}
		_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: types})
		var there *serviceerror.AlreadyExists
		if err != nil && !errors.As(err, &there) {
			return nil, err
		}
	}
	every := retry.WithCappedDuration(5*time.Second, retry.NewExponential(100*time.Millisecond))
	err = retry.Do(ctx, every, func(ctx context.Context) error {
		left, err := lack(ctx, c, namespace)
		switch {
		case err != nil:
			return err
		case len(left.Other) > 0:
			return &LackError{Namespace: namespace, Lack: left}
		case len(left.Missing) > 0:
			return retry.RetryableError(&LackError{Namespace: namespace, Lack: left})
		}
		err = searchable(ctx, c, namespace)
		var bad *serviceerror.InvalidArgument
		var busy *serviceerror.ResourceExhausted
		if errors.As(err, &bad) || errors.As(err, &busy) {
			return retry.RetryableError(err)
		}
		return err
	})
	if err != nil {
		return l.Missing, fmt.Errorf("registered, but not usable yet: %w", err)
	}
	return l.Missing, nil
}

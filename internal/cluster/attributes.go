package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// A Client is a connection to Temporal. client.Client implements it.
type Client interface {
	WorkflowService() workflowservice.WorkflowServiceClient
	OperatorService() operatorservice.OperatorServiceClient
}

// An Attribute is a custom search attribute.
type Attribute struct {
	Name string
	Type enums.IndexedValueType
}

func (a Attribute) String() string { return fmt.Sprintf("%s (%s)", a.Name, a.Type) }

// Attributes returns the search attributes that workflows set. Temporal fails each workflow
// task that sets one that is not registered.
func Attributes() []Attribute {
	const keyword, number = enums.INDEXED_VALUE_TYPE_KEYWORD, enums.INDEXED_VALUE_TYPE_INT
	return []Attribute{
		{"FairleadApprovals", number},
		{"FairleadArchived", enums.INDEXED_VALUE_TYPE_BOOL},
		{"FairleadHost", keyword},
		{"FairleadName", keyword},
		{"FairleadOrigin", keyword},
		{"FairleadProgress", keyword},
		{"FairleadSeed", keyword},
		{"FairleadState", keyword},
		{"FairleadThread", keyword},
		{"FairleadTurn", number},
		{"FairleadWaits", keyword},
	}
}

// A Lack is what a namespace lacks of Attributes.
type Lack struct {
	Missing []Attribute
	// Other are registered with another type than Fairlead's.
	Other []Attribute
}

func (l Lack) none() bool { return len(l.Missing)+len(l.Other) == 0 }

// lack compares Attributes with those that are registered. It needs the permission to list
// search attributes.
func lack(ctx context.Context, c Client, namespace string) (l Lack, err error) {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return l, err
	}
	for _, a := range Attributes() {
		switch kind, ok := have.GetCustomAttributes()[a.Name]; {
		case !ok:
			l.Missing = append(l.Missing, a)
		case kind != a.Type:
			l.Other = append(l.Other, Attribute{a.Name, kind})
		}
	}
	return l, nil
}

// query names each attribute, so that a server without one refuses it.
func query() string {
	var terms []string
	for _, a := range Attributes() {
		value := "'none'"
		switch a.Type {
		case enums.INDEXED_VALUE_TYPE_INT:
			value = "0"
		case enums.INDEXED_VALUE_TYPE_BOOL:
			value = "true"
		}
		terms = append(terms, a.Name+" = "+value)
	}
	return strings.Join(terms, " AND ")
}

// searchable returns an error if a query for the attributes does not work.
func searchable(ctx context.Context, c Client, namespace string) error {
	_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query()})
	return err
}

// A LackError says that workers cannot work in a namespace.
type LackError struct {
	Namespace string
	Lack      Lack
	// Refused is what the server said of a query, where its search attributes may not be
	// listed.
	Refused error
}

func (e *LackError) Unwrap() error { return e.Refused }

func (e *LackError) Error() string {
	var why []string
	if len(e.Lack.Missing) > 0 {
		why = append(why, "search attributes are missing: "+list(e.Lack.Missing))
	}
	for _, a := range e.Lack.Other {
		why = append(why, fmt.Sprintf("search attribute %s has another type than Fairlead's", a))
	}
	if e.Refused != nil {
		why = append(why, fmt.Sprintf("it refuses a query for Fairlead's search attributes: %v", e.Refused))
	}
	return fmt.Sprintf("namespace %s: %s: `ctl cluster check` says how to fix it", e.Namespace, strings.Join(why, "; "))
}

// Lacking returns a *LackError if workflows of Fairlead would fail in a namespace, nil if
// they would not, and another error if that cannot be found out now.
func Lacking(ctx context.Context, c Client, namespace string) error {
	l, err := lack(ctx, c, namespace)
	if err == nil {
		if l.none() {
			return nil
		}
		return &LackError{Namespace: namespace, Lack: l}
	}
	if !unlisted(err) {
		return err
	}
	err = searchable(ctx, c, namespace)
	var bad *serviceerror.InvalidArgument
	if errors.As(err, &bad) {
		return &LackError{Namespace: namespace, Refused: err}
	}
	return err
}

// unlisted reports whether the caller may not, or cannot, list search attributes.
func unlisted(err error) bool {
	var denied *serviceerror.PermissionDenied
	var unknown *serviceerror.Unimplemented
	return errors.As(err, &denied) || errors.As(err, &unknown)
}

func list(all []Attribute) string {
	var names []string
	for _, a := range all {
		names = append(names, a.String())
	}
	return strings.Join(names, ", ")
}

// Package iterator has the error by which lists in Google's storage end.
package iterator

import "errors"

var Done = errors.New("no more items in iterator")

package errkind

import "net/http"

// statuses are the HTTP statuses of kinds. Other kinds get the status of their exit code.
var statuses = map[string]int{
	"bad_input":     http.StatusBadRequest,
	"unauthorized":  http.StatusUnauthorized,
	"forbidden":     http.StatusForbidden,
	PasskeyNeeded:   http.StatusForbidden,
	"not_found":     http.StatusNotFound,
	"refused":       http.StatusConflict,
	"person_needed": http.StatusConflict,
	KeyReused:       http.StatusUnprocessableEntity,
	"failed":        http.StatusInternalServerError,
	"internal":      http.StatusInternalServerError,
	"unreachable":   http.StatusServiceUnavailable,
	"timed_out":     http.StatusGatewayTimeout,
}

// PasskeyNeeded is the kind of a decision that needs the person's passkey or FIDO key.
const PasskeyNeeded = "passkey_needed"

// KeyReused is the kind of a request whose key belongs to another one.
const KeyReused = "key_reused"

// Status returns the HTTP status of an error.
func (e *Error) Status() int {
	if s, ok := statuses[e.Kind]; ok {
		return s
	}
	switch e.Code {
	case ExitUsage:
		return http.StatusBadRequest
	case ExitNotFound:
		return http.StatusNotFound
	case ExitUnreachable:
		return http.StatusServiceUnavailable
	case ExitTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusConflict // the state of things does not permit it
}

// KindOf returns the kind of an error that only its HTTP status describes.
func KindOf(status int) string {
	switch {
	case status == http.StatusNotFound:
		return "not_found"
	case status == http.StatusUnauthorized:
		return "unauthorized"
	case status == http.StatusForbidden:
		return "forbidden"
	case status == http.StatusConflict:
		return "refused"
	case status == http.StatusServiceUnavailable:
		return "unreachable"
	case status == http.StatusGatewayTimeout:
		return "timed_out"
	case status >= http.StatusInternalServerError:
		return "internal"
	}
	return "bad_input"
}

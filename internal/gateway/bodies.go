package gateway

import (
	"bytes"
	"net/http"
)

// Bodies are the texts of a request and of what codex got, for debugging. They have what passes
// through the gateway: the provider's key was replaced in the answer, and tokens are in headers.
type Bodies struct {
	// Request and Answer are the beginnings of the texts.
	Request, Answer []byte
	// RequestBytes and AnswerBytes are the lengths of the whole texts.
	RequestBytes, AnswerBytes int64
}

// A keeping copies the beginning of what codex gets.
type keeping struct {
	http.ResponseWriter
	most   int
	bodies Bodies
}

// Unwrap lets an http.ResponseController reach the connection.
func (k *keeping) Unwrap() http.ResponseWriter { return k.ResponseWriter }

func (k *keeping) Write(p []byte) (int, error) {
	n, err := k.ResponseWriter.Write(p)
	k.bodies.AnswerBytes += int64(n)
	if room := k.most - len(k.bodies.Answer); room > 0 {
		k.bodies.Answer = append(k.bodies.Answer, p[:min(n, room)]...)
	}
	return n, err
}

// keep begins to copy an exchange, if the options say so.
func (x *exchange) keep() {
	if x.g.opts.Keep != nil && x.r.Method == http.MethodPost {
		x.kept = &keeping{ResponseWriter: x.w, most: x.g.opts.KeepBytes}
		x.w = x.kept
	}
}

// keepRequest copies the request, of which the gateway lets go once an answer begins.
func (x *exchange) keepRequest(text []byte) {
	if x.kept != nil {
		x.kept.bodies.Request, x.kept.bodies.RequestBytes = bytes.Clone(text[:min(len(text), x.kept.most)]), int64(len(text))
	}
}

// Package wire speaks the protocol of codex's app-server: lines of JSON-RPC. It reads them
// with a bound, also if they are longer (Splitter, Peek), and knows which method came with
// which version of codex. Conn is a connection for short exchanges; a pump reads the journal
// itself. The types of methods have only the fields that we use.
package wire

// Package approval is `ctl approval`: listing approvals, deciding them by flags or
// at the terminal, answering questions, and signing decisions.
package approval

// Package ruling reads the policies of a session. A ruling is the policy of one owner: the
// session, or its seed. All functions are pure, so workflows may call them.
package ruling

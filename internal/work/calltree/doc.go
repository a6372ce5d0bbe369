// Package calltree knows which worker of a program may call which, and what each may do
// there: no worker has more than its caller.
package calltree

// Package forge puts one program together: its project file, its workers, the
// user's trust in them, and the sandbox and grants that follow. It is the only
// place where everything meets; the fronts call it and nothing below.
package forge

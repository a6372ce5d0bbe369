// Package forge puts one program together: its project file, its workers, the
// user's trust in them, and the sandbox and grants that follow. The
// fronts start here; for single values they also use the packages below.
package forge

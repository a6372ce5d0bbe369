package gate

import "github.com/golem-forge/golem/internal/decide/tool"

// A Change is a change of one file, with the text that a person sees of it.
type Change struct{ inner tool.Change }

// Op returns create, update, delete, move or copy. For a file that the call only reads it is
// read.
func (c Change) Op() string { return string(c.inner.Op) }

// Path returns the virtual name of the file.
func (c Change) Path() string { return c.inner.Path }

// To returns the new name of a file that is moved or copied.
func (c Change) To() string { return c.inner.To }

// Diff returns the change in the unified format, "" if there is no text to show.
func (c Change) Diff() string { return c.inner.Diff }

// Version returns the version of the whole new content.
func (c Change) Version() string { return c.inner.Becomes }

// Omitted says why the change does not carry its content, "" if it does.
func (c Change) Omitted() string { return c.inner.Omitted }

// changesOf returns changes of package tool.
func changesOf(list []tool.Change) []Change {
	var all []Change
	for _, c := range list {
		all = append(all, Change{c})
	}
	return all
}

package gate

import (
	"github.com/golem-forge/golem/internal/decide/tool"
	"github.com/golem-forge/golem/internal/files/filecontent"
	"github.com/golem-forge/golem/sandbox"
)

// A Change is a change of one file, with the text that a person sees of it. [NewChange] and
// the tools make changes.
type Change struct{ inner tool.Change }

// NewChange describes how the content of a file changes. Version is that of the old content,
// the zero Version if there was no file. New is nil if the file is deleted.
func NewChange(name string, version sandbox.Version, old, new []byte) Change {
	c := tool.DescribeChange(name, version, old, new)
	c.Empties = !filecontent.IsBlank(old) && filecontent.IsBlank(new)
	if new == nil {
		c.Op, c.Becomes = tool.Delete, ""
	}
	return Change{c}
}

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

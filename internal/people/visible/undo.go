package visible

// UndoNote says whether golem undo undoes the changes that a result has applied. final is tool.Result.Final.
func UndoNote(final string) string {
	if final != "" {
		return "golem undo cannot restore what was there: " + final
	}
	return "golem undo restores what was there"
}

package jail

// A Recorder makes the overlays that commands write to. Package changes has one.
type Recorder interface {
	// Prepare makes a place for the changes of one command in each of the mounts for which
	// NeedsOverlay reports true. No two calls of a jail have the same number. The helper
	// is the one of the jail.
	Prepare(h *Helper, mounts []Mount, number int) (Record, error)
}

// A Record holds the changes of one command.
type Record interface {
	// Stores returns the directories of the overlays that hold the changes, in the order
	// of the mounts that need an overlay.
	Stores() []string
	// Start is called just before the command starts.
	Start() error
	// Discard removes the record with all changes in it.
	Discard() error
}

// Overlays are the directories that a session works in. They last longer than a command. The
// implementation is in package changes.
type Overlays interface {
	// Mounted reports whether commands see some of them through mounts of the helper.
	Mounted() bool
	// Helper returns the helper with these mounts, nil if there is none.
	Helper() *Helper
	// Prepare is called before commands with these mounts are confined at a level.
	Prepare(mounts []Mount, at Level) error
	// Join notes that commands of an owner will write to the directories. It reports whether
	// others do so too, and why the owner's commands can have no Unix sockets, "" if they can.
	Join(owner string, sole bool) (shared bool, noSockets string)
	// Serve notes that a service writes to the directories, until ended is called.
	Serve() (ended func())
}

// NeedsOverlay reports whether commands write the directory of a mount through an overlay
// if their Policy has a Recorder.
func (m Mount) NeedsOverlay() bool { return m.Source != "" && m.Write && !m.Kept }

// helper returns the helper that the session's overlays are mounted in, nil for none.
func (p Policy) helper() *Helper {
	if p.Overlays == nil || !p.Overlays.Mounted() {
		return nil
	}
	return p.Overlays.Helper()
}

// prepare prepares the session's directories for commands at a level.
func (p Policy) prepare(at Level) error {
	if p.Overlays == nil {
		return nil
	}
	return p.Overlays.Prepare(p.Mounts, at)
}

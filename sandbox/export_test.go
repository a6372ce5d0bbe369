package sandbox

// RootBackend is like Dir, but always uses os.Root.
func RootBackend(folder Host) (Backend, error) { return openRoot("", folder) }

// RootBackendIn is the same for a source below a base.
func RootBackendIn(base, source Host) (Backend, error) { return openRoot(base, source) }

// BackendIn opens a source below a base, as a Mount does.
func BackendIn(base, source Host) (Backend, error) { return openDir(base, source) }

// Clean exports clean for tests.
func Clean(name string) (canonical, why string) { return clean(name) }

// CanMatchAbove exports canMatchAbove for tests.
func CanMatchAbove(pattern, dir string) bool { return canMatchAbove(pattern, dir) }

// ProtectedBy compares a whole name with the protected patterns.
func ProtectedBy(s *Sandbox, name string) string {
	if len(name) == 0 || name[0] != '/' {
		return ""
	}
	return s.guard.match(name)
}

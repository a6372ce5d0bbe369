package sandbox

// RootBackend is Dir by the way of os.Root, whatever the kernel has.
func RootBackend(folder Host) (Backend, error) { return openRoot("", folder) }

// RootBackendIn is the same for a source below a base.
func RootBackendIn(base, source Host) (Backend, error) { return openRoot(base, source) }

// BackendIn is Dir for a source below a base, as a Mount makes it.
func BackendIn(base, source Host) (Backend, error) { return openDir(base, source) }

// Clean is clean, for the laws of names.
func Clean(name string) (canonical, why string) { return clean(name) }

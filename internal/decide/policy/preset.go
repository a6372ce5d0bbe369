package policy

// PresetNames returns the names of the sets of hosts that golem knows, sorted. Package
// preset finds their hosts.
func PresetNames() []string { return []string{"debian", "go", "npm", "pypi"} }

package cli

const exeSuffix = ".exe"

// startHub says how to start golem-hub: a process cannot be replaced by another here.
func startHub([]string) error {
	file, err := findHub()
	if err != nil {
		return err
	}
	return usagef("start the program itself: %s", commandLine(file))
}

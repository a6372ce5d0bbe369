package cli

import "golang.org/x/sys/unix"

// withoutOpenat2 returns why golem cannot use openat2, or "" if it can.
func withoutOpenat2() string {
	fd, err := unix.Openat2(unix.AT_FDCWD, ".", &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return "openat2 is not available: " + err.Error()
	}
	unix.Close(fd)
	return ""
}

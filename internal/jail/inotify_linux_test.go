package jail_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
)

// TestInotifyInstances checks that a command cannot take all inotify instances of the user:
// programs outside need some.
func TestInotifyInstances(t *testing.T) {
	if data, err := os.ReadFile("/proc/sys/user/max_inotify_instances"); err != nil {
		t.Skipf("this kernel does not limit them: %v %s", err, data)
	}
	inModes(t, everyMode, func(t *testing.T, m mode) {
		if m.level() != jail.Namespaces {
			return // there is no inotify
		}
		s, err := jail.Start(jail.Policy{}, time.Now)
		check(t, err)
		defer s.Close()
		r, err := s.Run(context.Background(), jail.Shell(`python3 -c '
import ctypes
libc = ctypes.CDLL(None)
n = 0
while n < 1000 and libc.inotify_init() >= 0: n += 1
print(n)'`))
		check(t, err)
		got, err := strconv.Atoi(strings.TrimSpace(string(r.Stdout.Head)))
		if err != nil || got < 8 || got > 32 {
			t.Errorf("a command has %d instances: %v %s", got, err, r.Stderr.Head)
		}
	})
}

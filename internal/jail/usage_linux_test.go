package jail

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestReadUsage checks that the usage of a process includes that of the processes below it.
func TestReadUsage(t *testing.T) {
	// The shell waits for a shell that fills memory and works until it is killed.
	cmd := exec.Command("sh", "-c", `sh -c 'x=$(head -c 20000000 /dev/zero | tr "\0" x); while :; do :; done'; :`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	self, id := os.Getpid(), cmd.Process.Pid
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		u := ReadUsage([]int{self, id})
		if u[id].CPU > 100*time.Millisecond && u[id].Memory > 20e6 && u[id].Processes >= 2 && u[self].CPU >= u[id].CPU && u[self].Processes > u[id].Processes {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %+v", u)
		}
	}
}

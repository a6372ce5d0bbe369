package web_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// testFirefox runs some tests of the package in Firefox, where a write takes much longer.
func testFirefox(t *testing.T, dir string) {
	if _, err := exec.LookPath("firefox-esr"); err != nil {
		t.Skip("firefox-esr is not installed; scripts/need firefox-esr=firefox-esr installs it")
	}
	server := newSite(t, dir)
	profile, err := os.MkdirTemp("", "firefox-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(profile) })
	cmd := exec.Command("firefox-esr", "--headless", "--no-remote", "--profile", profile, server.URL+"/testdata/page.html?module=api.js&only=files&only=reopen&only=approvals&only=oneWorker")
	cmd.Env = append(os.Environ(), "HOME="+profile)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Firefox does not start: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	})
	for end := time.Now().Add(patience / 2); ; time.Sleep(100 * time.Millisecond) {
		if _, ok := server.kept.Load("begun"); ok {
			break
		}
		if time.Now().After(end) {
			t.Fatal("Firefox opens no page")
		}
	}
	server.report(t, server.result(t, t.Context(), &console{}), &console{})
}

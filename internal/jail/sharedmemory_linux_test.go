package jail_test

import (
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/jail"
)

// uncounted are the modes in which no control group counts memory.
func uncounted() (list []mode) {
	for _, m := range bombModes() {
		if !m.groups() {
			list = append(list, m)
		}
	}
	return list
}

const (
	python = "exec python3 -c '\nimport ctypes, mmap, os, time\nlibc = ctypes.CDLL(None, use_errno=True)\n"

	oldSegments = python + `
libc.shmat.restype = ctypes.c_void_p
libc.shmdt.argtypes = [ctypes.c_void_p]
for i in range(9):
    seg = libc.shmget(0, ctypes.c_size_t(100 << 20), 0o1600)
    if seg < 0: raise SystemExit("errno %d" % ctypes.get_errno())
    at = libc.shmat(seg, None, 0)
    ctypes.memset(at, 1, 100 << 20)
    libc.shmdt(at)
    time.sleep(0.1)
time.sleep(5)
'`
	sharedMapping = python + `
m = mmap.mmap(-1, 900 << 20)
for i in range(0, 900 << 20, 4096): m[i] = 1
time.sleep(5)
'`
	hiddenMapping = python + `
libc.prctl(4, 0, 0, 0, 0)
m = mmap.mmap(-1, 900 << 20)
for i in range(0, 900 << 20, 4096): m[i] = 1
time.sleep(5)
'`
	manyMappings = `for i in 1 2 3 4 5 6; do python3 -c '
import mmap, time
m = mmap.mmap(-1, 100 << 20)
for i in range(0, 100 << 20, 4096): m[i] = 1
time.sleep(2)
' & done; wait`
	filesAndHeap = `head -c 120M /dev/zero > /tmp/x; head -c 60M /dev/zero > /dev/shm/x; ` + "python3 -c '\nimport time\nx = b\"x\" * (150 << 20)\ntime.sleep(5)\n'; rm -f /tmp/x /dev/shm/x"
)

// TestSharedMemoryIsCounted checks the memory limit for memory that belongs to no
// process or to several, if golem itself watches the limit.
func TestSharedMemoryIsCounted(t *testing.T) {
	inModes(t, uncounted(), func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 256 << 20, Temp: 128 << 20, Time: time.Minute})
		r := p.sh(python + `
try: os.memfd_create("x")
except OSError as e: print(e.errno)
'`)
		if got := strings.TrimSpace(string(r.Stdout.Head)); got != "38" {
			t.Errorf("memfd_create: %q, want ENOSYS; %s", got, r.Stderr.Head)
		}
		bombs := map[string]string{"a shared mapping": sharedMapping, "one of a process that hides": hiddenMapping, "many": manyMappings}
		if m.refused {
			if r := p.sh(oldSegments); r.Code == 0 || !strings.Contains(string(r.Stderr.Head), "errno 1") {
				t.Errorf("System V shared memory: %d %s", r.Code, r.Stderr.Head)
			}
		} else {
			bombs["shared memory of the old kind"] = oldSegments
			bombs["files in memory, and a heap"] = filesAndHeap
		}
		for name, line := range bombs {
			r := p.sh(line)
			if r.Late || r.Took > 30*time.Second {
				t.Errorf("%s: only the timeout ended the command", name)
			}
			t.Log(name, r.Took, r.Hit)
			p.wantHit(r, jail.MemoryLimit)
			p.sh("rm -f /tmp/x /dev/shm/x")
		}
	})
}

// TestSharedMemoryIsCountedOnce checks that programs below the limit are not ended.
func TestSharedMemoryIsCountedOnce(t *testing.T) {
	inModes(t, uncounted(), func(t *testing.T, m mode) {
		p := newTestSession(t, m, jail.Limits{Memory: 256 << 20, Temp: 128 << 20, Time: time.Minute})
		lines := map[string]string{
			"shared by forks": python + `
m = mmap.mmap(-1, 150 << 20)
for i in range(0, 150 << 20, 4096): m[i] = 1
kids = []
for i in range(6):
    pid = os.fork()
    if pid == 0:
        sum(m[i] for i in range(0, 150 << 20, 4096))
        time.sleep(1)
        os._exit(0)
    kids.append(pid)
for pid in kids: os.waitpid(pid, 0)
print("fine")
'`}
		if !m.refused {
			lines["a mapped file"] = python + `
f = open("/tmp/x", "wb+")
f.truncate(100 << 20)
m = mmap.mmap(f.fileno(), 100 << 20)
for i in range(0, 100 << 20, 4096): m[i] = 1
os.unlink("/tmp/x")
time.sleep(1)
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=40 << 20)
s.buf[:] = bytes(40 << 20)
time.sleep(1)
s.close()
s.unlink()
print("fine")
'`
		}
		for name, line := range lines {
			if r := p.sh(line); string(r.Stdout.Head) != "fine\n" || len(r.Hit) > 0 {
				t.Errorf("%s: code %d, hit %q, %s%s", name, r.Code, r.Hit, r.Stdout.Head, r.Stderr.Head)
			}
		}
	})
}

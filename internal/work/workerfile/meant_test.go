package workerfile

import "testing"

// TestIsNearMain: a file that was meant as main.worker has the limits of its program, so golem
// must know it under each name that people and editors give it by accident.
func TestIsNearMain(t *testing.T) {
	for _, name := range []string{
		"main.worker ", " main.worker", "main.worker\u00a0", "main.worker\t", "main.worker\u200b", "main\u200b.worker", "main .worker", "\ufeffmain.worker", "main.worker\u3000", "main.worker\r", "main.worker\n",
		"Main.worker", "MAIN.WORKER", "main.Worker", ".main.worker", "main.worker.", "main..worker", "main.workers", "_main.worker",
		"main.worker.txt", "main.worker.md", "main.worker.yaml", "main.worker.bak", "main.worker~", "main.worker.~1~", "#main.worker#", "main.worker.disabled", "main.worker.2", "main.worker.txt.bak", "main.worker .txt",
		"main.worker (1)", "main (1).worker", "main.worker copy", "main copy.worker", "main-old.worker", "main.worker-old", "main.worker_bak", "main.wroker", "main.woker", "main.worke", "Main.Worker.TXT",
	} {
		if !IsNearMain(name) {
			t.Errorf("%q: not found", name)
		}
	}
	for _, name := range []string{
		"main.worker", "main", "main.go", "main.js", "main.worker.js", "main.worker.ts", "main.worker.test.ts", "main.worker.js.map", "main.yaml", "main.md", "maintenance.worker", "other.worker", "domain.worker", "service.worker.js", "main.workerpool.go", "main.work-1", "worker",
	} {
		if IsNearMain(name) {
			t.Errorf("%q: found", name)
		}
	}
}

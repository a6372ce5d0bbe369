package policy

import "testing"

// TestCurrentToolName: the names of older systems lead to the current ones, and a current
// name or any other stays as it is.
func TestCurrentToolName(t *testing.T) {
	for name, want := range map[string]string{
		"readFile": "read_file", "writeFile": "write_file", "listFiles": "list_files", "deleteFile": "delete_file",
		"pullFromGit": "git_pull", "stageForPush": "git_stage",
		"gitPull": "git_pull", "gitStage": "git_stage", "gitPush": "git_push", "gitDiscard": "git_discard", "gitListStaged": "git_list_staged",
		"callWorker": "call_worker", "worker_call": "call_worker",
		"sandbox_read_text": "read_file", "sandbox_write_text": "write_file", "sandbox_list": "list_files",
		"": "", "*": "*", "read_file": "read_file", "shell": "shell", "Read": "Read", "ReadFile": "ReadFile", "server_readFile": "server_readFile", "my-toolX": "my-toolX",
		"sandbox.read": "sandbox.read", "größeX": "größe_x",
	} {
		got := CurrentToolName(name)
		if got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if again := CurrentToolName(got); again != got {
			t.Errorf("%s: got %s, and %s the second time", name, got, again)
		}
	}
}

// TestUseRuleOldName: a rule for a tool holds for all of its names.
func TestUseRuleOldName(t *testing.T) {
	for _, written := range []string{"read_file", "readFile", "sandbox_read_text"} {
		c := Approvals{}.With(Rule{Verb: Use, Target: written, Approval: Blocked})
		for _, called := range []string{"read_file", "readFile", "sandbox_read_text"} {
			if got, _ := c.Of(Effect{Verb: Use, Target: called}); got != Blocked {
				t.Errorf("rule for %s, call of %s: got %v", written, called, got)
			}
		}
		if got, _ := c.Of(Effect{Verb: Use, Target: "write_file"}); got == Blocked {
			t.Errorf("rule for %s blocks write_file", written)
		}
	}
	// Other verbs have no tools as targets.
	c := Approvals{}.With(Rule{Verb: Call, Target: "read_file", Approval: Blocked})
	if got, _ := c.Of(Effect{Verb: Call, Target: "readFile"}); got == Blocked {
		t.Error("a rule for the worker read_file blocks the worker readFile")
	}
}

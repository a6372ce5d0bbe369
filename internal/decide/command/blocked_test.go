package command

import (
	"strings"
	"testing"
	"time"

	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestBlockedInEverySpelling checks that a line is blocked if it could run a blocked
// command, in every spelling. This holds whether other commands are allowed, ask or have
// no rule.
func TestBlockedInEverySpelling(t *testing.T) {
	removes := []string{
		"rm -rf d", "rm -Rf d", "rm -fR d", "rm -R -f d", "rm --recursive --force d", "rm --rec --fo d", "rm --r --f d", "rm -r --force d", "rm d -rf",
		strings.Repeat("true;", 2000) + "rm -rf d", strings.Repeat("true\n", 999) + "rm -rf d", strings.Repeat("true;", 9000) + "rm -rf d",
		"sh -c '" + strings.Repeat("true;", 2000) + "rm -rf d'",
		"x=rm; $x -rf d", "x='rm -rf d'; $x", "set -- rm -rf d; \"$@\"", "${x:-rm} -rf d", "$(echo rm) -rf d", "`echo rm` -rf d", "read x <<<rm; $x -rf d",
		"a=(rm -rf d); \"${a[@]}\"", "printf -v x rm; $x -rf d", "rm$IFS-rf d", "rm -r$x d", "rm $x d", "rm ${x}f -r d",
		"\\rm -rf d", "'r'm -rf d", "r\"\"m -rf d", "$'rm' -rf d", "$'\\x72m' -rf d", "$'\\162\\155' -rf d", "$\"rm\" -rf d", "{rm,-rf,d}", "r{m,} -rf d", "/bin/r? -rf d",
		"/bin/r[m] -rf d", "/bin/rm -rf d", "/usr/local/bin/rm -rf d", "./rm -rf d", "../rm -rf d", "~/rm -rf d", "r\\m -rf d", "rm \\\n-rf d", "r\\\nm -rf d",
		"env rm -rf d", "env -i X=1 rm -rf d", "env -S 'rm -rf d'", "env -S'rm -rf d'", "env --split-string='rm -rf d'", "/usr/local/bin/env rm -rf d",
		"nohup rm -rf d", "nice -n 3 rm -rf d", "stdbuf -oL rm -rf d", "setsid rm -rf d", "setsid -f rm -rf d", "timeout 3 rm -rf d", "timeout -k 1 3 rm -rf d", "ionice -c 3 rm -rf d",
		"flock x rm -rf d", "flock x -c 'rm -rf d'", "watch rm -rf d", "watch -n 1 'rm -rf d'", "taskset 1 rm -rf d", "taskset -c 0 rm -rf d", "prlimit --nofile=3 rm -rf d",
		"prlimit -n3 -- rm -rf d", "chrt 1 rm -rf d", "strace -f rm -rf d", "unshare -r rm -rf d", "script -c 'rm -rf d'", "script -qc'rm -rf d' /dev/null", "setpriv --x rm -rf d",
		"ssh h rm -rf d", "ssh h 'rm -rf d'", "su -c 'rm -rf d'", "su - x -c rm\\ -rf\\ d", "sudo rm -rf d", "doas rm -rf d", "systemd-run rm -rf d", "faketime now rm -rf d",
		"echo d | xargs rm -rf", "echo -rf d | xargs rm", "echo rm -rf d | xargs env", "xargs -I% sh -c 'rm -rf %'", "xargs -a f rm -rf", "xargs --max-args 1 rm -rf", "echo d | parallel rm -rf",
		"find . -exec rm -rf {} +", "find . -exec sh -c 'rm -rf d' ;", "find . -execdir rm -rf d \\;", "find . -ok rm -rf {} ';'", "fd -x rm -rf", "fd --exec=rm -rf",
		"busybox rm -rf d", "busybox sh -c 'rm -rf d'", "toybox rm -rf d", "coreutils --coreutils-prog=rm -rf d", "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf d",
		"eval rm -rf d", "eval 'rm -rf d'", "eval \"$x\"", "eval \"rm -rf $x\"", "eval eval eval rm -rf d", "command rm -rf d", "command -p rm -rf d", "builtin command rm -rf d", "exec rm -rf d", "exec -a x rm -rf d",
		"alias x=rm; x -rf d", "alias x='rm -rf d'\nx", "x() { rm \"$@\"; }; x -rf d", "function x { \"$@\"; }; x rm -rf d", "hash -p /bin/rm x; x -rf d", "enable -f ./x.so x; x", "shopt -s expand_aliases",
		"sh <<'E'\nrm -rf d\nE", "sh <<E\nrm -rf $x\nE", "bash <<<'rm -rf d'", "echo 'rm -rf d' | sh", "sh < f", "bash -s < f", "cat f | bash -", "/opt/bash <<<'rm -rf d'", "./sh -c 'rm -rf d'",
		"bash -c 'rm -rf d'", "bash -lc 'rm -rf d'", "bash -c \"$x\"", "bash -c 'sh -c \"rm -rf d\"'", "dash -c 'rm -rf d'", "zsh -c 'rm -rf d'", "bash -c '$0 $@' rm -rf d", "bash -O extglob -c 'rm -rf d'",
		". f", "source f", ". <(echo rm -rf d)", "bash <(echo rm -rf d)", "trap 'rm -rf d' EXIT", "trap \"$x\" 0", "coproc rm -rf d", "time rm -rf d", "! rm -rf d",
		"(rm -rf d)", "{ rm -rf d; }", "if true; then rm -rf d; fi", "while rm -rf d; do :; done", "case x in x) rm -rf d;; esac", "ls && rm -rf d", "ls & rm -rf d", "ls | rm -rf d", "ls > $(rm -rf d)",
		"echo $(rm -rf d)", "echo \"`rm -rf d`\"", "cat <(rm -rf d)", "[[ -n $(rm -rf d) ]]", "x=$(rm -rf d)", "echo $((`rm -rf d`))", "for x in $(rm -rf d); do :; done",
		"python3 -c 'import os; os.system(\"rm -rf d\")'", "python -Ic 'x'", "echo x | python3", "python3 - <<E\nx\nE", "perl -e 'system \"x\"'", "perl -ne 'x' f", "ruby -e x", "node -e x", "node --eval x",
		"node -p x", "php -r x", "lua -e x", "awk 'BEGIN{system(\"rm -rf d\")}'", "gawk 'BEGIN{\"x\"|getline}'", "sed '1e rm -rf d' f", "sed 's/^/x/e' f", "sed e", "vim -c '!rm -rf d'", "ed", "gdb -ex x",
		"make --eval='x:;rm -rf d' x", "make SHELL=./x", "make -f - <<E\nx\nE", "at now <<<'rm -rf d'", "crontab f", "tmux new 'rm -rf d'",
		"git -c alias.x='!rm -rf d' x", "git config alias.x '!rm -rf d'", "git x", "git submodule foreach 'rm -rf d'", "git submodule foreach rm -rf d", "git bisect run rm -rf d",
		"git rebase -x 'rm -rf d' HEAD~1", "git rebase --exec='rm -rf d'", "git difftool -x 'rm -rf d'", "git filter-branch --tree-filter 'rm -rf d'", "GIT_SSH_COMMAND='rm -rf d' git fetch",
		"GIT_EXTERNAL_DIFF=x git diff", "PAGER='rm -rf d' git log", "EDITOR='rm -rf d' git commit", "X='rm -rf d' foo", "export PAGER='rm -rf d'; git log", "export GIT_SSH=x", "BASH_ENV=f bash -c ls",
		"env 'BASH_FUNC_ls%%=() { rm -rf d; }' bash -c ls", "PATH=.:$PATH ls", "export PATH=.", "PATH=.; ls", "declare -n x=y", "declare -f x",
		"tar xf a --to-command='rm -rf d'", "tar cf a --checkpoint=1 --checkpoint-action=exec='rm -rf d' x", "rsync -e 'rm -rf d' a b", "mapfile -C 'rm -rf d' -c 1 x", "compgen -C 'rm -rf d'",
		"foo rm -rf d", "foo bar 'rm -rf d'", "foo --x='rm -rf d'", "foo \"bar 'rm -rf d'\"", "foo -- sh -c 'rm -rf d'", "docker run x rm -rf d", "npx rm -rf d", "kubectl exec x -- rm -rf d",
		"rm -rf d; (", "rm -rf d\x01", "echo \xff; rm -rf d", "fc -s", "strace -o /dev/null sh -c 'true; rm -rf d'", strings.Repeat("rm ", 90) + "-rf d", "foo " + strings.Repeat("rm ", 90) + "-rf d",
		"foo" + strings.Repeat(" 'a b'", 150) + " 'rm -rf d'", strings.Repeat("sh -c ", 70) + "x",
		strings.Repeat("(", 100) + "rm -rf d" + strings.Repeat(")", 100), "echo " + strings.Repeat("x", 40_000) + "; rm -rf d",
	}
	for _, line := range removes {
		for _, other := range []string{"yes default", "ask default", "ask other", "yes <build>", "yes *"} {
			if got := verdict(line, parseRules(other, "no rm -rf")); !strings.HasPrefix(got, "no ") {
				t.Errorf("%.80q with %s: got %s", line, other, got)
			}
			if got := verdict(line, parseRules("yes default"), parseRules(other, "no rm -rf")); !strings.HasPrefix(got, "no ") {
				t.Errorf("%.80q with %s in the second layer: got %s", line, other, got)
			}
		}
	}
}

// TestBlockedSubcommands checks that rules for subcommands and options block every spelling of them.
func TestBlockedSubcommands(t *testing.T) {
	for pattern, lines := range map[string][]string{
		"git push": {"git push", "git-push", "/usr/lib/git-core/git-push x", "git -C x push", "git -c a=b push", "git --git-dir x push", "git --no-pager push", "git $x", "git \"$x\" origin", "git p",
			"git -C $x push", "git -C \"$x\" push", "git send-pack x", "git -c alias.p=push p", "git config alias.p push; git p", "env git-push", "flock x git push", "xargs git push", "echo push | xargs git",
			"timeout 1 git -C x push", "git {push,origin}", "git pus?", "git --x=y push", "sh -c 'git push'", "foo git -C x push", "foo 'git -C x push'", "foo git-push"},
		"git push --force": {"git push --force", "git push -f", "git push origin -fu main", "git push --forc", "git push origin +main", "git push $x", "git-push -f", "git -C x push -f", "git push origin \"$x\""},
		"git push -f":      {"git push --force", "git push -uf x", "git push origin +x:y"},
		"chmod -R":         {"chmod --recursive 7 x", "chmod -vR 7 x", "chmod -r x"},
		"npm install -g":   {"npm install --global x", "npm -g install x", "npm install x --location=global", "npm --prefix \"$x\" install -g y"},
		"curl -X":          {"curl --request POST x", "curl -sX POST x", "curl -sXPOST x"},
		"kill -9":          {"kill -KILL 1", "kill -s KILL 1", "kill -SIGKILL 1", "kill --signal=9 1"},
		"foo -q":           {"foo --quiet", "foo -xq", "foo \"$x\"", "foo --Q=1"},
		"foo --quiet":      {"foo -q", "foo --qui", "foo -xq", "foo --quiet=1", "foo $x"},
		"docker rm":        {"docker rm x", "docker --context y rm x", "docker $x"},
		"rm":               {"rm", "rm x", "cp /bin/rm x; ./x y", "ln -s $(which rm) x; foo /bin/rm"},
	} {
		for _, line := range lines {
			if got := verdict(line, parseRules("yes default", "no "+pattern)); got != "no "+pattern {
				t.Errorf("%q with %s blocked: got %s", line, pattern, got)
			}
		}
	}
}

// TestOthersPass checks that blocking rules do not stop ordinary commands.
func TestOthersPass(t *testing.T) {
	rules := parseRules("yes default", "no rm -rf", "no git push --force", "no git push", "no npm publish")
	for _, line := range []string{
		"ls -la", "rm x", "rm -f x", "rm -r x", "git status", "git log $branch", "git log --oneline \"$x\"..HEAD", "git -C \"$d\" log", "git -C \"$d\" status", "git rm -rf d", "git commit -m 'rm -rf d and git push'",
		"echo rm -rf d", "echo 'rm -rf d; git push' > notes", "grep -rn 'rm -rf' .", "cat x | grep rm", "man rm", "which rm", "export CI=1; npm test", "FOO=1; make", "CI=1 npm test", "x=1; echo $x",
		"for f in *.go; do gofmt -l \"$f\"; done", "npm install --save-dev x", "npm run build", "npm test -- --watch=false", "make -j4 test", "go test ./... -run 'TestA|TestB'", "python3 x.py \"$y\"", "python3 -m pytest -k 'a and b'",
		"python3 --version", "cargo build --release", "find . -name '*.o' -exec rm {} +", "sed -i 's/a/b/g' x", "sed -n '1,5p' x", "awk '{print $1}' x", "tar xzf a.tgz -C d", "curl -s https://example.com -o x", "./run.sh", "bash x.sh",
		"mkdir -p a/b && cp -r c a/b", "git fetch origin && git rebase origin/main", "git lfs pull", "docker compose up -d", "git stash; git checkout -b x; git stash pop", "timeout 60 go test ./...", "declare -x A=1", "local=1",
		"git log --format='%h rm -rf'", "docker rm x", "sh -c 'ls; pwd'", "xargs -n1 ls < x", "printf '%s\\n' \"$x\"", "cd \"$d\" && ls", "test -f x && cat x", "ls $(dirname \"$x\")", "node server.js --port 3000", "perl x.pl",
	} {
		if got := verdict(line, rules); !strings.HasPrefix(got, "yes") {
			j := NewRules(policy.Shell{Layers: []policy.ShellLayer{rules}}).Judge(line)
			t.Errorf("%q: got %s: %s", line, got, j.Verdicts[max(0, j.Decides())].Why)
		}
	}
	// The user's own rule allows code that golem cannot read; a default does not.
	for rule, want := range map[string]string{"yes python3 -c": "yes python3 -c", "yes python3": "yes python3", "ask python3 -c": "ask python3 -c", "yes other": "no rm", "yes *": "no rm"} {
		if got := verdict("python3 -c 'print(1)'", parseRules(rule, "no rm")); got != want {
			t.Errorf("%s: got %s, want %s", rule, got, want)
		}
	}
	// Without a blocking rule such lines stay allowed.
	for _, line := range []string{"$x y", "python3 -c 'print(1)'", "sh < f", "git x", strings.Repeat("true;", 2000) + "rm -rf d"} {
		if got := verdict(line, parseRules("yes default")); got != "yes default" {
			t.Errorf("%.40q: got %s", line, got)
		}
	}
}

// TestJudging checks that no line takes longer than three seconds to judge.
func TestJudging(t *testing.T) {
	rules := parseRules("yes default", "no rm -rf", "no git push --force")
	for _, word := range []string{"rm ", "'a b' ", "git-", "x=y=z ", "-a'b c' ", "\"sh -c 'x y'\" ", "$x ", "foo 'foo x';"} {
		line := "foo " + strings.Repeat(word, maxLine/len(word)-4)
		start := time.Now()
		verdict(line, rules)
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%q: %v", word, took)
		}
	}
}

package main

// everydayWork are the commands that TestEverydayWork runs.
var everydayWork = []everyday{
	// Files, processes and the shell.
	{name: "coreutils, find, sed, awk", script: `printf 'b\na\n' >x; sort x | sed s/a/c/ | awk '{print NR $0}' >y; find . -name y | xargs wc -l; du -s . >/dev/null; stat -c %s y; sha256sum y | cut -c1-8`, want: "./y"},
	{name: "diff and patch", programs: []string{"patch"}, script: `echo a >x; echo b >y; diff -u x y >p || true; patch -s x p; cat x`, want: "b", landlock: noModes},
	{name: "tar, gzip, xz", programs: []string{"tar", "xz"}, script: `mkdir d; echo a >d/a; tar czf d.tgz d; tar cJf d.txz d; rm -r d; tar xzf d.tgz; tar xJf d.txz; cat d/a`, want: "a", landlock: noModes},
	{name: "zip and unzip", programs: []string{"zip", "unzip"}, script: `echo zipped >a; zip -q a.zip a; rm a; unzip -q a.zip; cat a`, want: "zipped"},
	{name: "rsync between directories", programs: []string{"rsync"}, script: `mkdir d; echo copied >d/a; rsync -a d/ e/; cat e/a`, want: "copied", landlock: noModes},
	{name: "chmod +x and running the file", script: `printf '#!/bin/sh\necho started\n' >x; chmod +x x; ./x`, want: "started", landlock: noModes},
	{name: "pipes by name (mkfifo)", script: `mkfifo p; (echo through >p &); cat p`, want: "through"},
	{name: "background jobs, signals, timeout", script: `sleep 100 & kill $!; wait || true; timeout 0.2 sleep 5 || echo late; trap 'echo caught' TERM; kill -TERM $$; echo on`, want: "caught"},
	{name: "file locks (flock)", programs: []string{"flock"}, script: `flock lock sh -c 'flock -n lock true || echo held'`, want: "held"},
	{name: "inotifywait", programs: []string{"inotifywait"}, script: `mkdir d; (sleep 0.3; touch d/new) & inotifywait -q -t 20 -e create d`, want: "new", landlock: noInotify},
	{name: "nohup and setsid", programs: []string{"setsid"}, script: `setsid -w sh -c 'echo apart >x'; nohup sh -c 'echo more >>x' >/dev/null 2>&1; cat x`, want: "apart\nmore"},
	{name: "ps, free, uptime", programs: []string{"ps", "free", "uptime"}, script: `ps -ef | grep -c everyday.sh; free -m | head -2; uptime; nproc`, want: "Mem:", landlock: noProc},
	{name: "ip addr", programs: []string{"ip"}, script: `ip addr`, want: "127.0.0.1/8", landlock: noLoopback},
	{name: "jq", programs: []string{"jq"}, script: `echo '{"a":["x","y"]}' | jq -c '.a|reverse'`, want: `["y","x"]`},
	{name: "vim in a script", programs: []string{"vim"}, script: `echo a >x; vim -es -u NONE x -c '%s/a/edited/' -c wq; cat x`, want: "edited"},
	{name: "user, locale and time zone", script: `id -u; TZ=Europe/Berlin date -d @0 +%H; locale | head -1`, want: "01\nLANG=C.UTF-8"},
	{name: "openssl: key, certificate, check", programs: []string{"openssl"}, script: `openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -subj /CN=x -days 1 2>/dev/null; openssl verify -CAfile c c`, want: "c: OK"},
	{name: "writing `/tmp` and `/dev/shm`", script: `echo kept >/tmp/a; echo too >/dev/shm/b; cat /tmp/a /dev/shm/b`, want: "kept\ntoo", landlock: noTemp},

	// Git.
	{name: "git commit, diff, log in a repository", programs: []string{"git"}, before: gitSetup, script: `echo 2 >f; git diff --stat; git commit -qam two; git log --format=%s`, want: "two\none"},
	{name: "git init, branch, merge", programs: []string{"git"}, script: gitSetup + `git checkout -qb b; echo 2 >f; git commit -qam two; git checkout -q -; git merge -q b; git log --oneline | wc -l`, want: "2", landlock: noModes},
	{name: "git rebase", programs: []string{"git"}, before: gitSetup, script: `git checkout -qb b; echo 2 >g; git add g; git commit -qm two; git checkout -q main; echo 3 >h; git add h; git commit -qm three; git checkout -q b; git rebase -q main; git log --format=%s`, want: "two\nthree\none"},
	{name: "git stash, cherry-pick, tag", programs: []string{"git"}, before: gitSetup, script: `echo second >f; git stash -q; git stash pop -q; git commit -qam two; git tag v1; git checkout -qb b HEAD~1; git cherry-pick v1 >/dev/null; cat f`, want: "second"},
	{name: "git mv of a directory, and Python's os.rename", programs: []string{"git", "python3"}, before: gitSetup + `mkdir -p src/sub; echo a >src/sub/a; git add src; git commit -qm two; `, script: `git mv src lib; python3 -c 'import os; os.rename("lib/sub", "lib/part"); os.rename("lib", "src")'; git add -A; git status --short; cat src/part/a`, want: "R  src/sub/a -> src/part/a\na", container: "a directory that was there before cannot be moved, only copied"},
	{name: "git bisect run", programs: []string{"git"}, before: gitSetup, script: `for i in 2 3 4 5; do echo $i >f; git commit -qam $i; done; git bisect start HEAD HEAD~4 >/dev/null; git bisect run sh -c 'test $(cat f) -lt 4' | grep 'first bad'`, want: "is the first bad commit"},
	{name: "git worktree add", programs: []string{"git"}, before: gitSetup, script: `git worktree add -q w -b w; cd w; echo 2 >f; git commit -qam two; git log --format=%s`, want: "two\none"},
	{name: "git clone --no-hardlinks, push, fetch between directories", programs: []string{"git"}, before: gitSetup, script: `git clone -q --no-hardlinks --bare . origin.git; git clone -q --no-hardlinks origin.git c; cd c; git config user.name a; git config user.email a@example.com; echo 2 >f; git commit -qam two; git push -q; git fetch -q; git status -sb`, want: "## main...origin/main", landlock: noModes},
	{name: "git submodule", programs: []string{"git"}, before: gitSetup + `git clone -q . up; `, script: `git -c protocol.file.allow=always submodule --quiet add file://$PWD/up sub; git commit -qm sub; cat sub/f; git submodule status`, want: " sub ", landlock: noModes},
	{name: "git hooks", programs: []string{"git"}, before: gitSetup + `printf '#!/bin/sh\necho hooked\n' >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit; `, script: `echo 2 >f; git commit -am two 2>&1`, want: "hooked"},
	{name: "git in a worktree of a repository outside", programs: []string{"git"}, before: `mkdir .main; cd .main; ` + gitSetup + `git worktree add -q ../w; cd ..; mv .main $HOME/main; git -C $HOME/main worktree repair "$PWD/w" 2>/dev/null; `, in: "w", script: `git log --format=%s; git commit -q --allow-empty -m two; git status -sb`, want: "## w", landlock: "no file can stand for another"},

	// C and C++.
	{name: "gcc", programs: []string{"gcc"}, script: cProgram + `gcc -O1 -o a a.c; ./a`, want: "hello", landlock: noModes},
	{name: "make -j", programs: []string{"gcc", "make"}, script: cProgram + `printf 'all: a.o b.o\n%%.o: %%.c\n\tgcc -c -o $@ $<\n' >Makefile; cp a.c b.c; make -s -j2; ls *.o`, want: "a.o\nb.o"},
	{name: "cmake, ninja, ctest", programs: []string{"cmake", "ninja", "gcc"}, slow: true, script: cProgram + `printf 'cmake_minimum_required(VERSION 3.10)\nproject(a C)\nadd_executable(a a.c)\nenable_testing()\nadd_test(a a)\n' >CMakeLists.txt; cmake -G Ninja -B b . >/dev/null; ninja -C b >/dev/null; cd b; ctest`, want: "100% tests passed", landlock: noModes},
	{name: "autoconf and ./configure", programs: []string{"autoconf", "gcc"}, slow: true, script: cProgram + `printf 'AC_INIT([a],[1])\nAC_PROG_CC\nAC_CONFIG_FILES([m])\nAC_OUTPUT\n' >configure.ac; echo '@CC@' >m.in; autoconf; sh ./configure >/dev/null; cat m`, want: "gcc", landlock: noModes},
	{name: "ccache", programs: []string{"ccache", "gcc"}, script: cProgram + `ccache gcc -c a.c; rm a.o; ccache gcc -c a.c; ccache -s | grep -i hits | head -1`, want: "1 /"},
	{name: "gdb", programs: []string{"gdb", "gcc"}, slow: true, script: cProgram + `gcc -g -o a a.c; gdb -q -batch -ex 'break main' -ex run -ex bt ./a 2>&1`, want: "#0  main ()", landlock: noTrace},
	{name: "strace", programs: []string{"strace"}, script: `strace -f -o log sh -c 'echo traced; true'; grep -c write log`, want: "traced", landlock: noTrace},
	{name: "AddressSanitizer", programs: []string{"gcc"}, script: cProgram + `gcc -fsanitize=address -o a a.c; ASAN_OPTIONS=detect_leaks=0 ./a`, want: "hello", landlock: noModes},
	{name: "valgrind", programs: []string{"valgrind", "gcc"}, slow: true, script: cProgram + `gcc -o a a.c; valgrind -q --error-exitcode=9 ./a`, want: "hello", landlock: noProc},
	{name: "clangd (language server)", programs: []string{"clangd"}, slow: true, script: cProgram + `clangd --check=a.c 2>&1 | tail -1`, want: "All checks completed"},

	// Go.
	{name: "go build, go vet, go test", programs: []string{"go"}, slow: true, script: goModule + `go build -o a .; ./a; go vet ./...; go test ./...`, want: "ok  \ta"},
	{name: "gofmt", programs: []string{"gofmt"}, script: `printf 'package  a\n' >a.go; gofmt -l .; gofmt -w a.go; cat a.go`, want: "a.go\npackage a"},
	{name: "go test -race", programs: []string{"go", "gcc"}, slow: true, script: goModule + `CGO_ENABLED=1 go test -race ./...`, want: "ok  \ta"},
	{name: "go get of a module", programs: []string{"go"}, slow: true, profile: "go", net: true, script: goModule + `go get golang.org/x/text@v0.14.0; go list -m all`, want: "golang.org/x/text v0.14.0"},
	{name: "gopls (language server)", programs: []string{"gopls", "go"}, slow: true, script: goModule + `gopls symbols a.go`, want: "main Function"},

	// Python.
	{name: "python3 with subprocesses", programs: []string{"python3"}, script: `python3 -c 'import json, ssl, sqlite3, subprocess; print(subprocess.run(["echo", "ran"], capture_output=True).stdout)'`, want: "b'ran"},
	{name: "python venv and pip install", programs: []string{"python3", "/usr/lib/python3/dist-packages/setuptools/__init__.py"}, slow: true, script: `mkdir p; printf 'from setuptools import setup\nsetup(name="p", version="1", py_modules=["pm"])\n' >p/setup.py; echo 'x = "packed"' >p/pm.py; python3 -m venv --system-site-packages v; v/bin/pip install -q --no-build-isolation --no-index ./p; v/bin/python -c 'import pm; print(pm.x)'`, want: "packed", landlock: noModes},
	{name: "pytest", programs: []string{"pytest-3"}, script: `printf 'def test_a(tmp_path):\n    (tmp_path / "x").write_text("a")\n' >test_a.py; pytest-3 -q`, want: "1 passed"},
	{name: "python multiprocessing.Pool", programs: []string{"python3"}, script: "cat >m.py <<'E'\n" + `import multiprocessing as m
def f(x): return x * x
if __name__ == "__main__":
    with m.Pool(2) as p: print(sum(p.map(f, range(10))))
` + "E\npython3 m.py", want: "285", landlock: noShm},
	{name: "python multiprocessing.Manager", programs: []string{"python3"}, script: "cat >m.py <<'E'\n" + `import multiprocessing as m
def f(d): d["a"] = "managed"
if __name__ == "__main__":
    with m.Manager() as g:
        d = g.dict(); p = m.Process(target=f, args=(d,)); p.start(); p.join(); print(d["a"])
` + "E\npython3 m.py", want: "managed", landlock: noSockets},
	{name: "python shared_memory", programs: []string{"python3"}, script: `python3 -c 'from multiprocessing import shared_memory as s; m = s.SharedMemory(create=True, size=1 << 20); m.buf[0] = 7; print("shared", m.buf[0]); m.close(); m.unlink()'`, want: "shared 7", landlock: noShm},
	{name: "python asyncio with a unix socket", programs: []string{"python3"}, script: "cat >m.py <<'E'\n" + `import asyncio
async def main():
    async def serve(r, w): w.write(b"served"); await w.drain(); w.close()
    await asyncio.start_unix_server(serve, "s.sock")
    r, w = await asyncio.open_unix_connection("s.sock"); print(await r.read())
asyncio.run(main())
` + "E\npython3 m.py", want: "served", landlock: noSockets},

	// JavaScript.
	{name: "node with child processes", programs: []string{"node"}, script: `node -e 'console.log(require("child_process").execSync("echo ran").toString())'`, want: "ran"},
	{name: "node os.networkInterfaces", programs: []string{"node"}, script: `node -p 'require("os").networkInterfaces().lo[0].address'`, want: "127.0.0.1", landlock: noLoopback},
	{name: "node --test", programs: []string{"node"}, script: `printf 'const t = require("node:test"); t("a", () => {});\n' >a.test.js; node --test a.test.js`, want: "pass 1"},
	{name: "node worker_threads", programs: []string{"node"}, script: `node -e 'const {Worker} = require("worker_threads"); new Worker("require(\"worker_threads\").parentPort.postMessage(\"worked\")", {eval: true}).on("message", console.log)'`, want: "worked"},
	{name: "node cluster", programs: []string{"node"}, script: "cat >m.js <<'E'\n" + `const c = require("cluster"), h = require("http");
if (c.isPrimary) { const w = c.fork(); c.on("listening", (_, a) => h.get({port: a.port, host: "127.0.0.1"}, r => r.on("data", d => { console.log("" + d); w.kill(); process.exit() }))) }
else h.createServer((_, r) => r.end("clustered")).listen(0, "127.0.0.1");
` + "E\ntimeout 30 node m.js", want: "clustered", landlock: noLoopback},
	{name: "node fs.watch", programs: []string{"node"}, script: `timeout 20 node -e 'const fs = require("fs"); fs.watch(".", (_, name) => { if (name == "new") { console.log("saw new"); process.exit() } }); setTimeout(() => fs.writeFileSync("new", ""), 100)'`, want: "saw new", landlock: noInotify},
	{name: "npm run", programs: []string{"npm"}, slow: true, script: `printf '{"name":"a","version":"1.0.0","scripts":{"test":"echo tested"}}' >package.json; npm test --silent`, want: "tested"},
	{name: "npm install of a local package", programs: []string{"npm"}, slow: true, script: `mkdir p; printf '{"name":"p","version":"1.0.0","main":"i.js"}' >p/package.json; echo 'module.exports="local"' >p/i.js; printf '{"name":"a","version":"1.0.0"}' >package.json; npm install --silent --offline --no-audit --no-fund ./p; node -p 'require("p")'`, want: "local"},
	{name: "TypeScript from npm", programs: []string{"npm"}, slow: true, profile: "node", net: true, script: `printf '{"name":"a","version":"1.0.0"}' >package.json; npm install --silent --no-audit --no-fund typescript@5; echo 'const x: number = 7; console.log("typed", x);' >a.ts; node_modules/.bin/tsc a.ts; node a.js`, want: "typed 7", landlock: noModes},
	{name: "vite build from npm", programs: []string{"npm"}, slow: true, profile: "node", net: true, script: `printf '{"name":"a","version":"1.0.0","type":"module"}' >package.json; npm install --silent --no-audit --no-fund vite@5; echo '<script type=module src=/m.js></script>' >index.html; echo 'document.title = "built"' >m.js; node_modules/.bin/vite build; cat dist/assets/*.js`, want: `title="built"`, landlock: noModes},

	// Servers and databases.
	{name: "python http.server and curl", programs: []string{"python3", "curl"}, script: `echo page >index.html; python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & ` + try + `curl -s http://127.0.0.1:8123/; do ` + pause + `done; kill $!`, want: "page", landlock: noLoopback},
	{name: "SQLite", programs: []string{"sqlite3"}, script: `sqlite3 d.db 'create table t(a); insert into t values(42); pragma journal_mode=wal; select a from t;'`, want: "wal\n42"},
	{name: "Redis on TCP and on a socket", programs: []string{"redis-server"}, script: `redis-server --port 6390 --unixsocket /tmp/r.sock --daemonize no >/dev/null & ` + try + `redis-cli -s /tmp/r.sock set a stored 2>/dev/null; do ` + pause + `done; redis-cli -p 6390 get a; redis-cli -p 6390 shutdown nosave`, want: "stored", landlock: noSockets},
	{name: "PostgreSQL with a socket", programs: []string{"psql"}, slow: true, script: `b=$(ls -d /usr/lib/postgresql/*/bin | tail -1); export PGDATA=$HOME/pg; $b/initdb -A trust >/dev/null; $b/pg_ctl -w -o '-c listen_addresses=' -l log start >/dev/null; psql -d postgres -Atc 'select 40+2'; $b/pg_ctl -m fast stop >/dev/null`, want: "42", landlock: noSockets, root: "PostgreSQL refuses to run as root"},
	{name: "D-Bus (a session bus of its own)", programs: []string{"dbus-run-session", "dbus-send"}, script: `dbus-run-session -- dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.ListNames 2>/dev/null`, want: "org.freedesktop.DBus", landlock: noSockets},

	// Browsers and graphics.
	{name: "Chromium: a page and a screenshot", programs: []string{"chromium"}, slow: true, script: `echo '<h1>drawn</h1>' >p.html; chromium --headless --no-sandbox --disable-gpu --dump-dom file://$PWD/p.html 2>err; chromium --headless --no-sandbox --disable-gpu --screenshot=p.png file://$PWD/p.html 2>err; head -c 4 p.png | tail -c 3`, want: "drawn</h1>\n</body></html>\nPNG", landlock: noSockets},
	{name: "Playwright from npm with Debian's Chromium", programs: []string{"npm", "chromium"}, slow: true, profile: "node", net: true, script: `printf '{"name":"a","version":"1.0.0"}' >package.json; npm install --silent --no-audit --no-fund playwright-core@1; cat >p.js <<'E'
const {chromium} = require('playwright-core');
(async () => {
  const browser = await chromium.launch({executablePath: '/usr/bin/chromium'});
  const page = await browser.newPage();
  await page.setContent('<button onclick="this.textContent = 1 + 1">press</button>');
  await page.click('button');
  await page.screenshot({path: 'p.png'});
  console.log('pressed', await page.textContent('button'));
  await browser.close();
})();
E
node p.js`, want: "pressed 2", landlock: noModes + ", " + noSockets},
	{name: "a web project: npm test with Playwright, Chromium, a server and PostgreSQL", programs: []string{"npm", "chromium", "psql"}, files: "web", slow: true, net: true, command: []string{"npm", "test"}, want: "2 passed", landlock: noModes + ", " + noSockets, root: "PostgreSQL refuses to run as root"},
	{name: "Xvfb and an X client", programs: []string{"Xvfb", "xdpyinfo"}, slow: true, script: `Xvfb :7 -screen 0 640x480x24 -nolisten tcp >/dev/null 2>&1 & ` + try + `DISPLAY=:7 xdpyinfo 2>/dev/null | grep dimensions; do ` + pause + `done; kill $!`, want: "640x480", landlock: noSockets},
	{name: "fontconfig", programs: []string{"fc-list", "fc-match"}, script: `fc-list >/dev/null; fc-match sans`, want: `"`},
	{name: "ImageMagick", programs: []string{"convert", "identify"}, script: `convert -size 9x7 xc:red a.png; identify a.png`, want: "PNG 9x7"},

	// Terminals and keys.
	{name: "tmux", programs: []string{"tmux"}, script: `tmux -f /dev/null new-session -d -s a 'echo inside; sleep 30'; ` + try + `tmux capture-pane -p -t a | grep inside; do ` + pause + `done; tmux kill-server`, want: "inside", landlock: noSockets},
	{name: "script (a terminal of its own)", programs: []string{"script"}, script: `script -qec 'tty && echo typed' /dev/null`, want: "typed", landlock: noTerminal},
	{name: "gpg: make a key, sign, verify", programs: []string{"gpg"}, script: `gpg --batch --quiet --passphrase '' --quick-gen-key a@example.com ed25519 default never 2>/dev/null; echo a >x; gpg --batch --quiet --detach-sign x; gpg --verify x.sig x 2>&1; gpgconf --kill gpg-agent`, want: "Good signature", landlock: noSockets},
	{name: "ssh-keygen and ssh-agent", programs: []string{"ssh-agent"}, script: `ssh-keygen -q -t ed25519 -N '' -f k; eval $(ssh-agent) >/dev/null; ssh-add -q k; ssh-add -l; ssh-agent -k >/dev/null`, want: "ED25519", landlock: noSockets},

	// Other languages.
	{name: "perl and prove", programs: []string{"perl", "prove"}, script: `printf 'use Test::More tests => 1; ok(1);\n' >a.t; prove a.t`, want: "All tests successful"},
	{name: "java and javac", programs: []string{"java", "javac"}, slow: true, script: `echo 'class A { public static void main(String[] a) { System.out.println("javaed"); } }' >A.java; javac A.java; java A`, want: "javaed"},
	{name: "cargo build and test", programs: []string{"/usr/bin/cargo"}, slow: true, script: `mkdir src; printf '[package]\nname="a"\nversion="0.1.0"\n' >Cargo.toml; printf 'fn main() { println!("rusted") }\n#[test]\nfn t() {}\n' >src/main.rs; cargo run -q; cargo test -q`, want: "rusted", landlock: noModes},
	{name: "ruby", programs: []string{"ruby"}, script: `ruby -e 'puts "rubied"; Process.wait(fork { exit })'`, want: "rubied"},
	{name: "php", programs: []string{"php"}, script: `php -r 'echo "phped\n";'`, want: "phped"},
	{name: "lua", programs: []string{"lua"}, script: `lua -e 'print("luaed")'`, want: "luaed"},
	{name: "shellcheck", programs: []string{"shellcheck"}, script: `printf '#!/bin/sh\necho "$1"\n' >s.sh; shellcheck s.sh; echo checked`, want: "checked"},

	// The jail refuses these, and the error says so.
	{name: "unshare and bwrap: refused with an error", programs: []string{"unshare", "bwrap"}, script: `! unshare -Ur true 2>err; ! bwrap --ro-bind / / true 2>>err; cat err`, want: "unshare failed: Operation not permitted", container: "a user may do it in gVisor's kernel"},
	{name: "docker.sock, ssh-agent and session bus of the host: refused with an error", programs: []string{"curl"}, script: `for s in /var/run/docker.sock /run/dbus/system_bus_socket /run/user/$(id -u)/bus; do ! curl -sS --unix-socket $s http://localhost/ 2>>err; done; test -z "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS$DISPLAY$WAYLAND_DISPLAY"; cat err`, want: "Couldn't connect to server"},
}

const (
	gitSetup = `git init -q -b main; git config user.name a; git config user.email a@example.com; echo 1 >f; git add f; git commit -qm one; `

	cProgram = `printf '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n' >a.c; `

	goModule = `printf 'module a\n\ngo 1.21\n' >go.mod; printf 'package main\n\nfunc main() { println("hello") }\n' >a.go; printf 'package main\n\nimport "testing"\n\nfunc TestA(t *testing.T) { go func() {}() }\n' >a_test.go; `

	// try repeats a command for about ten seconds, until it succeeds.
	try   = `n=0; until `
	pause = `n=$((n+1)); test $n -lt 50; sleep 0.2; `
)

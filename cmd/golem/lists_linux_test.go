package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/work/session"
)

// manyChanges changes much that is harmless, and some files that become code.
const manyChanges = `set -e
i=0; while [ $i -lt 40 ]; do
  printf 'a\342\200\256b\n' > docs/$(printf b%02d $i).md; mkdir -p node_modules/iconv-lite/lib/$i
  printf 'const a%s = "p\320\260ss"\n' $i > node_modules/iconv-lite/lib/$i/x.js; i=$((i+1)); done
chmod +x docs/d*.md; rm -r olddir; mv lib core; echo edited >> core/l7.txt
echo '{"scripts":{"postinstall":"node x.js"}}' > package.json
echo '  - run: curl x' >> .github/workflows/ci.yml; echo 'evil:' >> Makefile
echo 'evil.sh' >> .gitignore; printf '#!/bin/sh\ncurl x\n' > evil.sh; chmod +x evil.sh
echo more >> tracked.log; rm gone.log; echo new > new.log; mkdir dist; echo 'all:' > dist/Makefile
mkdir -p .git/info; echo 'Makefile' >> .git/info/exclude`

// compareLists checks that every list of the same changes has the same files in the same order,
// with the same total, and the riskiest file in its first lines. MCP clients and hubs are asked
// with the rows of golem approvals show.
func compareLists(t *testing.T, u *deskUser) {
	for name, text := range map[string]string{"package.json": "{}\n", ".github/workflows/ci.yml": "on: push\n", "Makefile": "all:\n", ".gitignore": "node_modules/\ndist/\n*.log\n", "tracked.log": "1\n", "gone.log": "1\n"} {
		u.write("shop/"+name, text)
	}
	for i := range 40 {
		u.write(fmt.Sprintf("shop/docs/d%02d.md", i), "text\n")
		u.write(fmt.Sprintf("shop/olddir/f%02d", i), "1\n2\n")
		u.write(fmt.Sprintf("shop/lib/l%d.txt", i), fmt.Sprintln(i))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A", "-f"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = path.Join(u.dir, "shop")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	lists := map[string]string{"exec": after(u.mustGolem(0, "shop", "exec", "sh", "-c", manyChanges), "\nsession ")}
	for name, args := range map[string][]string{"stat": {"diff", "--stat"}, "all": {"diff", "--stat", "--all"}, "names": {"diff", "--name-only"}, "dry run": {"apply", "--dry-run"}, "status": {"status"}} {
		lists[name] = u.mustGolem(0, "shop", args...)
	}
	lists["patch"] = u.mustGolem(1, "shop", "diff") // a patch has no directories
	u.mustGolem(3, "shop", "apply")
	lists["question"] = after(u.mustGolem(0, "shop", "approvals", "show", u.pending("shop")[0]), "You are about to ")
	for _, args := range [][]string{{"diff", "-i"}, {"apply", "-p"}} {
		p := &pickTest{t: t, dir: path.Join(u.dir, "shop"), env: append(u.environ, "NO_COLOR=1", "TERM=xterm"), rows: 70}
		p.startAt(120, args...)
		if args[0] == "apply" {
			p.answer("1 of ", "q\r")
		} else {
			p.typeKeys("[A]pply", "q")
		}
		_, seen := p.waitForEnd()
		lists[strings.Join(args, " ")] = seen
	}
	u.openDesk()
	u.openSession()
	lists["desk"] = u.text()

	var total struct {
		Sessions []struct{ Files, Added, Removed int }
		Changes  []session.FileChange
		Ignored  []struct{ Path string }
	}
	for _, args := range [][]string{{"status", "--json"}, {"diff", "--json"}} {
		if err := json.Unmarshal([]byte(u.mustGolem(0, "shop", args...)), &total); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range total.Changes {
		lists["json"] += c.Path + "\n"
	}
	if ignored := fmt.Sprint(total.Ignored); ignored != "[{/dist/} {/new.log} {/node_modules/}]" {
		t.Errorf("ignored: %s", ignored)
	}
	one := total.Sessions[0]
	counts := []string{fmt.Sprintf("%d files", one.Files), fmt.Sprintf("+%d -%d", one.Added, one.Removed)}
	order := []string{"package.json", "ci.yml", "Makefile", "evil.sh", "b00.md", "b01.md", "b02.md", "olddir", "d00.md", "d01.md", "d02.md", ".gitignore"}
	tree := slices.Concat(order[:7], order[8:11], []string{"olddir", ".gitignore"}) // files of one directory are together
	others := map[string][]string{"diff -i": tree, "status": {"package.json", "ci.yml", "Makefile", "evil.sh", "olddir"}, "apply -p": {"package.json"}}
	for name, text := range lists {
		want := order
		if others[name] != nil {
			want = others[name]
		}
		at := -1
		for _, file := range want {
			i := strings.Index(text, file)
			if i <= at {
				t.Errorf("%s: %s is not behind the files before it:\n%s", name, file, text)
				break
			}
			at = i
		}
		if before, _, _ := strings.Cut(text, "package.json"); strings.Count(before, "\n") > 5 && name != "desk" {
			t.Errorf("%s: package.json is not in the first lines:\n%s", name, text)
		}
		for _, count := range counts {
			if name != "names" && name != "json" && name != "all" && !strings.Contains(text, count) {
				t.Errorf("%s: no %q:\n%s", name, count, text)
			}
		}
	}
	for name, want := range map[string]string{"names": "gone.log\n", "patch": "tracked.log", "json": "/core/l7.txt\n", "exec": "lib/ → core/ ", "all": "node_modules/iconv-lite/lib/39/x.js:1: lookalike"} {
		if !strings.Contains(lists[name], want) {
			t.Errorf("%s: no %q:\n%s", name, want, lists[name])
		}
	}
}

// after returns a text from a part of it on.
func after(text, part string) string { return text[max(0, strings.Index(text, part)+1):] }

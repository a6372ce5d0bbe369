package command_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/decide/command"
	"github.com/golem-forge/golem/internal/decide/policy"
)

// TestOnlyReads: a line that changes a file, or what the next command starts with, does
// more than read.
func TestOnlyReads(t *testing.T) {
	for line, want := range map[string]bool{
		"ls": true, "cat a | grep b": true, "git status && git log -3": true, "find . -name '*.go'": true, "ls 2>/dev/null": true, "wc -l $(git ls-files)": true,
		"": false, "cd src": false, "cd src && ls": false, "ls > list": false, "cat a >> b": false, "make": false, "X=1": false, "X=1 ls": false,
		"export X=1": false, "find . -delete": false, "sed -i s/a/b/ f": false, "ls; touch a": false, "bash x.sh": false, "read X": false, "set -e": false,
	} {
		if got := command.OnlyReads(line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

// TestBuildRunsTheTree checks that the set build allows the code in the tree, and no code,
// settings, plugins or programs that the line itself names.
func TestBuildRunsTheTree(t *testing.T) {
	rule := policy.ShellRule{Use: "build", Approval: policy.PreApproved}
	for line, want := range map[string]bool{
		"make": true, "make -j4 test": true, "make -C src all": true, "make -f -": false, "make -f x.mk": false, "make --file=-": false, "make SHELL=/bin/evil": false, "make CC='sh -c id'": false,
		"make -E 'all:;id'": false, "make --eval='all:;id'": false, "make -I /tmp": false, "rake -e 'system(1)'": false, "rake -E x": false, "rake -f /tmp/x": false, "rake test": true, "rake X=1": false, "rake -r ./x": false,
		"bundle exec rake -e x": false, "pytest": true, "pytest -p evil": false, "pytest -pevil": false, "pytest -c /tmp/x": false, "pytest -o addopts=-pevil": false, "pytest tests/test_a.py::TestA::test_b[1-2] -k 'a and b'": true,
		"python3 -m pytest -x -q tests": true, "python3 -m pytest --rootdir=/x": false, "jest --config '{\"globalSetup\":\"/x\"}'": false, "jest --config=x": false, "jest --globalSetup x": false, "jest src/a.test.js -t 'adds'": true,
		"npm test": true, "npm test -- --config x": false, "npm run build -- --plugin=x": false, "yarn test src/a": true, "vitest run": true, "vitest --config x": false, "mocha -r ./x": false, "mocha --require x": false,
		"rspec -r ./x": false, "rspec spec/a_spec.rb": true, "eslint --rulesdir x .": false, "eslint -c x .": false, "eslint --fix src": true, "prettier --plugin=x .": false, "prettier --write .": true,
		"tox -x a.b=c": false, "tox -e py312": true, "mypy --python-executable ./x .": false, "mypy src": true, "ctest -S x": false, "ctest --output-on-failure": true, "meson devenv sh": false, "meson test --wrap ./x": false, "meson test -C build": true,
		"dotnet build -p:PreBuildEvent=id": false, "dotnet build /p:PreBuildEvent=id": false, "dotnet test --no-build": true, "cmake -S . -B build": true, "cmake -S . -B build -DCMAKE_C_COMPILER=./x": false, "cmake --build build -- SHELL=x": false,
		"cmake --build build -j 4": true, "ninja -t x": false, "go test ./... -run TestA -count=1": true, "go test -exec ./x ./...": false, "cargo test": true, "cargo test --config x": false, "flake8 --append-config x": false, "black --config x .": false,
		"make -C /tmp": false, "make -C/tmp": false, "make --directory=/tmp": false, "make --directory /tmp": false, "make -C ../x": false, "make -C a/../../x": false, "make -C ~/x": false, "make -C /work/src": true, "make -C /workx": false,
		"cd /tmp && make": false, "cd /tmp; cd x; make": false, "cd && make": false, "cd - && make": false, "cd ~ && make": false, "cd .. && make": false, "cd $X && make": false, "(cd /tmp; make)": false,
		"sh -c 'cd /tmp; make'": false, "for i in 1 2; do make; cd /tmp; done": false, "cd missing/x; make -C ../../tmp": false, "env -C /tmp make": false, "env --chdir=/tmp make": false,
		"CDPATH=/tmp cd x && make": false, "CDPATH=/tmp; cd x && make": false, "export CDPATH=/tmp; cd x; make": false, "export MAKEFLAGS=--eval=x; make": false, "f() { make; }; cd /tmp; f": false,
		"pytest /tmp/t.py": false, "pytest src:/tmp": false, "python3 -m unittest /tmp/evil.py": false, "python3 -m unittest -s/tmp": false, "python3 -m unittest -s /tmp": false, "pytest tests/*.py": true, "pytest tests/$X": false,
		"go test -C /tmp": false, "go test -C=/tmp ./...": false, "go install evil.com/x@latest": false, "go install ./cmd/x": true, "go test ../...": false, "go build -o /tmp/x ./cmd/x": true, "go test -coverprofile=/tmp/c ./...": true,
		"go build -o -C /tmp": false, "go test $(go list ./...)": false, "cargo build --manifest-path /tmp/Cargo.toml": false, "cargo doc --open": false, "cargo fmt -- --config-path /tmp": false, "cargo test --manifest-path=sub/Cargo.toml": true,
		"cmake -S /tmp -B b": false, "cmake --build /tmp/b": false, "ninja -C /tmp": false, "ninja -C build": true, "ctest --test-dir /tmp": false, "tsc -p /tmp": false, "rspec /tmp/x": false, "dotnet build /tmp/x.csproj": false,
		"jest -o /tmp/x.test.js": false, "eslint /tmp/x": false, "npm test -w ../x": false, "make >/dev/null 2>&1": true, "go build -o /dev/null ./...": true, "cd /work/src && make": true, "timeout 60 make": true, "nice -n 5 make test": true,
		"find /tmp -execdir make \\;": false, "find /tmp -exec pytest {} +": false, "find /tmp -exec make -C {} \\;": false, "fd . /tmp -x pytest": false, "xargs make < /tmp/x": false, "ls /tmp | xargs pytest": false,
		"time make": true, "make && cat /tmp/x": true, "ls /etc; make": true, "cat ../x; make": true,
		"ruff check --config x": false, "ruff check .": true, "tsc -p tsconfig.json --noEmit": true, "make $X": false,
	} {
		j := command.NewRules(policy.Shell{}.With(policy.ShellLayer{NoDefault: true, Rules: []policy.ShellRule{{Use: "read_only", Approval: policy.PreApproved}, rule}})).Judge(line)
		if got := j.Verdicts[j.Decides()].Said; got != want {
			t.Errorf("%q: got %v, want %v: %+v", line, got, want, j.Verdicts)
		}
	}
}

package command_test

import (
	"testing"

	"github.com/golem-forge/golem/internal/command"
	"github.com/golem-forge/golem/internal/policy"
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
		"ruff check --config x": false, "ruff check .": true, "tsc -p tsconfig.json --noEmit": true, "make $X": false,
	} {
		if got, _ := command.Matches(rule, line); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

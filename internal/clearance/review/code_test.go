package review_test

import (
	"strings"
	"testing"

	"github.com/golem-forge/golem/internal/clearance/review"
)

// TestCode checks which names become code, and the reasons.
func TestCode(t *testing.T) {
	for why, names := range map[string]string{
		"read by coding agents as instructions": `CLAUDE.md AGENTS.md sub/agents.md GEMINI.md .cursor/rules/a.mdc .cursorrules .github/copilot-instructions.md .windsurfrules
			.clinerules .clinerules/x.md AGENTS.md. .goosehints .junie/guidelines.md a.mdc .github/prompts/x.prompt.md`,
		"settings of a coding agent, which may run commands":       `.mcp.json .claude/settings.json .claude/commands/x.md .cursor/mcp.json .gemini/settings.json .codex/config.toml .aider.conf opencode.json`,
		"a worker or the policy of golem itself":                   `golem-forge.config.yaml x/main.worker`,
		"runs in CI":                                               `.github/workflows/x.yml .GitHub/Workflows/x.yml .gitlab-ci.yml .circleci/config.yml Jenkinsfile azure-pipelines.yml azure-pipelines-2.yml bitbucket-pipelines.yml .woodpecker/x.yml .buildkite/p.yml .travis.yml .forgejo/workflows/x.yml cloudbuild.yaml`,
		"runs at git operations":                                   `.husky/pre-commit .pre-commit-config.yaml lefthook.yml .githooks/x hooks/pre-push pre-commit .lintstagedrc.json`,
		"steers git itself":                                        `.gitattributes a/.gitmodules .gitconfig .lfsconfig .config/git/attributes`,
		"runs when a shell enters the directory":                   `.envrc .direnv/x mise.toml .tool-versions flake.nix shell.nix`,
		"runs when a shell starts":                                 `.bashrc home/.zshrc .profile .config/fish/config.fish Microsoft.PowerShell_profile.ps1`,
		"runs when a program starts":                               `.vimrc .exrc .gdbinit .ripgreprc .dir-locals.el .psqlrc .irbrc .Rprofile .tmux.conf`,
		"keys, or where programs log in and how":                   `.ssh/config x/authorized_keys .aws/credentials .pypirc`,
		"read into the environment of programs":                    `.env .env.local prod.env`,
		"tasks and settings of an editor, which may run commands":  `.vscode/tasks.json .vscode/settings.json .idea/workspace.xml x.code-workspace .zed/tasks.json x.xcodeproj/project.txt x.xcworkspace/xcshareddata/a Properties/launchSettings.json`,
		"builds a container that a machine is made of":             `Dockerfile Dockerfile.dev x.dockerfile .devcontainer/devcontainer.json docker-compose.yml docker-compose.override.yml compose.yaml Vagrantfile Containerfile`,
		"a build runs it":                                          `Makefile GNUmakefile makefile.am a.mk justfile .justfile Taskfile.yml build.rs .cargo/config.toml Cargo.toml CMakeLists.txt x.cmake build.gradle.kts gradlew pom.xml meson.build BUILD.bazel Rakefile gulpfile.js binding.gyp configure debian/rules Package.swift x.csproj magefile.go`,
		"a package manager runs it, or installs what it names":     `package.json sub/package.json .npmrc .yarnrc.yml .pnpmfile.cjs setup.py setup.cfg pyproject.toml requirements.txt requirements-dev.txt requirements/dev.txt pip.conf composer.json go.mod`,
		"says which code is installed, and nobody reads it":        `package-lock.json yarn.lock pnpm-lock.yaml Cargo.lock go.sum poetry.lock`,
		"tests run it":                                             `conftest.py a/conftest.py jest.config.js vitest.config.ts .mocharc.json`,
		"Python runs it when it starts":                            `x.pth sitecustomize.py usercustomize.py a.pyc __pycache__/x.bin`,
		"a tool loads it as a program or as plugins":               `webpack.config.js vite.config.ts .eslintrc.js eslint.config.mjs babel.config.js tsconfig.json next.config.mjs drizzle.config.ts .anythingrc.cjs`,
		"changes what is merged, published or installed by itself": `CODEOWNERS .github/dependabot.yml renovate.json`,
		"hidden, as settings of programs often are":                `.jules/x.md .vela.yml .new-agent/rules.txt .config/anything/init .run/a.xml .newtoolrc .github/labeler.yml .foo/.gitignore`,
		"changes machines and what runs on them":                   `main.tf x.tfvars .htaccess kustomization.yaml`,
		"the system starts it, or runs it by the clock":            `x.desktop a.service a.timer crontab cron.d/x x.lnk autorun.inf desktop.ini ld.so.preload x.command x.workflow/document.wflow x.settingcontent-ms`,
	} {
		for name := range strings.FieldsSeq(names) {
			if got, ok := review.Code(name); !ok || got != why {
				t.Errorf("%s: got %q, want %q", name, got, why)
			}
			if got, ok := review.Code("/a/b/" + name); !ok || got != why {
				t.Errorf("/a/b/%s: got %q, want %q", name, got, why)
			}
		}
	}
	for name := range strings.FieldsSeq(`.editorconfig README.md LICENSE main.go src/lib.rs a.txt docs/claude/notes.md report.pdf .gitignore .prettierrc .nvmrc src/hooks/useX.ts
		data/package.json.md makefile/x.txt agents.md/x.txt environment.txt x.environment mygithub/workflows/x.yml github/workflows/x.yml build/out.txt workspace/a.txt envrc bashrc.md
		rules.md src/rules/a.go packages.json index.html style.css photo.jpg table.csv notes.service.md vendor/x.go roles/admin.ts Info.plist CHANGELOG.md
		.gitkeep a/.keep .github/ISSUE_TEMPLATE/bug.md .github/pull_request_template.md .prettierrc.json .dockerignore .mailmap x/profile.js config.ts`) {
		if got, ok := review.Code(name); ok {
			t.Errorf("%s: got %q, want nothing", name, got)
		}
	}
}

// TestMovedCode checks which files become code when they move. Code that programs find by its
// place becomes code at each new place.
func TestMovedCode(t *testing.T) {
	for _, row := range []struct{ from, to, want string }{
		{"/third_party/foo/.github/workflows/ci.yml", "/.github/workflows/ci.yml", "runs in CI"},
		{"/a/third_party/.github/workflows/ci.yml", "/a/.github/workflows/ci.yml", "runs in CI"},
		{"/third_party/.github/workflows/ci.yml", "/app/.github/workflows/ci.yml", "runs in CI"},
		{"/.github/workflows/off/ci.yml", "/.github/workflows/ci.yml", "runs in CI"},
		{"/docs/pre-commit", "/.husky/pre-commit", "runs at git operations"},
		{"/.husky/old", "/.husky/pre-push", "runs at git operations"},
		{"/tp/.vscode/tasks.json", "/.vscode/tasks.json", "tasks and settings of an editor, which may run commands"},
		{"/tp/Makefile", "/Makefile", "a build runs it"},
		{"/tp/package.json", "/packages/tp/package.json", "a package manager runs it, or installs what it names"},
		{"/tp/.new-tool/x", "/.new-tool/x", "hidden, as settings of programs often are"},
		{"/docs/x", "/.new-tool/x", "hidden, as settings of programs often are"},
		{"/docs/x", "/docs/x.sh", "a script, which people and programs run"},
		{"/tools/x.sh", "/scripts/x.sh", ""},
		{"/a/x.ipynb", "/b/x.ipynb", ""},
		{"/a/x.docm", "/b/x.docm", ""},
		{"/a/x.jar", "/b/x.jar", ""},
		{"/a/x.sh", "/b/x.jar", "a packed program, which people and programs run"},
		{"/.github/workflows/ci.yml", "/docs/ci.yml", ""},
		{"/docs/a.md", "/doc/a.md", ""},
	} {
		if got, ok := review.MovedCode(row.from, row.to); got != row.want || ok != (row.want != "") {
			t.Errorf("%s to %s: got %q, %t, want %q", row.from, row.to, got, ok, row.want)
		}
	}
}

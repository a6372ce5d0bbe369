package review

import (
	"slices"
	"strings"
	"sync"
)

// Code returns why a file becomes code when it is trusted, or controls which code runs.
// It returns "" and false for other files. It looks only at the name, folded as the most
// lenient file systems compare names.
func Code(name string) (why string, ok bool) {
	e, ok := find(name)
	return e.why, ok
}

// MovedCode returns why a file becomes code when it moves to another name. It returns "" and
// false if the new name is not that of code. Programs look for most code at a certain place:
// .github/workflows in a directory of third parties does not run in CI, and in the top
// directory it does. So a move makes such a file code even if its old name has the same
// reason. Other code, such as a script, runs wherever it is.
func MovedCode(from, to string) (why string, ok bool) {
	was, _ := find(from)
	is, ok := find(to)
	if !ok || is.why == was.why && slices.Contains(anywhere, is.why) {
		return "", false
	}
	return is.why, true
}

func find(name string) (entry, bool) {
	parts := strings.Split(strings.Trim(name, "/"), "/")
	for i := range parts {
		parts[i] = fold(parts[i])
	}
	t := known()
	// The parts nearest to the file say most about it, and a whole name says more than a
	// pattern.
	for i := len(parts) - 1; i >= 0; i-- {
		if e, ok := first(t.words[parts[i]], parts[i:]); ok {
			return e, true
		}
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if e, ok := t.patterns.first(parts[i:]); ok {
			return e, true
		}
	}
	for i := len(parts) - 1; i >= 0; i-- {
		if !strings.HasPrefix(parts[i], ".") {
			continue
		}
		if _, harmless := first(t.harmless, parts[i:]); !harmless {
			return entry{why: hidden}, true
		}
	}
	return entry{}, false
}

// hidden is the reason for files that are only known by their leading dot. Many programs
// keep their settings in such files, and new programs appear every week.
const hidden = "hidden, as settings of programs often are"

// script is the reason for files that run only if somebody calls them. A file is also a script
// if it begins with #!, whatever its name and its permission bits are.
const script = "a script, which people and programs run"

// The reasons for other files that run only if somebody opens or calls them.
const (
	notebook = "a notebook, which runs its cells"
	macros   = "a document with macros, which office programs run"
	packed   = "a packed program, which people and programs run"
)

// anywhere are the reasons that do not depend on the place of a file.
var anywhere = []string{script, notebook, macros, packed}

// worker is the reason for YAML files that golem reads as workers in the directories for them.
const worker = "has the keys of a worker of golem"

// first returns the first entry that matches the parts of a path.
func first(list []entry, parts []string) (entry, bool) {
	i := slices.IndexFunc(list, func(e entry) bool { return e.matches(parts) })
	if i < 0 {
		return entry{}, false
	}
	return list[i], true
}

// An entry is a pattern for the last parts of a path. A pattern that ends in a slash
// matches a directory and everything in it. A star matches any text within one part.
type entry struct {
	parts  []string
	folder bool
	why    string
}

// matches reports whether the given parts, up to the end of a path, match the entry.
func (e entry) matches(parts []string) bool {
	if len(parts) < len(e.parts) || len(parts) == len(e.parts) && e.folder || len(parts) > len(e.parts) && !e.folder {
		return false
	}
	for i, p := range e.parts {
		if !matchPattern(p, parts[i]) {
			return false
		}
	}
	return true
}

// matchPattern reports whether a name matches a pattern.
func matchPattern(pattern, name string) bool {
	begin, rest, star := strings.Cut(pattern, "*")
	if !star {
		return name == pattern
	}
	if !strings.HasPrefix(name, begin) {
		return false
	}
	name = name[len(begin):]
	if !strings.Contains(rest, "*") {
		return strings.HasSuffix(name, rest)
	}
	for i := range len(name) + 1 {
		if matchPattern(rest, name[i:]) {
			return true
		}
	}
	return false
}

// patterns holds entries whose first part has a star, by the byte that a name must begin
// or end with. Only a few of the hundreds of patterns are then compared with a name.
type patterns struct {
	all    []entry
	begins [256][]int // numbers of entries
	ends   [256][]int // numbers of entries that begin with a star
	rest   []int      // numbers of entries that begin and end with one
}

// add adds an entry.
func (p *patterns) add(e entry) {
	n, word := len(p.all), e.parts[0]
	p.all = append(p.all, e)
	switch begin, end := word[0], word[len(word)-1]; {
	case begin != '*':
		p.begins[begin] = append(p.begins[begin], n)
	case end != '*':
		p.ends[end] = append(p.ends[end], n)
	default:
		p.rest = append(p.rest, n)
	}
}

// first returns the first entry that matches the parts of a path.
func (p *patterns) first(parts []string) (entry, bool) {
	lists := [3][]int{p.rest}
	if name := parts[0]; name != "" {
		lists[1], lists[2] = p.begins[name[0]], p.ends[name[len(name)-1]]
	}
	found := len(p.all)
	for _, list := range lists {
		for _, n := range list {
			if n >= found {
				break
			}
			if p.all[n].matches(parts) {
				found = n
			}
		}
	}
	if found == len(p.all) {
		return entry{}, false
	}
	return p.all[found], true
}

// A table holds the entries for fast lookup.
type table struct {
	words    map[string][]entry // by first part
	patterns patterns           // entries whose first part has a star
	harmless []entry            // hidden files that are not code
}

var known = sync.OnceValue(func() *table {
	t := &table{words: make(map[string][]entry), harmless: entries("", harmless)}
	for _, group := range trusted {
		for _, e := range entries(group.why, group.names) {
			if first := e.parts[0]; strings.Contains(first, "*") {
				t.patterns.add(e)
			} else {
				t.words[first] = append(t.words[first], e)
			}
		}
	}
	return t
})

// entries reads a list of patterns.
func entries(why, names string) (list []entry) {
	for pattern := range strings.FieldsSeq(names) {
		bare, folder := strings.CutSuffix(pattern, "/")
		list = append(list, entry{strings.Split(bare, "/"), folder, why})
	}
	return list
}

// harmless are hidden files that choose among what exists, or that only people read.
const harmless = `
	.editorconfig .gitignore .gitkeep .keep .nvmrc .node-version .ruby-version .java-version .go-version .terraform-version .swift-version .mailmap .git-blame-ignore-revs
	.prettierrc .prettierrc.json .prettierrc.yaml .prettierrc.yml .prettierrc.toml .prettierignore .eslintignore .stylelintignore .markdownlintignore .dockerignore .npmignore .helmignore
	.gcloudignore .vercelignore .hgignore .ignore .rgignore .fdignore .clang-format .clang-format-ignore .rustfmt.toml .scalafmt.conf .markdownlint.json .markdownlint.yaml .markdownlint.yml
	.cspell.json .codespellrc .typos.toml .all-contributorsrc .isort.cfg .browserslistrc .nojekyll .well-known/ .github/issue_template/ .github/pull_request_template/ .github/discussion_template/
	.github/*.md .github/funding.yml .gitlab/issue_templates/ .gitlab/merge_request_templates/ .reuse/`

// trusted are the files that become code when they are trusted, by the reason. Names are
// in lower case.
var trusted = []struct{ why, names string }{
	{"read by coding agents as instructions", `
		agents.md agents.override.md agent.md claude.md claude.local.md gemini.md qwen.md codex.md warp.md crush.md conventions.md
		.cursorrules .cursor/rules/ .windsurfrules .windsurf/rules/ .windsurf/workflows/ .clinerules .clinerules/ .roorules .roo/ .roomodes
		.rules .goosehints .aider.conf.yml .junie/guidelines.md .kiro/steering/ .kilocode/ .augment-guidelines .augment/ .continue/ .continuerules
		.trae/rules/ .amazonq/rules/ .idx/airules.md .github/copilot-instructions.md .github/instructions/ .github/prompts/ .github/chatmodes/ .github/agents/
		.openhands/ .openhands_instructions replit.md .replit.md llms.txt llms-full.txt skill.md *.mdc *.prompt.md *.instructions.md *.chatmode.md jules.md devin.md bugbot.md memory-bank/`},
	{"settings of a coding agent, which may run commands", `
		.claude/ .mcp.json mcp.json .cursor/ .codex/ .gemini/ .qwen/ .opencode/ opencode.json opencode.jsonc .crush.json crush.json .goose/ .amp/ .zencoder/
		.aider* .windsurf/ .kiro/ .junie/ .trae/ .amazonq/ .copilot/ .agents/ .factory/ .mcp/ .bolt/ .devin/ .tabnine/ .sourcegraph/ .rovodev/ claude_desktop_config.json .geminiignore .aiexclude
		mcp.yaml mcp_config.json smithery.yaml gemini-extension.json .claude-plugin/ ellipsis.yaml sweep.yaml greptile.json`},
	{"a worker or the policy of golem itself", `golem-forge.config.yaml golem-forge.config.yml golem-forge.yaml golem-forge.yml *.worker`},
	{"runs in CI", `
		.github/workflows/ .github/actions/ action.yml action.yaml .gitlab-ci.yml .gitlab-ci.yaml .gitlab/ci/ .gitlab-ci/ .circleci/ .travis.yml appveyor.yml .appveyor.yml
		azure-pipelines.yml azure-pipelines.yaml azure-pipelines*.yml .azure-pipelines/ .azuredevops/ jenkinsfile jenkinsfile.* *.jenkinsfile bitbucket-pipelines.yml
		.drone.yml .drone.star .drone.jsonnet .woodpecker.yml .woodpecker.yaml .woodpecker/ .buildkite/ .semaphore/ .cirrus.yml .cirrus.star buildspec.yml buildspec.yaml
		cloudbuild.yaml cloudbuild.yml cloudbuild.json .teamcity/ .forgejo/ .gitea/ .builds/ .build.yml codemagic.yaml bitrise.yml wercker.yml .tekton/ .concourse/
		.harness/ .scrutinizer.yml .styleci.yml .ci/ .sr.ht/ dagger.json .dagger/ earthfile codeship-steps.yml tox.ini noxfile.py .zuul.yaml .zuul.yml zuul.d/ .prow/ .prow.yaml
		azure-pipelines*.yaml codefresh.yml screwdriver.yaml *.gocd.yaml vars/*.groovy sonar-project.properties`},
	{"changes what is merged, published or installed by itself", `
		.github/dependabot.yml .github/dependabot.yaml renovate.json renovate.json5 .renovaterc .renovaterc.json .mergify.yml .github/mergify.yml .kodiak.toml
		codeowners .releaserc .releaserc.json .releaserc.yml release.config.js .goreleaser.yml .goreleaser.yaml .github/settings.yml .github/codeql/
		goreleaser.yml goreleaser.yaml owners owners_aliases release-please-config.json release.toml dist.toml dist-workspace.toml`},
	{"runs at git operations", `
		.husky/ .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml lefthook.toml lefthook.json
		lefthook-local.yml .lefthook/ .githooks/ .git-hooks/ githooks/ git-hooks/ .hooks/ .overcommit.yml captainhook.json .lintstagedrc .lintstagedrc.* lint-staged.config.*
		.huskyrc .huskyrc.* .simple-git-hooks.* simple-git-hooks.* .commitlintrc.js commitlint.config.* grumphp.yml .rusty-hook.toml .pre-commit/
		applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase post-checkout
		post-merge pre-push pre-receive update.sample post-receive post-update reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman`},
	{"steers git itself", `
		.gitattributes .gitmodules .gitconfig .git/ .git .gitconfig.local .lfsconfig .config/git/ .gitallowed .gitleaks.toml .gitleaksignore`},
	{"runs when a shell enters the directory", `
		.envrc .env.rc .direnv/ .direnvrc .config/direnv/ mise.toml .mise.toml .mise/ mise.local.toml .config/mise.toml .config/mise/ .tool-versions .rtx.toml .autoenv .env.leave .in .out
		.shadowenv.d/ .envrc.* devenv.nix devenv.yaml flake.nix shell.nix default.nix .nix/ devbox.json .venv/ venv/ .rvmrc .ondirrc .hermit/`},
	{"read into the environment of programs", `.env .env.* *.env .flaskenv .dockerenv .npmenv env.sh`},
	{"runs when a shell starts", `
		.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout
		.inputrc config.fish .config/fish/ profile.ps1 *_profile.ps1 .xprofile .xinitrc .xsession .xsessionrc .pam_environment .bash_completion .zfunc/ .oh-my-zsh/ .config/nushell/
		profile.d/ .config/environment.d/ environment.d/`},
	{"runs when a program starts", `
		.vimrc .gvimrc .exrc _vimrc .nvimrc .nvim.lua .vim/ .config/nvim/ .emacs .emacs.d/ .dir-locals.el .dir-locals-2.el init.el .gdbinit .gdbinit.* .gdb_history .lldbinit .lldbinit-* .psqlrc .sqliterc
		.irbrc .pryrc .rdebugrc .pythonrc .pythonrc.py .pythonstartup .ipython/ .jupyter/ jupyter_*_config.py .rprofile .renviron .julia/ startup.jl .ghci .ocamlinit .utoprc .erlang .iex.exs .noderc .node_repl_history
		.tmux.conf .screenrc .wezterm.lua kitty.conf .xbindkeysrc .hammerspoon/ .ripgreprc .curlrc .wgetrc .netrc _netrc .digrc .nanorc .lessfilter .lesskey .mailrc .muttrc .sudo_as_admin_successful
		.myclirc .config/gh/ .hgrc hgrc .hg/ .hgsub .bzr/ .svn/ .bazaar/ .jj/ .pijul/`},
	{"keys, or where programs log in and how", `
		.git-credentials .ssh/ authorized_keys authorized_keys2 known_hosts ssh_config sshd_config .gnupg/ .aws/ .azure/ .kube/ kubeconfig .config/gcloud/ .docker/ .pypirc .gem/credentials .vault-token id_rsa id_ed25519 id_ecdsa id_dsa`},
	{"tasks and settings of an editor, which may run commands", `
		.vscode/ *.code-workspace .idea/ *.iml *.ipr *.iws .fleet/ .zed/ .nova/ .vs/ *.suo *.sublime-project *.sublime-build *.sublime-settings .settings/ .project .classpath
		.theia/ .eclipse/ .kakrc .kak/ .helix/ .lapce/ .project.el .projectile .vimspector.json .nvim/ .lvimrc .local.vimrc .ycm_extra_conf.py .ccls .clangd nbproject/ *.xcscheme *.xcworkspace/ *.xcodeproj/
		launch.json tasks.vs.json launch.vs.json launchsettings.json cmakesettings.json coc-settings.json omnisharp.json rust-analyzer.toml rust-project.json hie.yaml *.run.xml *.kdev4 *.user`},
	{"builds a container that a machine is made of", `
		.devcontainer/ devcontainer.json .devcontainer.json .gitpod.yml .gitpod.dockerfile .gitpod.yaml dockerfile dockerfile.* *.dockerfile containerfile containerfile.*
		docker-compose.yml docker-compose.yaml docker-compose*.yml docker-compose*.yaml compose.yml compose.yaml compose.*.yml compose.*.yaml docker-bake.hcl docker-bake.json vagrantfile .replit replit.nix
		.idx/ .stackblitzrc .codesandbox/ codesandbox.json apptainer.def singularity singularity.* *.nspawn cloud-init.yaml user-data packer.json *.pkr.hcl tiltfile skaffold.yaml captain-definition procfile procfile.* devfile.yaml coder.yaml devcontainer-feature.json`},
	{"a build runs it", `
		makefile gnumakefile bsdmakefile makefile.* *.mk *.make *.mak justfile .justfile *.just taskfile.yml taskfile.yaml taskfile.dist.yml taskfile.dist.yaml magefile.go magefiles/ rakefile rakefile.rb *.rake
		cmakelists.txt *.cmake cmakepresets.json cmakeuserpresets.json meson.build meson_options.txt meson.options sconstruct sconscript wscript waf build.ninja *.ninja premake5.lua xmake.lua build.xml
		configure configure.ac configure.in *.m4 autogen.sh bootstrap.sh build.sh install.sh setup.sh gulpfile.* gruntfile.* jakefile jakefile.* cakefile
		build.gradle build.gradle.kts settings.gradle settings.gradle.kts *.gradle *.gradle.kts gradlew gradlew.bat gradle.properties gradle/wrapper/ init.gradle buildsrc/ pom.xml mvnw mvnw.cmd .mvn/ build.sbt project/plugins.sbt project/build.properties build.sc build.mill
		build.bazel build workspace workspace.bazel module.bazel *.bzl *.bazel .bazelrc .bazelversion buck *.buck .buckconfig pants.toml pants build.please .plzconfig
		build.rs cargo.toml .cargo/ rust-toolchain rust-toolchain.toml clippy.toml .clippy.toml build.zig build.zig.zon dune dune-project *.opam *.cabal setup.hs stack.yaml cabal.project package.swift *.podspec podfile cartfile fastlane/
		mix.exs rebar.config rebar.config.script build.boot project.clj deps.edn shadow-cljs.edn build.clj *.asd *.nimble *.gemspec gemfile shard.yml
		*.csproj *.fsproj *.vbproj *.vcxproj *.sln *.props *.targets nuget.config directory.build.* *.proj global.json build.cake *.cake build.fsx paket.dependencies msbuild.rsp
		dub.json dub.sdl build.jl deps/build.jl makefile.pl build.pl cpanfile dist.ini conanfile.py conanfile.txt vcpkg.json spack.yaml *.spec pkgbuild *.ebuild debian/rules debian/preinst debian/postinst debian/prerm debian/postrm
		snapcraft.yaml *.flatpak.yml binding.gyp *.gyp *.gypi hardhat.config.* truffle-config.js foundry.toml remappings.txt android.mk android.bp kbuild kconfig
		*.xcconfig *.pbxproj *.slnx *.rsp *.tt *.csx *.nuspec *.pro *.qbs *.cbp *.sbt project/*.scala *.nix *.rockspec tools/bazel configure.win makevars makevars.win install-sh ltmain.sh config.guess config.sub
		cross.toml moon.yml moon.yaml tauri.conf.json electron-builder.yml electron-builder.yaml air.toml modd.conf reflex.conf bacon.toml book.toml latexmkrc arara.yaml renv/activate.r buf.gen.yaml mockery.yaml mockery.yml`},
	{"a package manager runs it, or installs what it names", `
		package.json .npmrc .yarnrc .yarnrc.yml .yarn/ .pnpmfile.cjs .pnpmfile.mjs pnpm-workspace.yaml bunfig.toml bower.json lerna.json nx.json turbo.json rush.json common/config/rush/ workspace.json project.json deno.json deno.jsonc import_map.json jsr.json
		setup.py setup.cfg pyproject.toml pipfile requirements.txt requirements*.txt requirements/*.txt constraints.txt pip.conf pip.ini uv.toml .python-version environment.yml environment.yaml conda.yaml .condarc meta.yaml poetry.toml pdm.toml .pdm.toml hatch.toml hatch_build.py
		composer.json go.mod go.work .gemrc .bundle/ .m2/settings.xml brewfile apt.conf sources.list sources.list.d/ node_modules/ package.json5 package.yaml pixi.toml requirements*.in project.toml gradle/libs.versions.toml`},
	{"says which code is installed, and nobody reads it", `
		package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock poetry.lock uv.lock pdm.lock pipfile.lock conda-lock.yml cargo.lock go.sum go.work.sum gemfile.lock composer.lock
		mix.lock pubspec.lock podfile.lock package.resolved flake.lock packages.lock.json paket.lock gradle.lockfile .terraform.lock.hcl module.bazel.lock shard.lock rebar.lock cabal.project.freeze stack.yaml.lock conan.lock pixi.lock renv.lock manifest.toml`},
	{"tests run it", `
		conftest.py pytest.ini .coveragerc .pytest.ini jest.config.* jest.setup.* vitest.config.* vitest.setup.* vitest.workspace.* karma.conf.* mocharc.* .mocharc.* cypress.config.* playwright.config.* wdio.conf.* .nycrc .nycrc.* ava.config.* protractor.conf.js
		phpunit.xml phpunit.xml.dist phpstan.neon .rspec spec_helper.rb test_helper.rb testng.xml codecept.conf.* cucumber.js .taprc web-test-runner.config.* phpstan.neon.dist phpstan-baseline.neon psalm.xml psalm.xml.dist pytest.toml behave.ini locustfile.py nightwatch.conf.*`},
	{"Python runs it when it starts", `*.pth sitecustomize.py usercustomize.py __init__.pth *.pyc *.pyo __pycache__/ python*._pth *.egg-link pyvenv.cfg __main__.py`},
	{"a tool loads it as a program or as plugins", `
		webpack.config.* vite.config.* rollup.config.* esbuild.config.* rspack.config.* rsbuild.config.* tsup.config.* next.config.* nuxt.config.* svelte.config.* astro.config.* remix.config.* gatsby-*.js angular.json metro.config.js
		babel.config.* .babelrc .babelrc.* .swcrc postcss.config.* .postcssrc .postcssrc.* tailwind.config.* .eslintrc .eslintrc.* eslint.config.* .prettierrc.js .prettierrc.cjs .prettierrc.mjs prettier.config.* .stylelintrc .stylelintrc.* stylelint.config.* .remarkrc .remarkrc.*
		tsconfig.json tsconfig.*.json jsconfig.json .parcelrc .storybook/ .umirc.* craco.config.* vue.config.* quasar.config.* ecosystem.config.* nodemon.json .nodemonrc .graphqlrc graphql.config.* codegen.yml codegen.ts orval.config.*
		.rubocop.yml .pylintrc pylintrc mypy.ini .mypy.ini ruff.toml .ruff.toml .flake8 .golangci.yml .golangci.yaml .golangci.toml .php-cs-fixer.php .php-cs-fixer.dist.php rector.php .scalafix.conf .swiftlint.yml .clang-tidy .ansible-lint .yamllint .hadolint.yaml .markdownlint-cli2.* .markdownlint.cjs
		manage.py wsgi.py asgi.py fabfile.py invoke.yaml dodo.py snakefile *.smk nextflow.config *.nf dvc.yaml airflow.cfg luigi.cfg mkdocs.yml conf.py _config.yml hugo.toml .readthedocs.yml .readthedocs.yaml netlify.toml vercel.json wrangler.toml wrangler.json wrangler.jsonc firebase.json fly.toml render.yaml railway.json serverless.yml serverless.yaml serverless.ts samconfig.toml amplify.yml
		*.config.js *.config.cjs *.config.mjs *.config.jsx *.config.ts *.config.cts *.config.mts *.config.tsx *.conf.js *.conf.cjs *.conf.mjs *.conf.ts .*rc.js .*rc.cjs .*rc.mjs .*rc.ts plopfile.* knexfile.*
		guardfile capfile thorfile *.thor dangerfile dangerfile.* steepfile appraisals fastfile config.ru ember-cli-build.js brunch-config.js config-overrides.js nest-cli.json gatsby-*.ts mkdocs.yaml _quarto.yml _quarto.yaml
		gunicorn.conf.py celeryconfig.py ipython_config.py uwsgi.ini alembic.ini alembic/env.py pavement.py invoke.yml _targets.r`},
	{"changes machines and what runs on them", `
		*.tf *.tf.json *.tfvars terragrunt.hcl .terraformrc terraform.rc *.nomad *.hcl pulumi.yaml pulumi.*.yaml cdk.json cdktf.json ansible.cfg playbook.yml site.yml inventory inventory.ini hosts.ini puppetfile *.pp berksfile cheffile kustomization.yaml kustomization.yml chart.yaml helmfile.yaml argocd/ flux-system/
		nginx.conf httpd.conf .htaccess .user.ini php.ini web.config`},
	{"the system starts it, or runs it by the clock", `
		*.service *.timer *.socket *.mount *.automount *.desktop *.directory autostart/ crontab crontabs/ cron.d/ cron.daily/ cron.hourly/ cron.weekly/ cron.monthly/ anacrontab init.d/ rc.local rc.d/ launchagents/ launchdaemons/ .config/systemd/ systemd/ udev/rules.d/ modprobe.d/ sudoers sudoers.d/
		*.reg *.lnk *.url *.webloc *.scf *.inf autorun.inf desktop.ini *.vbs *.vbe *.wsf *.wsh *.hta *.jse *.msc *.scr *.cpl *.workflow *.scpt *.applescript *.command .xsessions ld.so.preload ld.so.conf ld.so.conf.d/ .ld.so.conf
		*.library-ms *.searchconnector-ms *.search-ms *.settingcontent-ms *.theme *.appref-ms *.application *.appinstaller *.gadget *.diagcab *.iqy *.slk *.jnlp *.rdp *.ica *.sct *.wsc *.ps1xml *.psd1 *.pssc *.pif *.ahk *.au3
		*.mobileconfig *.terminal *.inetloc *.fileloc *.afploc *.app/ *.workflow/ *.action/ *.bundle/ *.plugin/ *.prefpane/ *.kext/ *.scptd/ *.flatpakref`},
	{notebook, `*.ipynb *.rmd *.qmd *.rnw *.jmd`},
	{macros, `*.docm *.dotm *.xlsm *.xltm *.xlam *.xlsb *.pptm *.potm *.ppsm *.ppam *.sldm`},
	{packed, `*.jar *.war *.ear *.pyz *.phar`},
	{"Emacs runs it when it loads it", `*.el *.elc`},
	{script, `
		*.sh *.bash *.zsh *.fish *.ksh *.csh *.bat *.cmd *.ps1 *.psm1 bin/ scripts/*.py scripts/*.js scripts/*.mjs scripts/*.cjs scripts/*.ts scripts/*.rb scripts/*.pl scripts/*.php scripts/*.lua scripts/*.r`},
}

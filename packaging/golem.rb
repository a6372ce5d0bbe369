# The Homebrew formula of golem. make dist fills in the version and the hashes.
class Golem < Formula
  desc "Run AI agents in a jail and review what they made"
  homepage "https://github.com/golem-forge/golem"
  version "@VERSION@"
  license "MIT"

  place = ENV.fetch("HOMEBREW_GOLEM_PLACE", "https://github.com/golem-forge/golem/releases/download/v@VERSION@")
  on_macos do
    on_arm do
      url "#{place}/golem_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@SHA256_DARWIN_ARM64@"
    end
    on_intel do
      url "#{place}/golem_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@SHA256_DARWIN_AMD64@"
    end
  end
  on_linux do
    on_arm do
      url "#{place}/golem_@VERSION@_linux_arm64.tar.gz"
      sha256 "@SHA256_LINUX_ARM64@"
    end
    on_intel do
      url "#{place}/golem_@VERSION@_linux_amd64.tar.gz"
      sha256 "@SHA256_LINUX_AMD64@"
    end
  end

  def install
    bin.install "bin/golem", "bin/golem-hub"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/golem"
    zsh_completion.install "share/zsh/vendor-completions/_golem"
    fish_completion.install "share/fish/vendor_completions.d/golem.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/golem version")
  end
end

#!/bin/sh
# Installs golem from the files of a release, after it has checked their hashes. It needs no root.
set -eu

usage() {
  cat <<'END'
Installs golem from the files of a release, after it has checked their hashes. It needs no root.

  sh install.sh --from PLACE [--to DIR] [--key KEY] [--hub]
  sh install.sh --remove [--to DIR]

PLACE is the address (https://…) or the directory with all files of a release. DIR is
~/.local by default: the programs go to DIR/bin, manual pages and completions to DIR/share.
With --key, SHA256SUMS must have a signature by this minisign key. KEY is the key, or the
file that has it. --hub also installs golem-hub. --remove deletes the installed files, and
keeps your sessions and settings.
END
}
fail() { echo "install.sh: $*" >&2; exit 1; }

from='' to='' key='' hub='' remove=''
while [ $# -gt 0 ]; do
  case $1 in
    --from | --to | --key)
      [ -n "${2:-}" ] || fail "$1 needs a value; sh install.sh --help explains it"
      case $1 in --from) from=$2 ;; --to) to=$2 ;; --key) key=$2 ;; esac
      shift 2
      ;;
    --hub) hub=yes; shift ;;
    --remove) remove=yes; shift ;;
    -h | --help) usage; exit 0 ;;
    *) fail "unknown argument $1; there are --from, --to, --key, --hub and --remove" ;;
  esac
done
if [ -z "$to" ]; then
  [ -n "${HOME:-}" ] || fail "HOME is not set; name the directory to install to with --to DIR"
  to=$HOME/.local
fi
while :; do case $to in ?*/) to=${to%/} ;; *) break ;; esac; done
case $to in /*) ;; *) to=$(pwd)/$to ;; esac # PATH needs it

if [ -n "$remove" ]; then
  [ -e "$to/bin/golem" ] || fail "there is no $to/bin/golem; name the directory of the installation with --to DIR"
  rm -f "$to/bin/golem" "$to/bin/golem-hub" "$to"/share/man/man1/golem.1.gz "$to"/share/man/man1/golem-*.1.gz \
    "$to/share/bash-completion/completions/golem" "$to/share/zsh/vendor-completions/_golem" \
    "$to/share/fish/vendor_completions.d/golem.fish" || fail "cannot delete all files in $to; run it as the user who installed them"
  rm -rf "$to/share/doc/golem"
  echo "removed: golem in $to"
  echo "note: your sessions are still in ${XDG_STATE_HOME:-~/.local/state}/golem, your settings in ${XDG_CONFIG_HOME:-~/.config}/golem"
  exit 0
fi
[ -n "$from" ] || fail "say where the release is: --from https://… or --from DIR"

case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "there is no archive for $(uname -s) here; on Windows unpack the zip file of the release" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "golem is not built for $(uname -m); build it from a clone with make build" ;;
esac

work=$(mktemp -d) || fail "cannot make a temporary directory; set TMPDIR to a directory that you can write"
trap 'rm -rf "$work" "$to/bin/.golem.new" "$to/bin/.golem-hub.new"' EXIT
trap 'exit 130' HUP INT TERM # a signal alone does not run the line above in every shell
get() { # NAME
  case $from in
    https://*)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https' --tlsv1.2 -o "$work/$1" "${from%/}/$1"
      elif command -v wget >/dev/null; then
        wget -nv --tries=3 --https-only -O "$work/$1" "${from%/}/$1" 2>"$work/wget" || { cat "$work/wget" >&2; false; }
      else
        fail "curl or wget is needed; install one of them, or download the files of the release and use --from DIR"
      fi || fail "cannot read ${from%/}/$1; nothing was installed; check the address after --from"
      ;;
    http://*) fail "$from is not encrypted; use https" ;;
    *) cp "$from/$1" "$work/$1" 2>/dev/null || fail "cannot read $from/$1; nothing was installed; --from names the directory with all files of a release" ;;
  esac
}
sum() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

get SHA256SUMS
if [ -n "$key" ]; then
  command -v minisign >/dev/null || fail "minisign is needed to check the signature; install it, or omit --key"
  if [ -f "$key" ]; then key=$(sed -n '/^RW/p' "$key"); fi
  get SHA256SUMS.minisig
  minisign -Vqm "$work/SHA256SUMS" -P "$key" ||
    fail "SHA256SUMS has no valid signature by this key; nothing was installed; compare the key with the maintainer's, and download the files again"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(golem_[0-9][^ /]*_${os}_$arch\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ "$(printf '%s\n' "$archive" | grep -c .)" = 1 ] ||
  fail "SHA256SUMS does not list exactly one archive for $os/$arch; nothing was installed; check the address after --from"
get "$archive"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
[ "$(sum "$work/$archive")" = "$wanted" ] ||
  fail "$archive does not have the hash in SHA256SUMS; nothing was installed; download it again"

tar -xzf "$work/$archive" -C "$work" || fail "cannot unpack $archive; nothing was installed; set TMPDIR to a directory with more space"
tree=$work/${archive%.tar.gz}
(cd "$tree/share" && find . -type d) >"$work/directories"
while read -r dir; do
  for dir in "$to/bin" "$to/share/${dir#./}"; do
    while [ ! -e "$dir" ]; do dir=$(dirname "$dir"); done
    [ -d "$dir" ] && [ -w "$dir" ] || fail "cannot install to $to: cannot write in ${dir%/.}; nothing was installed; use a directory of yours: --to DIR"
  done
done <"$work/directories"
[ ! -d "$to/bin/golem" ] || fail "$to/bin/golem is a directory; nothing was installed; use another directory: --to DIR"
mkdir -p "$to/bin" "$to/share"
for program in golem ${hub:+golem-hub}; do
  cp "$tree/bin/$program" "$to/bin/.$program.new" || fail "cannot write $to/bin; nothing was installed"
  chmod 755 "$to/bin/.$program.new"
done
version=$("$to/bin/.golem.new" version) || fail "golem does not run in $to/bin; nothing was installed; use another directory: --to DIR"
cp -R "$tree/share/." "$to/share/" || fail "cannot write all files in $to/share; the programs are as before; run it again"
for program in golem ${hub:+golem-hub}; do
  mv -f "$to/bin/.$program.new" "$to/bin/$program" # a running program can be replaced, but not overwritten
done
echo "installed: $to/bin/golem ($version)"
case :$PATH: in
  *":$to/bin:"*) ;;
  *) echo "next: export PATH=\"$to/bin:\$PATH\"; add this line to the startup file of your shell, too" ;;
esac
echo "next: golem doctor says which guarantees hold on this machine"
echo "next: golem exec claude, in the directory of a project, runs your agent in the jail"

#!/bin/sh
# Installs golem from the files of a release, after it has checked their hashes. It needs no root.
#
#   sh install.sh --from PLACE [--to DIR] [--key KEY] [--hub]
#
# PLACE is the address (https://…) or the directory with the files of a release. DIR is
# ~/.local by default: the programs go to DIR/bin, manual pages and completions to DIR/share.
# With --key, SHA256SUMS must have a signature by this minisign key. --hub also installs
# golem-hub.
set -eu

fail() { echo "install.sh: $*" >&2; exit 1; }

from='' to=$HOME/.local key='' hub=''
while [ $# -gt 0 ]; do
  case $1 in
    --from) from=${2:?--from needs an address or a directory}; shift 2 ;;
    --to) to=${2:?--to needs a directory}; shift 2 ;;
    --key) key=${2:?--key needs a minisign key}; shift 2 ;;
    --hub) hub=yes; shift ;;
    -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    *) fail "unknown argument $1; there are --from, --to, --key and --hub" ;;
  esac
done
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
get() { # NAME
  case $from in
    https://*)
      if command -v curl >/dev/null; then
        curl -fsSL --proto '=https' --tlsv1.2 -o "$work/$1" "$from/$1"
      elif command -v wget >/dev/null; then
        wget -q --https-only -O "$work/$1" "$from/$1"
      else
        fail "curl or wget is needed; install one of them"
      fi || fail "$from/$1 cannot be read"
      ;;
    http://*) fail "$from is not encrypted; use https" ;;
    *) cp "$from/$1" "$work/$1" 2>/dev/null || fail "there is no $from/$1" ;;
  esac
}
sum() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

get SHA256SUMS
if [ -n "$key" ]; then
  command -v minisign >/dev/null || fail "minisign is needed to check the signature; install it, or leave out --key"
  get SHA256SUMS.minisig
  minisign -Vqm "$work/SHA256SUMS" -P "$key" || fail "the signature of SHA256SUMS is not by this key; nothing was installed"
fi
archive=$(sed -n "s/^[0-9a-f]\{64\}  \(golem_[0-9][^ /]*_${os}_$arch\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS")
[ "$(printf '%s\n' "$archive" | grep -c .)" = 1 ] || fail "SHA256SUMS does not list exactly one archive for $os/$arch"
get "$archive"
wanted=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" "$work/SHA256SUMS")
[ "$(sum "$work/$archive")" = "$wanted" ] || fail "$archive does not have the hash in SHA256SUMS; nothing was installed"

tar -xzf "$work/$archive" -C "$work"
tree=$work/${archive%.tar.gz}
mkdir -p "$to/bin" "$to/share"
for program in golem ${hub:+golem-hub}; do
  # A program that runs cannot be overwritten, but it can be replaced.
  cp "$tree/bin/$program" "$to/bin/.$program.new" && chmod 755 "$to/bin/.$program.new" && mv -f "$to/bin/.$program.new" "$to/bin/$program"
done
cp -R "$tree/share/." "$to/share/"
echo "installed: $to/bin/golem ($("$to/bin/golem" version))"
case :$PATH: in
  *":$to/bin:"*) ;;
  *) echo "next: export PATH=\"$to/bin:\$PATH\"" ;;
esac
echo "next: golem doctor says which guarantees hold on this machine"

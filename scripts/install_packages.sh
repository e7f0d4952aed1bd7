#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the packages of packages.txt that are missing: scripts/install_packages.sh [--check] [--ci]
#   --check  installs nothing: exit 1 and the line to run if a needed one is missing
#   --ci     includes those that only .ci/run uses
# Without root or sudo it prints the line to run and exits 1.
set -euo pipefail

say() { printf 'fanout: %s\n' "$*" >&2; }

check=false ci=false
for argument in "$@"; do
  case $argument in
    --check) check=true ;;
    --ci) ci=true ;;
    *) say "unknown argument '$argument'; install_packages.sh takes --check and --ci"; exit 2 ;;
  esac
done

script=$(readlink -f -- "${BASH_SOURCE[0]}")
needed=() optional=()
while read -r name kind; do
  case $name:$kind in
    '#'* | :*) ;;
    *:optional) optional+=("$name") ;;
    *:ci) if $ci; then needed+=("$name"); fi ;;
    *) needed+=("$name") ;;
  esac
done <"${script%/*}/packages.txt"

if ! command -v dpkg-query >/dev/null; then
  $check || say "no Debian system; nothing is installed. Needed, under Debian's names: ${needed[*]}"
  exit 0
fi

installed=" $(dpkg-query -W -f='${db:Status-Status}=${Package} ' "${needed[@]}" "${optional[@]}" 2>/dev/null || true) "
# Sets `missing` to those of the arguments that are not installed.
find_missing() {
  missing=()
  local name
  for name in "$@"; do [[ $installed == *" installed=$name "* ]] || missing+=("$name"); done
}
find_missing "${needed[@]}"
needed=("${missing[@]}")
find_missing "${optional[@]}"
optional=("${missing[@]}")

all=("${needed[@]}" "${optional[@]}")

line="apt-get install -y --no-install-recommends ${all[*]}"
say_line() { say "packages are missing; as root, run:  $line"; }

if [[ ${#needed[@]} -eq 0 ]] && { $check || [[ ${#optional[@]} -eq 0 ]]; }; then exit 0; fi
if $check; then say_line; exit 1; fi

sudo=()
if [[ $(id -u) -ne 0 ]]; then
  if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 && -t 2 && ${#needed[@]} -gt 0 ]]; }; then
    sudo=(sudo)
  elif [[ ${#needed[@]} -gt 0 ]]; then
    say_line
    exit 1
  else
    say "faster with ${optional[*]}; as root, run:  $line"
    exit 0
  fi
fi

log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
apt() { "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" </dev/null >>"$log" 2>&1; }
install() { [[ $# -eq 0 ]] || apt install -y --no-install-recommends "$@"; }

say "installing ${all[*]} …"
# The lists of packages may be missing or out of date, and an optional package may not exist here.
if install "${all[@]}" || { apt update && install "${all[@]}"; }; then exit 0; fi
if [[ ${#optional[@]} -gt 0 ]] && install "${needed[@]}"; then
  say "not to be had here: ${optional[*]}; going on without"
  exit 0
fi
cat -- "$log" >&2
say "the packages could not be installed"
say_line
exit 1

#!/usr/bin/env bash
# setup.sh [-y] [-n] [GROUP...] — installs the Debian or Ubuntu packages that a group needs and that are missing.
#
#   GROUP   demo (to build and run; the default), tests (for make check), page (the server's chat page), browser (to
#           test that page), arm (for make arm); several may be given. Beside demo or tests, of page and browser is
#           installed what this system has: without them the program is built without the page, and its tests are
#           skipped.
#   -y      do not ask before using sudo (also without a question: as root, or where CI is set)
#   -n      only say what is missing
# Status 0: all there. 1: something is missing and could not be installed; the last lines say what and why.
# When nothing is missing it neither needs the network nor root, and takes a moment.
set -euo pipefail

fuzzer_runtime='/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a'
# group | package | what shows that it is there: a command, a file, or - for "ask dpkg" | what it is for
packages="
demo  | gcc                | gcc          | the C compiler
demo  | libc6-dev          | -            | headers of the C library
demo  | cmake              | cmake        | finds the libraries, describes the build
demo  | ninja-build        | ninja        | runs the build
demo  | pkg-config         | pkg-config   | tells CMake where libraries are
demo  | libjansson-dev     | -            | JSON: config.json, tokenizer.json, headers of safetensors
demo  | libpcre2-dev       | -            | regular expressions of the pre-tokenizers
demo  | libutf8proc-dev    | -            | Unicode normal forms and classes
demo  | libxxhash-dev      | -            | content hashes
demo  | libyaml-dev        | -            | the server's configuration, keys and presets
demo  | libmicrohttpd-dev  | -            | HTTP
demo  | libedit-dev        | -            | quipu chat: editing the line, searching what was typed
tests | libcmocka-dev      | -            | the unit tests are cmocka programs
tests | python3            | python3      | the checks of layers, symbols and docs, the summary
tests | g++                | g++          | quipu.h must compile as C++
tests | clang              | clang        | the second compiler that all code must pass
tests | libclang-rt-N-dev  | $fuzzer_runtime | sanitizers and libFuzzer for clang
tests | clang-format       | clang-format | the layout of the code
tests | shellcheck         | shellcheck   | the shell scripts
tests | git                | git          | the checks ask git which files belong to the tree
page  | esbuild            | esbuild      | bundles the chat page into one file
page  | python3            | python3      | puts the page and its licences together
page  | node-markdown-it   | -            | markdown in answers
page  | node-highlight.js  | -            | colours of code in answers
page  | node-dompurify     | -            | keeps markup that a model writes harmless
browser | chromium         | chromium     | the page is tested in a real browser
browser | nodejs           | node         | runs the unit tests of the page
arm   | gcc-aarch64-linux-gnu   | aarch64-linux-gnu-gcc | compiles the kernels for 64-bit ARM elsewhere
arm   | libc6-dev-arm64-cross   | -                     | headers of the C library for it
arm   | qemu-user-static        | qemu-aarch64-static   | runs their tests
"

ask=yes only_tell=no groups=()
for argument in "$@"; do
    case $argument in
    -y) ask=no ;;
    -n) only_tell=yes ;;
    -h | --help)
        sed -n '2,/^set -/{s/^# \{0,1\}//;/^set -/d;p}' "$0"
        exit 0
        ;;
    demo | tests | page | browser | arm) groups+=("$argument") ;;
    *)
        echo "setup.sh: '$argument' is neither -y, -n nor a group (demo, tests, page, browser, arm)" >&2
        exit 2
        ;;
    esac
done
[ ${#groups[@]} -gt 0 ] || groups=(demo)
[ -z "${CI:-}" ] || ask=no

say() { echo "setup: $*" >&2; }

trim() {
    local text=$1
    text=${text#"${text%%[![:space:]]*}"}
    echo -n "${text%"${text##*[![:space:]]}"}"
}

# Packages of dpkg that are installed, one per line; asked once for each round of looking.
installed=
ask_dpkg() {
    [ -n "$installed" ] || installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' |
        sed -n 's/\(:[a-z0-9]*\)\{0,1\} installed$//p')
    grep -qx -- "$1" <<<"$installed"
}

is_there() { # package, sign
    case $2 in
    -) ask_dpkg "$1" ;;
    /*) compgen -G "$2" >/dev/null ;;
    *) command -v "$2" >/dev/null || ask_dpkg "$1" ;;
    esac
}

# The page and its browser are a matter of taste where they were not the only thing asked for.
is_optional() { [[ " page browser " == *" $1 "* && " ${groups[*]} " =~ \ (demo|tests)\  ]]; }

missing=() needed=() reasons=() given_up=
find_missing() { # needed: those of the missing that nothing works without
    local group package sign reason
    missing=() needed=() reasons=() installed=
    while IFS='|' read -r group package sign reason; do
        group=$(trim "$group") package=$(trim "$package") sign=$(trim "$sign")
        [ -n "$package" ] || continue
        [[ " ${groups[*]} " == *" $group "* ]] || continue
        [[ " ${missing[*]} $given_up " == *" $package "* ]] && continue
        is_there "$package" "$sign" && continue
        missing+=("$package")
        is_optional "$group" || needed+=("$package")
        reasons+=("  $package:$reason")
    done <<<"$packages"
}

if ! command -v dpkg-query >/dev/null; then
    say "this is no Debian or Ubuntu, so nothing was checked or installed. Needed are, by their Debian names:"
    while IFS='|' read -r group package _ reason; do
        [ -z "$package" ] || [[ " ${groups[*]} " != *" $(trim "$group") "* ]] || say "  $(trim "$package"):$reason"
    done <<<"$packages"
    exit 0
fi

find_missing
[ ${#missing[@]} -gt 0 ] || exit 0
say "missing:"
printf '%s\n' "${reasons[@]}" >&2
[ $only_tell = no ] || exit 1

# The runtime of clang has the version in its name; where clang brings it along (Ubuntu 22.04) there is none to add.
resolve_names() {
    local i version
    for i in "${!missing[@]}"; do
        [ "${missing[i]}" = libclang-rt-N-dev ] || continue
        version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
        if [ -n "$version" ] && apt-cache show "libclang-rt-$version-dev" >/dev/null 2>&1; then
            missing[i]=libclang-rt-$version-dev
        elif [ -n "$version" ]; then
            missing[i]=libclang-common-$version-dev
        else
            missing[i]=clang
        fi
    done
}

# The end where something could not be installed: bad only where it is needed.
give_up() {
    [ ${#needed[@]} -eq 0 ] || exit 1
    say "going on without: ${missing[*]}"
    exit 0
}

# Leaves out what this system does not have at all, where that is no loss.
drop_unknown() {
    local package
    for package in "${missing[@]}"; do
        [[ " ${needed[*]} " != *" $package "* ]] || continue
        apt-cache show "$package" >/dev/null 2>&1 && continue
        say "this system has no package $package, going on without it"
        given_up+=" $package"
    done
}

as_root=()
become_root() {
    [ "$(id -u)" -ne 0 ] || return 0
    local command="sudo apt-get install --no-install-recommends ${missing[*]}"
    if ! command -v sudo >/dev/null; then
        say "you are not root and there is no sudo. As root, run:"
        say "  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
        give_up
    fi
    if [ $ask = yes ]; then
        if [ ! -t 0 ]; then
            say "no terminal to ask at, and -y was not given. Run this, then try again:"
            say "  sudo apt-get update && $command"
            give_up
        fi
        local answer
        read -r -p "setup: run '$command'? [y/N] " answer || answer=
        case $answer in
        y | Y | yes) ;;
        *)
            say "nothing was installed"
            give_up
            ;;
        esac
    fi
    as_root=(sudo)
}

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=120 "$@" </dev/null; }

resolve_names
become_root
log=$(mktemp)
trap 'rm -f "$log"' EXIT
say "installing ${missing[*]}"
if ! apt install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
    say "the package lists may be old or absent: fetching them"
    if ! apt update >"$log" 2>&1 || grep -qE '^(W|E): Failed to fetch' "$log"; then
        grep -E '^(E|W|Err)' "$log" | head -n 5 >&2 || true
        say "apt-get update failed: is the network there, is sudo allowed?"
        give_up
    fi
    drop_unknown
    find_missing
    [ ${#missing[@]} -gt 0 ] || exit 0
    resolve_names
    if ! apt install --no-install-recommends "${missing[@]}" >"$log" 2>&1; then
        grep -E '^(E|W|Err)' "$log" | head -n 10 >&2 || tail -n 10 "$log" >&2
        say "apt-get install failed; the lines above are its own words. Wanted: ${missing[*]}"
        give_up
    fi
fi
find_missing
if [ ${#missing[@]} -gt 0 ]; then
    say "apt-get said it was done, but these are still not there: ${missing[*]}"
    give_up
fi
say "done"

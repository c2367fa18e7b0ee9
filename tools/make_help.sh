#!/bin/sh
# make_help.sh PROGRAM FOLDER — writes the man page and the shell completions that the program prints about itself.
# Called by the build. What the program does not print is left out with a note here, and fails the install test.
set -u
program=$1 folder=$2
mkdir -p "$folder" || exit 1

write() {
    file=$folder/$1
    shift
    "$program" help "$@" >"$file" 2>/dev/null && return
    rm -f "$file"
    echo "note: 'quipu help $*' failed, $file is left out"
}

write quipu.1 --man
write quipu.bash --completion bash
write _quipu --completion zsh
write quipu.fish --completion fish
exit 0

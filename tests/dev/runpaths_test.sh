#!/usr/bin/env bash
# No built file has a run path with an empty or a relative element: the loader would look these up in
# the current directory. No file is linked with UCX, which is loaded when a domain of it is opened
# (docs/decisions/0705-loaded-libraries.md).
# usage: runpaths_test.sh BUILD_DIR
set -euo pipefail
looked=0 bad=0
while IFS= read -r file; do
    [[ $(head -c 4 "$file" | tail -c 3) == ELF ]] || continue
    dynamic=$(readelf -d "$file" 2>/dev/null)
    path=$(sed -nE 's/.*\((RUNPATH|RPATH)\).*\[(.*)\]/\2/p' <<<"$dynamic")
    looked=$((looked + 1))
    if grep -E '\(NEEDED\).*\[libuc[pstm]\.' <<<"$dynamic"; then
        echo "$file: is linked with UCX"
        bad=1
    fi
    [[ -n $path ]] || continue
    case ":$path:" in *::*) echo "$file: an empty element in '$path'"; bad=1 ;; esac
    while IFS= read -r -d : element; do
        [[ $element == /* || $element == \$ORIGIN* || -z $element ]] ||
            { echo "$file: '$element' is relative"; bad=1; }
    done <<<"$path:"
done < <(find "$1" -type f \( -perm -u+x -o -name '*.so*' \) -not -path '*/CMakeFiles/*')
echo "$looked binaries"
((looked > 10 && !bad))

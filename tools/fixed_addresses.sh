#!/bin/sh
# fixed_addresses.sh COMMAND... — runs it without address randomisation, where the system lets us. The sanitizers of
# gcc 12 and clang 14 reserve fixed ranges and die at random on kernels that scatter mappings wider than they expect.
setarch -R true 2>/dev/null && exec setarch -R "$@"
exec "$@"
